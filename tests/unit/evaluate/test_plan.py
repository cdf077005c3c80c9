"""What an evaluation still owes, by its rows."""

from __future__ import annotations

from capevolve.evaluate.plan import plan_trials
from capevolve.ledger.trials import Claim, TrialRow
from capevolve.model import Reason, Scored, TaskRef, Unmeasured

TASKS = tuple(TaskRef(name, "sha256:x") for name in "abc")


def _row(task="a", trial=0, outcome=None, calls=1, interrupted=0) -> TrialRow:
    return TrialRow(task, trial, trial, outcome, 1, 1, calls, interrupted, None, None, None)


def _plan(rows=(), *, num_trials=1, base_seed=0, most=2, durations=None, tasks=TASKS):
    return plan_trials(
        tasks,
        rows,
        num_trials=num_trials,
        base_seed=base_seed,
        max_interruptions=most,
        durations=durations or {},
    )


def test_without_rows_everything_is_to_do_in_split_order_with_seeds_from_the_base_seed():
    plan = _plan(num_trials=2, base_seed=40)
    assert plan.todo == tuple(Claim(task, k, 40 + k) for task in "abc" for k in (0, 1))
    assert (plan.lost, plan.finished, plan.total) == ((), 0, 6)


def test_what_has_a_result_is_never_done_again_measured_or_not():
    rows = [_row("a", outcome=Scored(0.0)), _row("b", outcome=Unmeasured(Reason.TIMEOUT))]
    plan = _plan(rows)
    assert plan.todo == (Claim("c", 0, 0),)
    assert plan.finished == 2


def test_what_was_in_flight_runs_again_and_its_calls_and_interruptions_go_on_counting():
    plan = _plan([_row("b", calls=3, interrupted=1)], most=3)
    assert Claim("b", 0, 0, fresh=False, calls=4, interrupted=2) in plan.todo
    assert plan.lost == ()


def test_interrupted_too_often_it_is_lost_without_another_call():
    plan = _plan([_row("b", calls=2, interrupted=1)], most=2)
    assert plan.lost == (Claim("b", 0, 0, fresh=False, calls=2, interrupted=2),)
    assert [claim.task_id for claim in plan.todo] == ["a", "c"]


def test_when_one_interruption_is_too_many_the_first_one_is_missing_data():
    plan = _plan([_row("b")], most=1)
    assert [claim.task_id for claim in plan.lost] == ["b"]


def test_the_longest_run_first_and_the_unknown_after_them_in_split_order():
    plan = _plan(durations={"c": 9.0, "b": 20.0}, num_trials=2)
    assert [claim.task_id for claim in plan.todo] == list("bbccaa")
    assert [claim.task_id for claim in _plan(durations={"z": 5.0}).todo] == list("abc")


def test_a_task_that_is_not_asked_for_does_not_count():
    plan = _plan([_row("z", outcome=Scored(1.0)), _row("a", trial=7, outcome=Scored(1.0))])
    assert (len(plan.todo), plan.finished, plan.total) == (3, 0, 3)


def test_no_tasks_owe_nothing():
    plan = _plan(tasks=())
    assert (plan.todo, plan.lost, plan.finished, plan.total) == ((), (), 0, 0)
