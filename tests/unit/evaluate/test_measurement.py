"""From rows to a measurement, and from outcomes to progress."""

from __future__ import annotations

from capevolve.evaluate.measurement import reduce_trials
from capevolve.evaluate.progress import Progress, ignore_progress
from capevolve.ledger.evaluations import EvaluationKey, EvaluationRecord
from capevolve.ledger.trials import TrialRow
from capevolve.model import Reason, Scored, TaskRef, Unmeasured

TIMEOUT = Unmeasured(Reason.TIMEOUT, "3 s")


def _reduce(rows, tasks=("b", "a"), subset=None):
    key = EvaluationKey("r1", "sha256:c", "val", 2, 7, subset=subset)
    refs = [TaskRef(name, "sha256:x", f"cluster {name}") for name in tasks]
    return reduce_trials(EvaluationRecord(5, key, 1, 0.0, None), refs, rows)


def _row(task, trial, outcome):
    return TrialRow(task, trial, trial, outcome, 1, 1, 1, 0, None, None, None)


def test_rewards_are_in_trial_order_by_task_in_split_order_with_their_clusters():
    rows = [
        _row("a", 1, Scored(0.25)),
        _row("b", 1, Scored(1.0)),
        _row("a", 0, Scored(0.0)),
        _row("b", 0, TIMEOUT),
    ]
    measurement = _reduce(rows)
    assert [(t.task_id, t.rewards, t.unmeasured, t.cluster) for t in measurement.tasks] == [
        ("b", (1.0,), (TIMEOUT,), "cluster b"),
        ("a", (0.0, 0.25), (), "cluster a"),
    ]
    assert (measurement.evaluation_id, measurement.candidate_id, measurement.split) == (
        "5",
        "sha256:c",
        "val",
    )
    assert (measurement.num_trials, measurement.base_seed, measurement.subset) == (2, 7, False)


def test_a_claimed_trial_is_neither_measured_nor_missing_yet():
    assert _reduce([_row("a", 0, None)]).tasks[1].rewards == ()
    assert _reduce([_row("a", 0, None)]).tasks[1].unmeasured == ()


def test_a_task_without_rows_is_there_without_values():
    assert [task.rewards for task in _reduce([]).tasks] == [(), ()]


def test_some_tasks_of_a_split_are_marked_as_a_subset_even_when_they_are_all_of_them():
    assert _reduce([], subset=("a", "b")).subset
    assert not _reduce([]).subset


def test_progress_counts_what_is_missing_apart_from_what_scored_nothing():
    progress = Progress("val", 2, 5)
    assert progress.mean is None
    progress = progress.count(Scored(0.0), 0.5).count(TIMEOUT, None).count(Scored(1.0), 0.25)
    assert (progress.done, progress.scored, progress.missing) == (5, 2, 1)
    assert (progress.mean, progress.cost_usd) == (0.5, 0.75)
    ignore_progress(progress)
