"""From an evaluation's rows to its measurement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection

from capevolve.ledger.evaluations import EvaluationRecord
from capevolve.ledger.outcomes import Outcomes, read_outcomes
from capevolve.ledger.runs import read_split
from capevolve.ledger.trials import TrialRow
from capevolve.model import Measurement, Scored, TaskRef, Unmeasured


def read_measurement(
    connection: Connection, evaluation: EvaluationRecord, tasks: Sequence[TaskRef]
) -> Measurement:
    """Reads the measurement of an evaluation over the given tasks, in their order."""
    return build_measurement(evaluation, tasks, read_outcomes(connection, evaluation.id))


def build_measurement(
    evaluation: EvaluationRecord, tasks: Sequence[TaskRef], outcomes: Outcomes
) -> Measurement:
    """The measurement that outcomes make over the given tasks, in their order."""
    return Measurement(
        evaluation_id=str(evaluation.id),
        candidate_id=evaluation.key.candidate_id,
        split=evaluation.key.split,
        num_trials=evaluation.key.num_trials,
        base_seed=evaluation.key.base_seed,
        subset=evaluation.key.subset is not None,
        tasks=tuple(outcomes.of(task) for task in tasks),
    )


def read_tasks(connection: Connection, evaluation: EvaluationRecord) -> tuple[TaskRef, ...]:
    """The tasks of a train or val evaluation, in split order.

    Raises:
        TestSealError: It is an evaluation of test.
    """
    refs = tuple(task.ref for task in read_split(connection, evaluation.key.run_id, evaluation.key.split))
    if evaluation.key.subset is None:
        return refs
    wanted = set(evaluation.key.subset)
    return tuple(ref for ref in refs if ref.id in wanted)


def reduce_trials(
    evaluation: EvaluationRecord, tasks: Sequence[TaskRef], rows: Sequence[TrialRow]
) -> Measurement:
    """Groups finished trials by task. Claimed trials have no result yet and are left out."""
    rewards: dict[str, list[float]] = defaultdict(list)
    unmeasured: dict[str, list[Unmeasured]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.trial):
        if isinstance(row.outcome, Scored):
            rewards[row.task_id].append(row.outcome.reward)
        elif row.outcome is not None:
            unmeasured[row.task_id].append(row.outcome)
    finished = sum(row.outcome is not None for row in rows)
    return build_measurement(evaluation, tasks, Outcomes(rewards, unmeasured, finished))
