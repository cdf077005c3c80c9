"""The portable generator."""

from __future__ import annotations

import numpy as np

from capevolve.stats import splitmix64
from capevolve.stats.splitmix import scale_draws

MASK = (1 << 64) - 1


def _reference(seed: int, count: int) -> list[int]:
    """Steele, Lea and Flood's algorithm, step by step on Python integers."""
    state, outputs = seed & MASK, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        outputs.append(z ^ (z >> 31))
    return outputs


def test_the_outputs_equal_the_published_algorithm():
    for seed in (0, 1, 42, MASK, -1, 1 << 70):
        assert splitmix64(seed, 0, 50).tolist() == _reference(seed, 50)


def test_any_range_can_be_made_on_its_own():
    whole = splitmix64(7, 0, 100)
    np.testing.assert_array_equal(splitmix64(7, 60, 40), whole[60:])
    assert len(splitmix64(7, 5, 0)) == 0


def test_indices_stay_in_range_and_reach_all_of_it():
    indices = scale_draws(splitmix64(3, 0, 2_000), 7)
    assert set(indices.tolist()) == set(range(7))
