"""The paired comparison."""

from __future__ import annotations

import pytest

from capevolve.model import Reason
from capevolve.stats import compare, sign_flip

INFRA, TIMEOUT = Reason.INFRA, Reason.TIMEOUT


def test_nothing_in_common_leaves_everything_undefined(measure):
    found = compare(measure({"a": [1.0]}), measure({"b": [0.0]}))
    assert (found.n, found.mean, found.se, found.df, found.t, found.p_t, found.ci) == (0, *[None] * 6)
    assert not found.degenerate
    assert sign_flip(found.unit_deltas) is None


def test_one_pair_has_a_mean_and_is_degenerate(measure):
    found = compare(measure({"a": [1.0, 0.0]}), measure({"a": [0.0, 0.0]}))
    assert (found.n, found.mean, found.se, found.t, found.p_t, found.ci) == (1, 0.5, None, None, None, None)
    assert found.degenerate


def test_equal_deltas_are_degenerate_although_rounding_gives_them_a_spread(measure):
    # 0.8 - 0.7, 0.7 - 0.6, 0.3 - 0.2: three different floats near 0.1.
    found = compare(
        measure({"a": [0.8], "b": [0.7], "c": [0.3]}), measure({"a": [0.7], "b": [0.6], "c": [0.2]})
    )
    assert len(set(found.deltas)) > 1
    assert found.degenerate
    assert (found.se, found.t, found.p_t, found.ci) == (0.0, None, None, None)
    assert found.mean == pytest.approx(0.1)


def test_a_difference_that_only_rounding_makes_is_the_same(measure):
    found = compare(measure({"a": [0.1, 0.1, 0.1]}), measure({"a": [0.1]}))
    assert (found.improved, found.worse, found.same) == (0, 0, 1)
    assert found.deltas == (0.0,)


def test_deltas_that_cancel_have_a_mean_of_exactly_zero(measure):
    found = compare(
        measure({"a": [0.4], "b": [0.5], "c": [0.1]}), measure({"a": [0.3], "b": [0.3], "c": [0.4]})
    )
    assert found.mean == 0.0


def test_tasks_missing_on_a_side_are_dropped_with_the_reason(measure):
    candidate = measure({"a": [1.0], "b": [INFRA, INFRA, TIMEOUT], "c": [1.0], "d": [1.0], "f": []})
    incumbent = measure({"a": [0.0], "b": [INFRA], "c": [TIMEOUT], "e": [0.0], "f": [1.0]})
    found = compare(candidate, incumbent)
    assert [pair.task_id for pair in found.pairs] == ["a"]
    assert found.dropped == (
        (
            "b",
            "no measured trial of the candidate (2 infra, 1 timeout); "
            "no measured trial of the incumbent (1 infra)",
        ),
        ("c", "no measured trial of the incumbent (1 timeout)"),
        ("d", "not in the incumbent's evaluation"),
        ("e", "not in the candidate's evaluation"),
        ("f", "no trial of the candidate was run"),
    )


def test_counts_follow_the_sign_of_each_delta(measure):
    found = compare(
        measure({"a": [1.0], "b": [0.2], "c": [0.5], "d": [0.9]}),
        measure({"a": [0.0], "b": [0.4], "c": [0.5], "d": [0.8]}),
    )
    assert (found.improved, found.worse, found.same) == (2, 1, 1)


def test_a_clustered_comparison_counts_clusters_as_units(measure):
    clusters = {"a": "x", "b": "x", "c": "y", "d": "y"}
    found = compare(
        measure({"a": [1.0], "b": [0.5], "c": [0.5], "d": [0.0]}, clusters),
        measure({"a": [0.0], "b": [0.0], "c": [0.5], "d": [0.25]}, clusters),
    )
    assert (found.n, found.units, found.df) == (4, 2, 1)
    assert found.unit_deltas == (1.5, -0.25)
    # Residual sums are +-0.875; CR1: sqrt(2 / 1 * 2 * 0.875^2) / 4.
    assert found.se == pytest.approx(0.4375)


def test_one_cluster_has_no_error(measure):
    clusters = {"a": "x", "b": "x"}
    found = compare(measure({"a": [1.0], "b": [0.5]}, clusters), measure({"a": [0.0], "b": [0.0]}, clusters))
    assert (found.units, found.se, found.p_t) == (1, None, None)
    assert found.degenerate


def test_clusters_whose_deltas_cancel_have_unit_deltas_of_exactly_zero(measure):
    clusters = {"a": "x", "b": "x", "c": "x"}
    found = compare(
        measure({"a": [0.4], "b": [0.5], "c": [0.1]}, clusters),
        measure({"a": [0.3], "b": [0.3], "c": [0.4]}, clusters),
    )
    assert found.unit_deltas == (0.0,)


def test_a_wider_level_gives_a_wider_interval(measure):
    candidate = measure({"a": [1.0], "b": [0.0], "c": [1.0]})
    incumbent = measure({"a": [0.0], "b": [0.0], "c": [0.5]})
    narrow, wide = compare(candidate, incumbent, level=0.8).ci, compare(candidate, incumbent, level=0.99).ci
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_level_outside_zero_and_one_is_refused(measure):
    with pytest.raises(ValueError, match="confidence level"):
        compare(measure({}), measure({}), level=95)


def test_a_task_id_that_occurs_twice_is_refused(measure):
    twice = measure({"a": [1.0]})
    twice = measure({}, tasks=twice.tasks * 2)
    with pytest.raises(ValueError, match="occurs twice"):
        compare(twice, measure({"a": [1.0]}))
