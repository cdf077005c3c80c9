"""Means and standard errors, above all where they are undefined."""

from __future__ import annotations

import math
import random

import pytest

from capevolve.model import Estimate
from capevolve.stats import (
    MeanEstimate,
    between_variance,
    cluster_robust,
    combined_stderr,
    exceeds,
    fixed_stderr,
    task_stats,
)


def test_a_task_without_a_measured_trial_has_neither_mean_nor_error():
    assert task_stats([]) == Estimate(None, None)


def test_one_trial_has_a_mean_and_no_error():
    assert task_stats([0.25]) == Estimate(0.25, None)


def test_equal_trials_have_an_error_of_zero_which_is_not_undefined():
    assert task_stats([1.0, 1.0]) == Estimate(1.0, 0.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_refused_instead_of_averaged(bad: float):
    with pytest.raises(ValueError, match="not a finite number"):
        task_stats([0.5, bad])


def test_the_combined_error_is_undefined_below_two_tasks():
    assert combined_stderr([], []) is None
    assert combined_stderr([0.5], [0.1]) is None
    assert between_variance([0.5], [0.1]) is None


def test_the_combined_error_is_the_sample_error_when_within_noise_is_unmeasured():
    means = [0.0, 1.0, 1.0, 0.0]
    expected = math.sqrt(1 / 3 / 4)
    assert combined_stderr(means, [None] * 4) == pytest.approx(expected)
    assert combined_stderr(means, [None] * 4, between="raw") == pytest.approx(expected)


def test_the_combined_error_is_not_below_what_trials_alone_explain():
    # Equal task means: no between component is left, trial noise remains.
    assert combined_stderr([0.5, 0.5], [0.2, 0.2]) == pytest.approx(math.sqrt(0.04 / 2))
    assert between_variance([0.5, 0.5], [0.2, 0.2]) == 0.0


def test_the_combined_error_uses_the_tasks_whose_trial_noise_is_known():
    assert combined_stderr([0.5, 0.5, 0.5], [0.3, None, None]) == pytest.approx(0.3 / math.sqrt(3))


def test_the_raw_version_counts_trial_noise_twice_and_the_component_version_once():
    # 200 tasks of equal difficulty, 4 trials: the true error of the mean is sqrt(.25 / 4 / 200).
    rng = random.Random(5)
    true = math.sqrt(0.25 / 4 / 200)
    stats = [task_stats([float(rng.random() < 0.5) for _ in range(4)]) for _ in range(200)]
    means, ses = [s.value or 0.0 for s in stats], [s.se for s in stats]
    assert combined_stderr(means, ses) == pytest.approx(true, rel=0.12)
    assert combined_stderr(means, ses, between="raw") == pytest.approx(true * math.sqrt(2), rel=0.12)


def test_one_error_per_mean_is_needed():
    with pytest.raises(ValueError, match="per mean"):
        combined_stderr([0.1, 0.2], [0.1], between="raw")


def test_the_fixed_error_is_undefined_without_tasks_and_when_any_task_lacks_one():
    assert fixed_stderr([]) is None
    assert fixed_stderr([0.1, None]) is None
    assert fixed_stderr([0.0, 0.0]) == 0.0


def test_fewer_than_two_clusters_have_no_error():
    assert cluster_robust([], []) == MeanEstimate(None, None, None, 0)
    assert cluster_robust([0.5, 0.7], ["a", "a"]) == MeanEstimate(0.6, None, None, 1)


def test_degrees_of_freedom_count_clusters_and_not_tasks():
    assert cluster_robust([0.1, 0.2, 0.9, 0.8], ["a", "a", "b", "b"]).df == 1


def test_tasks_that_repeat_each_other_do_not_shrink_the_clustered_error():
    once = cluster_robust([0.1, 0.4, 0.8], ["a", "b", "c"])
    thrice = cluster_robust([0.1, 0.4, 0.8] * 3, ["a", "b", "c"] * 3)
    assert thrice.se == pytest.approx(once.se)


def test_a_tie_is_not_exceedance_and_a_real_step_is():
    assert not exceeds(0.1 + 0.2, 0.3, 0.6)
    assert not exceeds(0.3, 0.1 + 0.2, 0.6)
    assert exceeds(0.3 + 1e-9, 0.3, 0.6)
