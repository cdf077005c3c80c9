"""Levels of a sequence of tests."""

from __future__ import annotations

import random

import pytest

from capevolve.stats import fallback_levels


def test_without_an_acceptance_every_slot_has_its_own_share():
    assert fallback_levels(0.2, 4, [False] * 4) == (0.05,) * 4


def test_an_acceptance_hands_its_level_on():
    assert fallback_levels(0.2, 4, [True, True, False, False]) == pytest.approx((0.05, 0.1, 0.15, 0.05))


def test_after_the_slots_only_what_was_handed_on_is_left():
    assert fallback_levels(0.2, 2, [False, True, True, False, True]) == pytest.approx(
        (0.1, 0.1, 0.1, 0.1, 0.0)
    )


def test_the_levels_of_the_failures_never_pass_the_error_rate():
    rng = random.Random(3)
    for _ in range(200):
        accepted = [rng.random() < 0.4 for _ in range(12)]
        levels = fallback_levels(0.2, 6, accepted)
        assert sum(level for level, won in zip(levels, accepted, strict=True) if not won) <= 0.2 + 1e-12


def test_no_tests_have_no_levels():
    assert fallback_levels(0.2, 6, []) == ()


@pytest.mark.parametrize(("alpha", "slots"), [(0.0, 6), (1.0, 6), (0.2, 0)])
def test_a_rate_or_number_of_slots_that_cannot_be_is_refused(alpha: float, slots: int):
    with pytest.raises(ValueError, match="alpha"):
        fallback_levels(alpha, slots, [])
