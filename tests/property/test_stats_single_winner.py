"""One task improves and no other changes: mean and standard error are equal, so neither is above the other.

Which of the two floats is larger depends on n and on the gain. The verdict must not.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.model import Measurement, TaskOutcomes
from capevolve.stats import compare, exceeds, mean_with_stderr, sign_flip, t_cdf

SIZES = range(2, 201)
GAINS = (1.0, 0.1, 0.3, 1 / 3, 2 / 3, 0.7, 1e-3, 0.123456789)


def _measure(rewards: list[list[float]]) -> Measurement:
    tasks = tuple(TaskOutcomes(f"t{i:03d}", tuple(row)) for i, row in enumerate(rewards))
    return Measurement("e", "c", "val", len(rewards[0]), 0, tasks)


@pytest.mark.parametrize("gain", GAINS)
def test_mean_and_error_tie_for_every_number_of_tasks_and_every_place(gain: float):
    for n in SIZES:
        for place in range(n):
            deltas = [0.0] * n
            deltas[place] = gain
            found = mean_with_stderr(deltas)
            assert not exceeds(found.value, found.se, gain / n)
            assert not exceeds(found.se, found.value, gain / n)


def test_the_floats_themselves_would_have_decided_either_way():
    """Why the tie needs a rule: without it the verdict flips with n."""
    bare = {}
    for n in SIZES:
        found = mean_with_stderr([0.1, *[0.0] * (n - 1)])
        bare[n] = found.value > found.se
    assert set(bare.values()) == {True, False}


@given(
    n=st.sampled_from(SIZES),
    place=st.integers(0, 199),
    gain=st.one_of(st.sampled_from(GAINS), st.floats(1e-3, 1.0)),
    base=st.floats(0.0, 1.0),
    trials=st.integers(1, 3),
)
@settings(deadline=None, max_examples=150)
def test_a_comparison_with_one_winner_is_a_tie_wherever_it_starts_from(n, place, gain, base, trials):
    start = base * (1.0 - gain)
    rows = [[start] * trials for _ in range(n)]
    better = [list(row) for row in rows]
    better[place % n] = [start + gain] * trials
    found = compare(_measure(better), _measure(rows))
    magnitude = found.magnitude + found.se
    assert not exceeds(found.mean, found.se, magnitude)
    assert not exceeds(found.se, found.mean, magnitude)
    assert (found.improved, found.worse, found.same) == (1, 0, n - 1)
    assert found.t == pytest.approx(1.0, rel=1e-9)
    assert found.p_t == pytest.approx(t_cdf(-1.0, n - 1), rel=1e-8)
    # The exact p-value is one half at every n.
    assert sign_flip(found.unit_deltas).value == 0.5
