"""Intervals, above all at the edges."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from capevolve.stats import Interval, clopper_pearson, t_interval, wilson


@pytest.mark.parametrize(
    ("mean", "se", "df"), [(None, 0.1, 3), (0.5, None, 3), (0.5, 0.1, None), (0.5, 0.0, 3), (0.5, 0.1, 0)]
)
def test_an_undefined_or_zero_error_gives_no_interval(mean, se, df):
    assert t_interval(mean, se, df) is None


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_no_trials_give_no_interval(interval):
    assert interval(0, 0) is None


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_all_passed_is_never_shown_without_a_width(interval):
    assert interval(20, 20).high == 1.0
    assert interval(20, 20).low < 0.87
    assert interval(0, 20).low == 0.0
    assert interval(0, 20).high > 0.13


@pytest.mark.parametrize(("passed", "n"), [(0, 1), (1, 1), (3, 7), (7, 7), (50, 120)])
@pytest.mark.parametrize(("interval", "method"), [(wilson, "wilson"), (clopper_pearson, "exact")])
def test_both_equal_the_ones_of_scipy(interval, method: str, passed: int, n: int):
    low, high = binomtest(passed, n).proportion_ci(0.9, method)
    found = interval(passed, n, level=0.9)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1])
def test_a_level_outside_zero_and_one_is_refused(level: float):
    for call in (lambda: wilson(1, 2, level), lambda: clopper_pearson(1, 2, level)):
        with pytest.raises(ValueError, match="confidence level"):
            call()
    with pytest.raises(ValueError, match="confidence level"):
        t_interval(0.5, 0.1, 3, level)


def test_more_successes_than_trials_are_refused():
    with pytest.raises(ValueError, match="not a proportion"):
        wilson(3, 2)


def test_the_interval_is_centred_on_the_mean():
    assert t_interval(0.5, 0.1, 3) == Interval(pytest.approx(0.5 - 0.3182446), pytest.approx(0.5 + 0.3182446))
