"""The brief: everything a proposer is told. Train evidence only, by construction.

It is built from the train split and from the run's own proposals. Nothing of val or test is read to make
it: of a verdict only the decision is told, no number and no task.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from capevolve.candidates import Candidate
from capevolve.evaluate.measurement import reduce_trials
from capevolve.ledger.evaluations import EvaluationRecord
from capevolve.ledger.proposals import read_proposals, read_verdicts
from capevolve.ledger.rollouts import RolloutRow, read_rollouts
from capevolve.ledger.runs import SplitTask, read_split
from capevolve.ledger.trials import TrialRow, read_trials
from capevolve.model import Scored, Unmeasured
from capevolve.stats import summarize

MAX_DEPTH = 60
"""Lists and objects nested more deeply than this are left out of a brief."""


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BriefTrial(_Wire):
    """One train trial: exactly one of `reward` and `unmeasured` is set."""

    trial: int
    seed: int
    reward: float | None
    unmeasured: str | None
    feedback: str = ""
    output: Any = None
    trace: Any = None
    tool_calls: Any = None
    error: str | None = None


class BriefTask(_Wire):
    """One train task with the incumbent's trials; `mean` is None when none was measured."""

    task_id: str
    input: Any
    target: Any
    metadata: dict[str, Any]
    mean: float | None
    trials: list[BriefTrial]


class BriefScore(_Wire):
    """The incumbent on train."""

    mean: float | None = None
    se: float | None = None
    n_tasks: int = 0
    n_scored: int = 0


class BriefCandidate(_Wire):
    """The incumbent that is to be edited."""

    id: str
    files: list[str]


class BriefAttempt(_Wire):
    """An earlier iteration: what was tried and what became of it."""

    iteration: int
    candidate: str | None
    decision: str
    summary: str


class Brief(_Wire):
    """What a proposer is told, version 1. `tasks` are the train tasks, worst first."""

    schema_version: int = Field(default=1, serialization_alias="schema")
    run: str
    iteration: int
    remaining_iterations: int
    last: bool
    candidate: BriefCandidate
    train: BriefScore
    tasks: list[BriefTask]
    history: list[BriefAttempt]

    def to_json(self) -> str:
        """The brief as JSON text."""
        return self.model_dump_json(by_alias=True, indent=1)


def build_brief(
    connection: Connection,
    *,
    run_id: str,
    iteration: int,
    max_iterations: int,
    incumbent: Candidate,
    evidence: EvaluationRecord | None,
) -> Brief:
    """Builds the brief of one iteration.

    Args:
        evidence: The incumbent's train evaluation; None when the proposer asked for none.
    """
    score = BriefScore()
    tasks: list[BriefTask] = []
    if evidence is not None:
        score, tasks = _read_evidence(connection, run_id, evidence)
    remaining = max(0, max_iterations - iteration)
    return Brief(
        run=run_id,
        iteration=iteration,
        remaining_iterations=remaining,
        last=remaining == 0,
        candidate=BriefCandidate(id=incumbent.label, files=[file.path for file in incumbent.files]),
        train=score,
        tasks=tasks,
        history=_read_history(connection, run_id, iteration),
    )


def _read_evidence(
    connection: Connection, run_id: str, evidence: EvaluationRecord
) -> tuple[BriefScore, list[BriefTask]]:
    if evidence.key.split != "train":
        raise ValueError("A brief is built from train evidence only.")
    tasks = read_split(connection, run_id, "train")
    rows = read_trials(connection, evidence.id)
    trials = {(row.task_id, row.trial): row for row in rows}
    shown = {}  # each rollout is read and dropped: only what the brief tells of it is kept
    for rollout in read_rollouts(connection, evidence.id):
        place = (rollout.task_id, rollout.trial)
        shown[place] = _tell_trial(trials[place], rollout)
    summary = summarize(reduce_trials(evidence, [task.ref for task in tasks], rows))
    score = BriefScore(mean=summary.mean, se=summary.se, n_tasks=summary.n_tasks, n_scored=summary.n_scored)
    by_task: dict[str, list[TrialRow]] = defaultdict(list)
    for row in rows:
        by_task[row.task_id].append(row)
    told = [_tell_task(task, by_task[task.ref.id], shown) for task in tasks if by_task[task.ref.id]]
    return score, sorted(told, key=lambda t: (2.0 if t.mean is None else t.mean, t.task_id))


def _tell_task(task: SplitTask, rows: list[TrialRow], shown: dict[tuple[str, int], BriefTrial]) -> BriefTask:
    content = _read_payload(task.content or "{}")
    trials = [shown.get((row.task_id, row.trial)) or _tell_trial(row, None) for row in rows]
    rewards = [trial.reward for trial in trials if trial.reward is not None]
    return BriefTask(
        task_id=task.ref.id,
        input=content.get("input"),
        target=content.get("target"),
        metadata=content.get("metadata") or {},
        mean=sum(rewards) / len(rewards) if rewards else None,
        trials=trials,
    )


def _prune(value: Any, depth: int = 0) -> Any:
    """The value without what is nested so deeply that no JSON reader is sure to take it."""
    if depth == MAX_DEPTH and isinstance(value, dict | list):
        return "<nested too deeply>"
    if isinstance(value, dict):
        return {key: _prune(item, depth + 1) for key, item in value.items()}
    return [_prune(item, depth + 1) for item in value] if isinstance(value, list) else value


def _read_payload(text: str) -> dict[str, Any]:
    try:
        return {key: _prune(value) for key, value in json.loads(text).items()}
    except RecursionError:
        return {"output": "<nested too deeply>"}


def _tell_trial(row: TrialRow, rollout: RolloutRow | None) -> BriefTrial:
    payload = _read_payload(rollout.payload) if rollout is not None else {}
    outcome = row.outcome
    return BriefTrial(
        trial=row.trial,
        seed=row.seed,
        reward=outcome.reward if isinstance(outcome, Scored) else None,
        unmeasured=f"{outcome.reason}: {outcome.detail}" if isinstance(outcome, Unmeasured) else None,
        feedback=rollout.feedback if rollout is not None else "",
        output=payload.get("output"),
        trace=payload.get("trace"),
        tool_calls=payload.get("tool_calls"),
        error=payload.get("error"),
    )


def _read_history(connection: Connection, run_id: str, iteration: int) -> list[BriefAttempt]:
    decisions = {v.iteration: v.verdict.decision.value for v in read_verdicts(connection, run_id)}
    return [
        BriefAttempt(
            iteration=proposal.iteration,
            candidate=proposal.candidate_id,
            decision=decisions.get(proposal.iteration, proposal.status),
            summary=proposal.summary,
        )
        for proposal in read_proposals(connection, run_id)
        if proposal.iteration < iteration
    ]
