"""The outcomes of an evaluation by task, and nothing else of its trials: what a measurement is made of."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from sqlalchemy import Connection, select

from capevolve.ledger import schema
from capevolve.ledger.bulk import paused_collector
from capevolve.model import Reason, TaskOutcomes, TaskRef, Unmeasured

_trials = schema.trials


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The finished trials of an evaluation.

    Attributes:
        rewards: Of the measured trials of each task, in trial order; a task without one is absent.
        unmeasured: The others, likewise.
        finished: How many trials these are.
    """

    rewards: dict[str, list[float]]
    unmeasured: dict[str, list[Unmeasured]]
    finished: int

    def of(self, task: TaskRef) -> TaskOutcomes:
        """Those of one task."""
        return TaskOutcomes(
            task.id,
            rewards=tuple(self.rewards.get(task.id, ())),
            unmeasured=tuple(self.unmeasured.get(task.id, ())),
            cluster=task.cluster,
        )


def read_outcomes(connection: Connection, evaluation_id: int) -> Outcomes:
    """The outcomes of an evaluation. Claimed trials have none yet and are left out."""
    columns = _trials.c
    statement = (
        select(columns.task_id, columns.reward, columns.reason, columns.detail)
        .where(columns.evaluation_id == evaluation_id, columns.state != "claimed")
        .order_by(columns.task_id, columns.trial)
    )
    rewards: dict[str, list[float]] = defaultdict(list)
    unmeasured: dict[str, list[Unmeasured]] = defaultdict(list)
    with paused_collector():  # an evaluation can have 100,000 trials
        rows = connection.execute(statement).all()
        for task_id, reward, reason, detail in rows:
            if reason is None:
                rewards[task_id].append(reward)
            else:
                unmeasured[task_id].append(Unmeasured(Reason(reason), detail or ""))
    return Outcomes(dict(rewards), dict(unmeasured), len(rows))
