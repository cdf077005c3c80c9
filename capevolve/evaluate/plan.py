"""Which trials an evaluation still owes: a pure function of its tasks and its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capevolve.ledger.trials import Claim, TrialRow
from capevolve.model import TaskRef


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What is left to do.

    Attributes:
        todo: Trials to claim and run, in the order to run them.
        lost: Trials interrupted too often: they become missing data without another call.
        finished: Trials that have their result.
        total: All trials of the evaluation.
    """

    todo: tuple[Claim, ...]
    lost: tuple[Claim, ...]
    finished: int
    total: int


def plan_trials(
    tasks: Sequence[TaskRef],
    rows: Sequence[TrialRow],
    *,
    num_trials: int,
    base_seed: int,
    max_interruptions: int,
    durations: Mapping[str, float],
) -> TrialPlan:
    """Plans the trials without a result.

    A claimed row of an earlier session was in flight when its driver ended: nobody saw a result, so it
    runs again, until it was interrupted `max_interruptions` times.

    Args:
        tasks: The evaluation's tasks in split order.
        rows: The trials already in the ledger.
        num_trials: Trials per task; trial k has the seed `base_seed + k`.
        max_interruptions: Interruptions after which a trial is missing data.
        durations: Mean seconds per task where known; the longest run first, so that none is left alone
            at the end.
    """
    known = {(row.task_id, row.trial): row for row in rows}
    todo: list[Claim] = []
    lost: list[Claim] = []
    finished = 0
    for task in sorted(tasks, key=lambda t: -durations.get(t.id, 0.0)):
        for trial in range(num_trials):
            row = known.get((task.id, trial))
            seed = base_seed + trial
            if row is None:
                todo.append(Claim(task.id, trial, seed))
            elif row.outcome is not None:
                finished += 1
            elif row.interrupted + 1 >= max_interruptions:
                lost.append(Claim(task.id, trial, seed, False, row.calls, row.interrupted + 1))
            else:
                todo.append(Claim(task.id, trial, seed, False, row.calls + 1, row.interrupted + 1))
    return TrialPlan(tuple(todo), tuple(lost), finished, len(tasks) * num_trials)
