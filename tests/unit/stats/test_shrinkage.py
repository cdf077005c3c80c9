"""James-Stein shrinkage."""

from __future__ import annotations

import pytest

from capevolve.stats import james_stein


def test_fewer_than_four_values_are_not_shrunk():
    assert james_stein([], []) is None
    assert james_stein([0.1, 0.5, 0.9], [0.01] * 3) is None


def test_no_spread_and_no_noise_leave_the_weight_undefined():
    assert james_stein([0.5] * 4, [0.0] * 4) is None


def test_spread_that_is_all_noise_is_pulled_to_the_mean():
    shrunk = james_stein([0.48, 0.5, 0.52, 0.5], [0.01] * 4)
    assert shrunk.weight == 0.0
    assert shrunk.values == pytest.approx((0.5,) * 4)


def test_values_without_noise_stay_where_they_are():
    values = (0.1, 0.4, 0.6, 0.9)
    assert james_stein(values, [0.0] * 4).values == pytest.approx(values)


def test_the_selected_maximum_is_closer_to_the_truth_once_shrunk():
    shrunk = james_stein([0.5, 0.55, 0.48, 0.6, 0.52], [0.0016] * 5)
    assert shrunk.mean < shrunk.values[3] < 0.6


def test_one_variance_per_value_is_needed():
    with pytest.raises(ValueError, match="per value"):
        james_stein([0.1] * 4, [0.1])
