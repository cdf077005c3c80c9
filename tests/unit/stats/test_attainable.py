"""The smallest p-value that a design can give."""

from __future__ import annotations

import sys

import pytest

from capevolve.stats import sign_flip, smallest_p, within_task_permutation


@pytest.mark.parametrize("counts", [(0, 3, 3), (20, 0, 3), (20, 3, 0), (-1, 3, 3), (20, -1, 3), (0, 0, 0)])
def test_without_trials_in_both_arms_nothing_can_be_rejected(counts: tuple[int, int, int]):
    assert smallest_p(*counts) == 1.0


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1, 1, 1), 1 / 2),
        ((1, 3, 3), 1 / 20),
        ((4, 3, 3), 1 / 20**4),
        ((2, 1, 3), 1 / 16),
        ((5, 2, 6), 28.0**-5),
    ],
)
def test_it_is_one_labelling_of_all(counts: tuple[int, int, int], expected: float):
    assert smallest_p(*counts) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("n", "k_c", "k_i"), [(1, 4, 4), (8, 4, 4), (12, 1, 15), (50, 12, 12), (300, 3, 3)])
def test_the_test_itself_reaches_it(n: int, k_c: int, k_i: int):
    found = within_task_permutation([([1.0] * k_c, [0.0] * k_i)] * n)
    assert found.exact
    assert found.value == pytest.approx(smallest_p(n, k_c, k_i), rel=1e-9)


def test_one_trial_in_both_arms_is_the_sign_flip():
    assert smallest_p(7, 1, 1) == pytest.approx(sign_flip([1.0] * 7).value)


def test_what_no_float_can_hold_is_not_impossible():
    assert smallest_p(10_000, 12, 12) == sys.float_info.min > 0.0
    assert smallest_p(3, 5_000, 5_000) == sys.float_info.min


def test_one_task_with_four_trials_an_arm_cannot_pass_the_last_look_of_confirm_and_two_can():
    # The last look of mode confirm by default: .4 of .2 / 8.
    level = 0.4 * 0.2 / 8
    assert smallest_p(1, 4, 4) > level > smallest_p(2, 4, 4)
