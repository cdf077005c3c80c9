"""Evaluations and their trials: which must be there, with which seeds, and what each must have left."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import get_args

from sqlalchemy import Connection

from capevolve.finalize import BEST_TAG, SEED_TAG
from capevolve.ledger.audit import (
    FrozenTask,
    StoredTrial,
    read_identities,
    read_rollout_sizes,
    read_stored_trials,
)
from capevolve.ledger.evaluations import EvaluationRecord, list_evaluations
from capevolve.model import Reason, Split, TaskRef
from capevolve.spec import ProjectSpec
from capevolve.verify.difference import expect, name_row, reading, refuse
from capevolve.verify.history import History, VerifiedAttempt


def read_evaluations(connection: Connection, run_id: str) -> tuple[EvaluationRecord, ...]:
    """The evaluations of a run, each compared with its identity.

    Raises:
        TamperError: One is not what its digest says.
    """
    identities = read_identities(connection, run_id)
    for row in identities:
        with reading(name_row("evaluations", evaluation=row.id)):
            subset = None if row.subset is None else json.loads(row.subset)
            if subset is not None and not all(isinstance(task_id, str) for task_id in subset):
                raise ValueError("the subset is not a list of task ids")
    evaluations = list_evaluations(connection, run_id)
    for row, evaluation in zip(identities, evaluations, strict=True):
        expect("digest", name_row("evaluations", evaluation=row.id), row.digest, evaluation.key.digest)
    return evaluations


def check_trials(
    connection: Connection,
    evaluations: Sequence[EvaluationRecord],
    tasks: Sequence[FrozenTask],
    spec: ProjectSpec,
) -> int:
    """Checks the trials of every evaluation and what they left; returns how many have a result.

    Raises:
        TamperError: A trial is missing, was added, has another seed, or has no rollout.
    """
    count = 0
    for evaluation in evaluations:
        where = name_row("evaluations", evaluation=evaluation.id)
        expect("base_seed", where, evaluation.key.base_seed, spec.base_seed())
        planned = {ref.id: ref for ref in list_tasks(evaluation, tasks)}
        for task_id in evaluation.key.subset or ():
            if task_id not in planned:
                refuse(f"It names a task that is not in the {evaluation.key.split} split.", where)
        trials = read_stored_trials(connection, evaluation.id)
        for trial in trials:
            _check_trial(evaluation, trial, planned)
        _check_complete(evaluation, trials, planned)
        count += _check_rollouts(connection, evaluation, trials)
    return count


def list_tasks(evaluation: EvaluationRecord, tasks: Sequence[FrozenTask]) -> tuple[TaskRef, ...]:
    """The tasks of an evaluation in split order."""
    key = evaluation.key
    wanted = None if key.subset is None else set(key.subset)
    refs = (frozen.task.ref for frozen in tasks if frozen.split == key.split)
    return tuple(ref for ref in refs if wanted is None or ref.id in wanted)


def _where(evaluation: EvaluationRecord, task_id: str, trial: int, table: str = "trials") -> str:
    return name_row(table, evaluation=evaluation.id, task=task_id, trial=trial)


def _check_trial(evaluation: EvaluationRecord, row: StoredTrial, planned: Mapping[str, TaskRef]) -> None:
    key, where = evaluation.key, _where(evaluation, row.task_id, row.trial)
    if row.task_id not in planned or row.trial not in range(key.num_trials):
        refuse("A trial is there that the evaluation does not have.", where)
    expect("seed", where, row.seed, key.base_seed + row.trial)
    if row.state == "scored":
        if not isinstance(row.reward, float) or not math.isfinite(row.reward) or not 0 <= row.reward <= 1:
            refuse(f"reward is {row.reward!r}, which is not in [0, 1].", where)
        expect("reason", where, row.reason, None)
    else:
        expect("reward", where, row.reward, None)
        known = row.reason in {reason.value for reason in Reason}
        if known != (row.state == "unmeasured"):
            refuse(f"reason is {row.reason!r} in state {row.state!r}.", where)


def _check_complete(
    evaluation: EvaluationRecord, trials: Sequence[StoredTrial], planned: Mapping[str, TaskRef]
) -> None:
    """Refuses a finished evaluation that lacks a trial or the result of one."""
    if evaluation.finished_at is None:
        return
    states = {(row.task_id, row.trial): row.state for row in trials}
    for task_id in planned:
        for trial in range(evaluation.key.num_trials):
            state = states.get((task_id, trial))
            if state in (None, "claimed"):
                what = "is missing" if state is None else "has no result"
                where = _where(evaluation, task_id, trial)
                refuse(f"A trial {what}, and its evaluation is finished.", where)


def _check_rollouts(
    connection: Connection, evaluation: EvaluationRecord, trials: Sequence[StoredTrial]
) -> int:
    """Compares rollouts with finished trials, one for each."""
    finished = {(row.task_id, row.trial) for row in trials if row.state != "claimed"}
    with reading(name_row("rollouts", evaluation=evaluation.id)):
        sizes = read_rollout_sizes(connection, evaluation.id)
    for task_id, trial in sorted(finished | sizes.keys()):
        where = _where(evaluation, task_id, trial, "rollouts")
        if (task_id, trial) not in finished:
            refuse("A rollout is there whose trial has no result.", where)
        if not sizes.get((task_id, trial)):
            refuse("The rollout of a finished trial is missing or empty.", where)
    return len(finished)


def find_arms(
    attempt: VerifiedAttempt, evaluations: Sequence[EvaluationRecord]
) -> tuple[EvaluationRecord, EvaluationRecord | None]:
    """The evaluations of a committed attempt: of the best candidate, and of the seed candidate if another.

    Raises:
        TamperError: One is missing.
    """
    plan = attempt.plan
    mine = {e.key.tag: e for e in evaluations if e.key.attempt_id == attempt.row.id}
    for tag in (BEST_TAG,) if plan.best_id == plan.seed_id else (BEST_TAG, SEED_TAG):
        if tag not in mine or mine[tag].finished_at is None:
            where = name_row("evaluations", attempt=attempt.row.number, tag=tag)
            refuse("The attempt is committed, and this evaluation is missing or not finished.", where)
    return mine[BEST_TAG], mine.get(SEED_TAG)


def check_arms(history: History, evaluations: Sequence[EvaluationRecord]) -> None:
    """Compares the evaluations of the test split with the plans of their attempts.

    Raises:
        TamperError: One is covered by no plan, or one that a committed plan covers is missing.
    """
    attempts = {attempt.row.id: attempt for attempt in history.attempts}
    for evaluation in evaluations:
        key, where = evaluation.key, name_row("evaluations", evaluation=evaluation.id)
        if key.split not in get_args(Split):
            refuse(f"There is no split {key.split!r}.", where)
        if (key.split == "test") != (key.attempt_id is not None):
            refuse("The test split is evaluated within an attempt, and nothing else is.", where)
        if key.attempt_id is None:
            continue
        if key.attempt_id not in attempts:
            refuse(f"It belongs to attempt row {key.attempt_id}, which is not of this run.", where)
        plan = attempts[key.attempt_id].plan
        arms = {SEED_TAG: plan.seed_id, BEST_TAG: plan.best_id}
        if plan.best_id == plan.seed_id:
            del arms[SEED_TAG]
        planned = (arms.get(key.tag), plan.num_trials, plan.base_seed, None)
        stored = (key.candidate_id, key.num_trials, key.base_seed, key.subset)
        expect("candidate, num_trials, base_seed and subset", where, stored, planned)
    for attempt in history.committed:
        find_arms(attempt, evaluations)
