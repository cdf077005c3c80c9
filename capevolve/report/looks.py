"""How the test split was looked at: attempts, the committed result, and its tasks.

Nothing of a test task is read before a result was committed: its ids come from the committed attempt's plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from sqlalchemy import Connection

from capevolve.errors import TamperError
from capevolve.evaluate.measurement import reduce_trials
from capevolve.evaluate.ticket import TestPlan
from capevolve.ledger import attempts as rows
from capevolve.ledger.attempts import AttemptRecord
from capevolve.ledger.evaluations import EvaluationRecord
from capevolve.ledger.runs import SplitSet
from capevolve.ledger.trials import read_trials
from capevolve.model import Estimate, Measurement, TaskRef
from capevolve.report.measured import EvaluationFacts, MeanFacts, TaskScore
from capevolve.report.scores import describe_task, describe_test
from capevolve.report.values import AttemptFacts, FinalFacts, SealFacts, SealName, TestTaskFacts
from capevolve.report.wording import clean_line
from capevolve.result import FinalResult
from capevolve.stats import compare


def read_seal(
    connection: Connection, run_id: str, splits: SplitSet, evaluations: Sequence[EvaluationRecord]
) -> SealFacts:
    """Reads the attempts of a run, and how often its test set was looked at by any run."""
    attempts = rows.read_attempts(connection, run_id)
    counted = rows.count_looks(connection, splits.test_digest, splits.test_ids_digest)
    chain = rows.read_seal_events(connection, run_id)
    name: SealName = "sealed"
    if attempts:
        name = "committed" if attempts[-1].state == "committed" else "open"
    return SealFacts(
        name=name,
        attempts=tuple(_describe_attempt(connection, attempt, evaluations) for attempt in attempts),
        looks=max(counted, rows.highest_look(connection, splits.test_digest)),
        chain_head=chain[-1].hash if chain else None,
    )


def _describe_attempt(
    connection: Connection, attempt: AttemptRecord, evaluations: Sequence[EvaluationRecord]
) -> AttemptFacts:
    plan = TestPlan.from_json(attempt.plan)
    arms = 1 if plan.best_id == plan.seed_id else 2
    result = _parse_result(attempt)
    if result is not None:
        interrupted = result.seal.interrupted_trials
    else:
        mine = [evaluation for evaluation in evaluations if evaluation.key.attempt_id == attempt.id]
        interrupted = sum(trial.interrupted for e in mine for trial in read_trials(connection, e.id))
    reason = attempt.override_reason
    return AttemptFacts(
        number=attempt.number,
        state=attempt.state,
        look=attempt.look,
        override_reason=None if reason is None else clean_line(reason),
        opened_at=attempt.opened_at,
        ended_at=attempt.ended_at,
        claimed=rows.count_claims(connection, attempt.id),
        planned=len(plan.tasks) * plan.num_trials * arms,
        interrupted=interrupted,
        result=result,
    )


def _parse_result(attempt: AttemptRecord) -> FinalResult | None:
    if attempt.result is None:
        return None
    try:
        return FinalResult.model_validate_json(attempt.result)
    except ValidationError as error:
        raise TamperError(
            f"The committed result cannot be read: {error.error_count()} of its fields are wrong or missing.",
            where=f"attempts, run {attempt.run_id}, attempt {attempt.number}",
            fix=f"Find out what changed: capevolve verify {attempt.run_id}.",
        ) from error


def find_committed(connection: Connection, run_id: str) -> AttemptRecord | None:
    """The latest attempt with a result, even while a further look is open; None when there is none."""
    done = [a for a in rows.read_attempts(connection, run_id) if a.state == "committed"]
    return done[-1] if done else None


def read_test_tasks(attempt: AttemptRecord) -> tuple[TaskRef, ...]:
    """The test tasks of a committed attempt, without their clusters."""
    return tuple(TaskRef(task_id, name) for task_id, name in TestPlan.from_json(attempt.plan).tasks)


def read_final(
    connection: Connection,
    attempt: AttemptRecord,
    evaluations: Sequence[EvaluationRecord],
    val: Mapping[str, EvaluationFacts],
) -> FinalFacts | None:
    """Reads the committed result with the values of its tasks.

    Args:
        attempt: The committed attempt.
        val: Val evaluations by candidate.
    """
    result = _parse_result(attempt)
    if result is None:
        return None
    tasks = read_test_tasks(attempt)
    measured = {
        evaluation.key.candidate_id: reduce_trials(evaluation, tasks, read_trials(connection, evaluation.id))
        for evaluation in evaluations
        if evaluation.key.attempt_id == attempt.id
    }
    empty = Measurement("", "", "test", result.test.num_trials, 0, ())
    best = measured.get(result.best_id, empty)
    seed = measured.get(result.baseline_id, empty)
    df = None if result.test_delta is None else result.test_delta.df
    score = describe_test(result.test, best, df)
    return FinalFacts(
        result=result,
        best=score,
        baseline=describe_test(result.test_baseline, seed, df),
        gap=_find_gap(score, val.get(result.best_id)),
        tasks=_pair_tasks(best, None if result.best_id == result.baseline_id else seed),
        attempt=attempt.number,
        committed_at=attempt.ended_at,
    )


def _find_gap(test: MeanFacts, val: EvaluationFacts | None) -> Estimate:
    score = None if val is None else val.score
    if score is None or test.mean is None or score.mean is None:
        return Estimate(None, None)
    se = None if test.se is None or score.se is None else math.hypot(test.se, score.se)
    return Estimate(test.mean - score.mean, se)


def _pair_tasks(best: Measurement, seed: Measurement | None) -> tuple[TestTaskFacts, ...]:
    """Every test task, the best delta first, those without a delta last."""
    theirs = {} if seed is None else {task.task_id: task for task in seed.tasks}
    deltas = {} if seed is None else {pair.task_id: pair.delta for pair in compare(best, seed).pairs}
    tasks = []
    for task in best.tasks:
        mine = describe_task(task)
        other = describe_task(theirs[task.task_id]) if task.task_id in theirs else None
        named = [("best", mine)] if other is None else [("best", mine), ("seed", other)]
        tasks.append(
            TestTaskFacts(
                task_id=clean_line(task.task_id),
                best=mine,
                baseline=other,
                delta=Estimate(deltas.get(task.task_id), _add_errors(mine, other)),
                note="; ".join(f"{side}: {score.note}" for side, score in named if score.note),
            )
        )
    return tuple(sorted(tasks, key=_by_delta))


def _add_errors(mine: TaskScore, other: TaskScore | None) -> float | None:
    if mine.se is None or other is None or other.se is None:
        return None
    return math.hypot(mine.se, other.se)


def _by_delta(task: TestTaskFacts) -> tuple[bool, float, str]:
    return task.delta.value is None, -(task.delta.value or 0.0), task.task_id
