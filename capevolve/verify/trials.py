"""Evaluations and their trials: which must be there, with which seeds, and what each must have left."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sqlalchemy import Connection

from capevolve.evaluate.ticket import TestPlan
from capevolve.finalize import BEST_TAG, SEED_TAG
from capevolve.gate.confirm.seeds import parse_tag, stage_seed
from capevolve.ledger.audit import (
    FrozenTask,
    StoredTrial,
    read_identities,
    read_rollout_sizes,
    read_stored_trials,
)
from capevolve.ledger.evaluations import EvaluationKey, EvaluationRecord, list_evaluations
from capevolve.model import Reason, Split, TaskRef
from capevolve.spec import ProjectSpec
from capevolve.verify.difference import expect, name_row, reading, refuse, show
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
    history: History,
) -> int:
    """Checks the trials of every evaluation and what they left; returns how many have a result.

    Raises:
        TamperError: A trial is missing, was added, has another seed, or has no rollout.
    """
    count = 0
    positions = {frozen.task.ref.id: frozen.position for frozen in tasks if frozen.split == "test"}
    for evaluation in evaluations:
        where = name_row("evaluations", evaluation=evaluation.id)
        expect("base_seed", where, evaluation.key.base_seed, _find_seed(evaluation.key, spec.base_seed()))
        planned = tuple(ref.id for ref in list_tasks(evaluation, tasks))
        if not set(evaluation.key.subset or ()) <= set(planned):
            refuse(f"It names a task that is not in the {evaluation.key.split} split.", where)
        is_hidden = history.is_sealed and evaluation.key.split == "test"
        checked = _Checked(evaluation, frozenset(planned), positions if is_hidden else None)
        trials = read_stored_trials(connection, evaluation.id)
        for trial in trials:
            checked.check_trial(trial)
        if evaluation.finished_at is not None:
            checked.check_complete(trials)
        with reading(name_row("rollouts", evaluation=evaluation.id)):
            sizes = read_rollout_sizes(connection, evaluation.id)
        count += checked.check_rollouts(trials, sizes)
    return count


def _find_seed(key: EvaluationKey, run_seed: int) -> int:
    """The seed that the first trial of an evaluation must have."""
    tag = parse_tag(key.tag)
    if tag is None or key.split != "val":
        return run_seed
    return stage_seed(run_seed, tag.subject, tag.stage)


def list_tasks(evaluation: EvaluationRecord, tasks: Sequence[FrozenTask]) -> tuple[TaskRef, ...]:
    """The tasks of an evaluation in split order."""
    key = evaluation.key
    wanted = None if key.subset is None else set(key.subset)
    refs = (frozen.task.ref for frozen in tasks if frozen.split == key.split)
    return tuple(ref for ref in refs if wanted is None or ref.id in wanted)


@dataclass(frozen=True, slots=True)
class _Checked:
    """An evaluation whose rows are checked.

    Attributes:
        planned: The ids of its tasks.
        positions: Set while its tasks are sealed: where each stands in the splits, to name it by.
    """

    evaluation: EvaluationRecord
    planned: frozenset[str]
    positions: Mapping[str, int] | None

    def where(self, task_id: str, trial: int, table: str = "trials") -> str:
        if self.positions is None:
            return name_row(table, evaluation=self.evaluation.id, task=task_id, trial=trial)
        place = self.positions.get(task_id, "none")
        return name_row(table, evaluation=self.evaluation.id, position=place, trial=trial)

    def check_trial(self, row: StoredTrial) -> None:
        key, where = self.evaluation.key, self.where(row.task_id, row.trial)
        if row.task_id not in self.planned or row.trial not in range(key.num_trials):
            refuse("A trial is there that the evaluation does not have.", where)
        expect("seed", where, row.seed, key.base_seed + row.trial)
        if row.state == "scored":
            if not isinstance(row.reward, float) or not 0 <= row.reward <= 1:
                refuse(f"reward is {show(row.reward)}, which is not in [0, 1].", where)
            expect("reason", where, row.reason, None)
        else:
            expect("reward", where, row.reward, None)
            known = row.reason in {reason.value for reason in Reason}
            if known != (row.state == "unmeasured"):
                refuse(f"reason is {show(row.reason)} in state {show(row.state)}.", where)

    def check_complete(self, trials: Sequence[StoredTrial]) -> None:
        """Refuses a finished evaluation that lacks a trial or the result of one."""
        states = {(row.task_id, row.trial): row.state for row in trials}
        for task_id in sorted(self.planned):
            for trial in range(self.evaluation.key.num_trials):
                state = states.get((task_id, trial))
                if state in (None, "claimed"):
                    what = "is missing" if state is None else "has no result"
                    refuse(f"A trial {what}, and its evaluation is finished.", self.where(task_id, trial))

    def check_rollouts(self, trials: Sequence[StoredTrial], sizes: Mapping[tuple[str, int], int]) -> int:
        """Compares rollouts with finished trials, one for each; returns how many there are."""
        finished = {(row.task_id, row.trial) for row in trials if row.state != "claimed"}
        for task_id, trial in sorted(finished | sizes.keys()):
            where = self.where(task_id, trial, "rollouts")
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
    arms = _list_arms(attempt.plan)
    mine = {
        evaluation.key.tag: evaluation
        for evaluation in evaluations
        if evaluation.key.attempt_id == attempt.row.id
        and evaluation.key.candidate_id == arms.get(evaluation.key.tag)
    }
    for tag in arms:
        if tag not in mine or mine[tag].finished_at is None:
            where = name_row("evaluations", attempt=attempt.row.number, tag=tag)
            refuse("The attempt is committed, and this evaluation is missing or not finished.", where)
    return mine[BEST_TAG], mine.get(SEED_TAG)


def _list_arms(plan: TestPlan) -> dict[str, str]:
    """The candidates that a plan scores, by the tags of their evaluations."""
    both = {BEST_TAG: plan.best_id, SEED_TAG: plan.seed_id}
    return both if plan.best_id != plan.seed_id else {BEST_TAG: plan.best_id}


def check_arms(connection: Connection, history: History, evaluations: Sequence[EvaluationRecord]) -> None:
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
        if evaluation.finished_at is None and not read_stored_trials(connection, evaluation.id):
            continue  # opened under a plan that was replaced before any call
        plan = attempts[key.attempt_id].plan
        planned = (_list_arms(plan).get(key.tag), plan.num_trials, plan.base_seed, None)
        stored = (key.candidate_id, key.num_trials, key.base_seed, key.subset)
        expect("candidate, num_trials, base_seed and subset", where, stored, planned)
    for attempt in history.committed:
        find_arms(attempt, evaluations)
