"""One error rate shared by a sequence of tests."""

from __future__ import annotations

from collections.abc import Sequence


def fallback_levels(alpha: float, slots: int, accepted: Sequence[bool]) -> tuple[float, ...]:
    """Returns the level of each test of a sequence that together keeps one error rate (fallback).

    The chance that any edit that changes nothing is accepted is at most `alpha`, whatever the tests have to
    do with each other: an acceptance hands its level on to the next test, a failure uses it up.

    Formula: level_i = alpha / slots + (level_{i-1} if test i-1 accepted, else 0); the first term is 0 once
        the slots are over.

    Args:
        alpha: The error rate of the whole sequence, in (0, 1).
        slots: Tests that have a level of their own.
        accepted: What each test decided, in order; shape (m,).

    Returns:
        Shape (m,), each in [0, alpha]. A test at level 0 cannot accept.

    Undefined: never; no tests have no levels.

    Caution: Gate mode `confirm` does not hand levels on: each of its slots has alpha / slots, and an
        acceptance gives only the slot back. Both keep alpha.

    Raises:
        ValueError: `alpha` is not in (0, 1), or there is no slot.

    Source: Wiens (2003), the fallback procedure.
    """
    if not 0.0 < alpha < 1.0 or slots < 1:
        raise ValueError("alpha lies between 0 and 1, and there is at least one slot")
    levels: list[float] = []
    handed_on = 0.0
    for place, won in enumerate(accepted):
        level = handed_on + (alpha / slots if place < slots else 0.0)
        levels.append(level)
        handed_on = level if won else 0.0
    return tuple(levels)
