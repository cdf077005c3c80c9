"""Bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest

from capevolve.stats import bca_bootstrap, percentile_bootstrap
from capevolve.stats.bootstrap import find_acceleration, find_bias, resample_means

X = [0.1, 0.9, 0.4, 0.7, 0.7, 0.2, 1.0, 0.0, 0.55, 0.65]
C = ["a", "a", "a", "b", "b", "c", "c", "d", "d", "d"]


@pytest.mark.parametrize("interval", [percentile_bootstrap, bca_bootstrap])
@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5, 0.5]])
def test_fewer_than_two_values_and_constant_values_have_no_interval(interval, values: list[float]):
    assert interval(values, seed=0) is None


@pytest.mark.parametrize("interval", [percentile_bootstrap, bca_bootstrap])
def test_one_cluster_has_no_interval(interval):
    assert interval([0.1, 0.9], seed=0, clusters=["a", "a"]) is None


@pytest.mark.parametrize("interval", [percentile_bootstrap, bca_bootstrap])
def test_singleton_clusters_change_nothing(interval):
    plain = interval(X, seed=3, resamples=500)
    assert plain == interval(X, seed=3, resamples=500, clusters=list(range(10)))
    assert plain != interval(X, seed=4, resamples=500)


def test_clusters_are_resampled_whole():
    means = resample_means([0.0, 0.0, 1.0, 1.0], seed=1, clusters=["a", "a", "b", "b"], resamples=200)
    assert set(means) == {0.0, 0.5, 1.0}


def test_a_resample_of_clusters_weighs_tasks_and_not_clusters():
    means = resample_means([0.0, 0.0, 0.0, 1.0], seed=1, clusters=["a", "a", "a", "b"], resamples=200)
    assert set(means) == {0.0, 0.25, 1.0}


def test_the_draws_do_not_depend_on_how_resamples_are_chunked(monkeypatch: pytest.MonkeyPatch):
    whole = resample_means(X, seed=9, resamples=300)
    monkeypatch.setattr("capevolve.stats.bootstrap._CHUNK", 70)
    np.testing.assert_array_equal(resample_means(X, seed=9, resamples=300), whole)


def test_the_acceleration_equals_the_jackknife_definition():
    left_out = np.array([(sum(X) - x) / 9 for x in X])
    pull = left_out.mean() - left_out
    assert find_acceleration(X) == pytest.approx((pull**3).sum() / (6 * (pull**2).sum() ** 1.5))
    assert find_acceleration([0.5, 0.5]) == 0.0
    assert find_acceleration([0.0, 1e-157, 0.0]) == pytest.approx(find_acceleration([0.0, 1.0, 0.0]))


def test_the_bias_is_undefined_when_all_resamples_lie_on_one_side():
    assert find_bias(np.array([0.1, 0.2]), [0.5, 0.7]) is None
    assert find_bias(np.array([0.6, 0.6]), [0.5, 0.7]) == 0.0
