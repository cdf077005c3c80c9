"""The trials of a run as files, one each, to look at and to compute with by hand."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from capevolve.canonical import short
from capevolve.errors import UserError
from capevolve.finalize import is_committed
from capevolve.ledger.attempts import read_attempts
from capevolve.ledger.audit import hold_view
from capevolve.ledger.evaluations import EvaluationRecord, list_evaluations
from capevolve.ledger.rollouts import RolloutRow, read_rollouts
from capevolve.ledger.runs import read_run
from capevolve.ledger.trials import TrialRow, read_trials
from capevolve.model import Scored, Unmeasured

FOLDER = "rollouts"

_SLUG_LENGTH = 40
_HASH_LENGTH = 10


@dataclass(frozen=True, slots=True)
class WrittenRollouts:
    """What was written.

    Attributes:
        count: Files, one for each finished trial.
        withheld: True when trials of test were left out, because no result of theirs was committed.
    """

    folder: Path
    count: int
    withheld: bool


def write_rollouts(connection: Connection, run_id: str, folder: Path) -> WrittenRollouts:
    """Writes `rollouts/<split>/<task>__<candidate>__t<k>.json` for every finished trial.

    Trials of test are written for committed attempts only. Further evaluations of the same candidate on the
    same split get `__e<evaluation>` behind their names; on test the latest result has the plain ones.

    Args:
        connection: A read transaction in which nothing was read yet.
        folder: The run's folder; the folder of rollouts in it is replaced as a whole.

    Raises:
        LedgerError: The ledger does not know the run.
        UserError: The files cannot be written.
    """
    hold_view(connection)
    read_run(connection, run_id)
    attempts = {attempt.id: attempt for attempt in read_attempts(connection, run_id)}
    evaluations = list_evaluations(connection, run_id)
    shown = [
        evaluation
        for evaluation in evaluations
        if evaluation.key.attempt_id is None or attempts[evaluation.key.attempt_id].state == "committed"
    ]
    withheld = len(shown) < len(evaluations) or not is_committed(connection, run_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{FOLDER}.", dir=folder))
        try:
            count = sum(_write(connection, e, scratch, suffix) for e, suffix in _name(shown))
            scratch.chmod(0o755)
            shutil.rmtree(folder / FOLDER, ignore_errors=True)
            scratch.rename(folder / FOLDER)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"The rollouts cannot be written: {error.strerror or error}.", where=str(folder)
        ) from error
    return WrittenRollouts(folder / FOLDER, count, withheld)


def _name(evaluations: list[EvaluationRecord]) -> Iterator[tuple[EvaluationRecord, str]]:
    """The evaluations with what sets their files' names apart; whole and latest ones first."""
    taken = set()
    ordered = sorted(evaluations, key=lambda e: (-(e.key.attempt_id or 0), e.key.subset is not None, e.id))
    for evaluation in ordered:
        place = (evaluation.key.split, evaluation.key.candidate_id)
        yield evaluation, f"__e{evaluation.id}" if place in taken else ""
        taken.add(place)


def _write(connection: Connection, evaluation: EvaluationRecord, folder: Path, suffix: str) -> int:
    place = folder / evaluation.key.split
    place.mkdir(exist_ok=True)
    trials = {(row.task_id, row.trial): row for row in read_trials(connection, evaluation.id)}
    label = short(evaluation.key.candidate_id)
    count = 0
    for rollout in read_rollouts(connection, evaluation.id):
        trial = trials[rollout.task_id, rollout.trial]
        name = f"{name_task(trial.task_id)}__{label}__t{trial.trial}{suffix}.json"
        content = _describe(evaluation, trial, rollout)
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        (place / name).write_text(text + "\n", encoding="utf-8", newline="\n")
        count += 1
    return count


def name_task(task_id: str) -> str:
    """A file name for a task: what is readable of its id, and a hash that tells ids apart.

    No id makes a name that leaves its folder, is reserved, too long, or the same on a file system that
    ignores case.
    """
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", task_id)[:_SLUG_LENGTH].strip("-._")
    digest = hashlib.sha256(task_id.encode("utf-8")).hexdigest()[:_HASH_LENGTH]
    return f"{slug or 'task'}-{digest}"


def _describe(evaluation: EvaluationRecord, trial: TrialRow, rollout: RolloutRow) -> dict[str, Any]:
    key, outcome = evaluation.key, trial.outcome
    return {
        "schema_version": 1,
        "run": key.run_id,
        "split": key.split,
        "candidate": key.candidate_id,
        "evaluation": evaluation.id,
        "tag": key.tag,
        "task": trial.task_id,
        "trial": trial.trial,
        "seed": trial.seed,
        "reward": outcome.reward if isinstance(outcome, Scored) else None,
        "reason": outcome.reason.value if isinstance(outcome, Unmeasured) else None,
        "detail": outcome.detail if isinstance(outcome, Unmeasured) else None,
        "calls": trial.calls,
        "interrupted": trial.interrupted,
        "duration_s": trial.duration_s,
        "cost_usd": trial.cost_usd,
        "tokens": trial.tokens,
        "feedback": rollout.feedback,
        "metrics": json.loads(rollout.metrics),
        "rollout": json.loads(rollout.payload),
    }
