"""The summary of a measurement."""

from __future__ import annotations

import math

import pytest

from capevolve.model import Estimate, Reason
from capevolve.stats import summarize

INFRA, TIMEOUT = Reason.INFRA, Reason.TIMEOUT


def test_an_empty_split_has_no_mean_and_no_coverage(measure):
    summary = summarize(measure({}))
    assert (summary.mean, summary.se, summary.fixed_se, summary.coverage) == (None, None, None, None)
    assert (summary.n_tasks, summary.n_scored, summary.n_trials, summary.n_missing) == (0, 0, 0, 0)
    assert (summary.pass_k, summary.pass_at_k) == ({}, {})


def test_a_split_where_nothing_was_measured_has_no_mean_and_zero_coverage(measure):
    summary = summarize(measure({"a": [INFRA], "b": [TIMEOUT, INFRA]}))
    assert (summary.mean, summary.se, summary.coverage) == (None, None, 0.0)
    assert (summary.n_tasks, summary.n_scored, summary.n_missing) == (2, 0, 3)
    assert summary.pass_k == {}


def test_missing_trials_are_left_out_of_the_mean_and_counted(measure):
    rows = {f"t{i}": [INFRA] for i in range(34)} | {f"u{i}": [1.0] for i in range(16)}
    summary = summarize(measure(rows))
    assert summary.mean == 1.0
    assert summary.coverage == pytest.approx(0.32)
    assert (summary.n_scored, summary.n_missing) == (16, 34)


def test_tasks_weigh_the_same_however_many_trials_they_have(measure):
    summary = summarize(measure({"a": [1.0], "b": [0.0, 0.0, 0.0]}))
    assert summary.mean == 0.5
    assert summary.n_trials == 4


def test_one_task_has_a_mean_without_an_error_for_new_tasks(measure):
    summary = summarize(measure({"a": [1.0, 0.0]}))
    assert (summary.mean, summary.se) == (0.5, None)
    assert summary.fixed_se == pytest.approx(0.5)


def test_the_error_for_these_tasks_is_undefined_with_one_trial(measure):
    assert summarize(measure({"a": [1.0], "b": [0.0]})).fixed_se is None


def test_the_error_is_clustered_when_a_cluster_holds_more_than_one_task(measure):
    rows = {"a": [0.0], "b": [0.0], "c": [1.0], "d": [1.0]}
    clustered = summarize(measure(rows, {"a": "x", "b": "x", "c": "y", "d": "y"})).se
    assert clustered == pytest.approx(0.5)
    assert summarize(measure(rows, dict(zip("abcd", "wxyz", strict=True)))).se == summarize(measure(rows)).se


def test_a_cluster_that_is_named_like_a_task_does_not_swallow_it(measure):
    rows = {"a": [0.0], "b": [1.0], "c": [1.0]}
    assert summarize(measure(rows, {"b": "a"})).se == summarize(measure(rows)).se


def test_every_k_up_to_the_trials_measured_is_given_and_no_other(measure):
    summary = summarize(measure({"a": [1.0, 1.0, INFRA], "b": [0.0, 0.0]}, num_trials=3))
    assert list(summary.pass_k) == [1, 2]
    assert list(summary.pass_at_k) == [1, 2]


def test_an_undefined_k_is_absent_and_not_zero(measure):
    summary = summarize(measure({"a": [1.0], "b": [1.0]}), ks=[0, 1, 2])
    assert list(summary.pass_k) == [1]
    assert summary.pass_k[1] == Estimate(1.0, 0.0)


def test_a_k_is_averaged_over_the_tasks_that_have_the_trials(measure):
    summary = summarize(measure({"a": [1.0, 1.0], "b": [0.0], "c": [1.0, 0.0]}))
    assert summary.pass_k[2].value == 0.5
    assert summary.pass_at_k[2].value == 1.0
    assert summarize(measure({"a": [1.0, 1.0], "b": [0.0]})).pass_k[2] == Estimate(1.0, None)


def test_the_error_of_pass_k_is_clustered_too(measure):
    rows = {"a": [0.0], "b": [0.0], "c": [1.0], "d": [1.0]}
    summary = summarize(measure(rows, {"a": "x", "b": "x", "c": "y", "d": "y"}))
    assert summary.pass_k[1].se == pytest.approx(0.5)


def test_the_reward_that_passes_is_a_setting(measure):
    measurement = measure({"a": [0.8], "b": [1.0 - 1e-10]})
    assert summarize(measurement).pass_k[1].value == 0.5
    assert summarize(measurement, pass_reward=0.75).pass_k[1].value == 1.0


def test_no_figure_of_a_summary_is_ever_not_a_number(measure):
    for rows in ({}, {"a": []}, {"a": [INFRA]}, {"a": [0.5]}, {"a": [0.5], "b": [INFRA]}):
        summary = summarize(measure(rows))
        for value in (summary.mean, summary.se, summary.fixed_se, summary.coverage):
            assert value is None or math.isfinite(value)
