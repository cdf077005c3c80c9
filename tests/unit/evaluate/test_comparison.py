"""Old and new scores side by side, computed by hand."""

from __future__ import annotations

import pytest

from capevolve.evaluate.comparison import Left, Mean, compare
from capevolve.evaluate.rescore import AGENT_FAILED, Rescored
from capevolve.ledger.evaluations import EvaluationKey, EvaluationRecord
from capevolve.ledger.rescores import RescoreRow
from capevolve.ledger.trials import TrialRow
from capevolve.model import Reason, Scored, TaskRef, Unmeasured


def build(old, new):
    """Trials by (task, trial) to a reward or a Reason; new ones to a reward, a reason's text or a row."""
    key = EvaluationKey("r1", "sha256:c", "val", 2, 0)
    trials = tuple(
        TrialRow(task, k, 0, Unmeasured(v) if isinstance(v, Reason) else Scored(v), 1, 1, 1, 0, None, None, None)
        for (task, k), v in old.items()
    )  # fmt: skip
    again = {
        place: v
        if isinstance(v, RescoreRow)
        else RescoreRow(*place, *((None, v) if isinstance(v, str) else (v, None)))
        for place, v in new.items()
    }
    tasks = tuple(TaskRef(name, "") for name in sorted({task for task, _ in old}))
    return compare(Rescored(EvaluationRecord(1, key, 1, 0.0, 1.0), tasks, trials, again))


def test_means_are_over_tasks_and_n_says_which():
    found = build(
        {("a", 0): 1.0, ("a", 1): 0.0, ("b", 0): 1.0, ("b", 1): Reason.INFRA},
        {("a", 0): 0.5, ("a", 1): 0.0, ("b", 0): 1.0},
    )
    assert found.old == Mean(pytest.approx(0.75), 2, 3)
    assert found.new == Mean(pytest.approx(0.625), 2, 3)
    assert (found.higher, found.lower, found.same) == (0, 1, 1)
    assert found.left == ()


def test_what_became_unscorable_is_named_and_left_out_of_what_is_compared():
    found = build(
        {("a", 0): 1.0, ("a", 1): 1.0, ("b", 0): 0.0}, {("a", 0): 1.0, ("a", 1): "truncated", ("b", 0): "truncated"}
    )  # fmt: skip
    assert found.left == (Left("truncated", 2, ("a trial 1", "b trial 0")),)
    assert (found.old.value, found.new.value) == (0.5, 1.0)
    assert (found.old_shared, found.new_shared) == (Mean(1.0, 1, 1), Mean(1.0, 1, 1))
    assert (found.higher, found.lower, found.same) == (0, 0, 1)


def test_what_became_scorable_counts_in_the_new_mean_only():
    found = build({("a", 0): Reason.SCORER_ERROR, ("b", 0): 1.0}, {("a", 0): 0.0, ("b", 0): 1.0})
    assert (found.old, found.new) == (Mean(1.0, 1, 1), Mean(0.5, 2, 2))
    assert found.new_shared == Mean(1.0, 1, 1)


def test_nothing_scored_has_no_mean():
    found = build({("a", 0): Reason.INFRA}, {})
    assert (found.old, found.new) == (Mean(None, 0, 0), Mean(None, 0, 0))


def test_agents_failures_stay_0_and_are_counted():
    found = build({("a", 0): 0.0}, {("a", 0): RescoreRow("a", 0, 0.0, None, AGENT_FAILED)})
    assert (found.agent_failures, found.new.value, found.same) == (1, 0.0, 1)
