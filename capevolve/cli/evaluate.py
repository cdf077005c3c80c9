"""`capevolve evaluate`: JSON on standard output, everything else on standard error."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pydantic import BaseModel

from capevolve.candidates import read_tree, store_candidate
from capevolve.cli.find import find_candidate, found_run
from capevolve.errors import UserError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.model import Measurement, Split
from capevolve.runs import OpenRun, drive_run
from capevolve.stats import summarize, task_stats

ONE_TRIAL = (
    "capevolve: one trial per task: the variance within tasks is unmeasured and pass^k is known for k = 1 "
    "only. Honest for a deterministic target; use --n-trials 3 or more for a stochastic one.\n"
)

NO_PREFECT = "capevolve: evaluation.prefect_limit is not kept here: this command runs without Prefect.\n"


class TaskResult(BaseModel):
    """One task of the result; `reward` is its mean over `n` measured trials."""

    task_id: str
    reward: float | None
    stderr: float | None
    n: int
    unmeasured: list[str]


class EvaluationResult(BaseModel):
    """What `capevolve evaluate` prints. A k that was not measured is absent."""

    run: str
    candidate: str
    split: str
    subset: bool
    n_trials: int
    reward: float | None
    stderr: float | None
    n_tasks: int
    n_scored: int
    coverage: float | None
    pass_k: dict[str, float | None]
    pass_at_k: dict[str, float | None]
    per_task: list[TaskResult]


def evaluate_candidate(
    project: Path,
    run: str | None,
    run_dir: Path | None,
    candidate: str,
    split: str,
    n_trials: int | None,
    ks: str | None,
    ids: str | None,
) -> None:
    """Evaluates a candidate and prints the result."""
    checked = _check_split(split)
    wanted = None if ks is None else _parse_ks(ks)
    if run_dir is not None:
        project, run = _split_run_dir(run_dir)
    with found_run(project, run) as found:
        run_id, root = found.run_id, found.loaded.root
    with drive_run(root, run_id, create=False) as driven:
        trials = n_trials or driven.spec.evaluation.num_trials
        if trials == 1:
            sys.stderr.write(ONE_TRIAL)
        if driven.spec.evaluation.prefect_limit is not None:
            sys.stderr.write(NO_PREFECT)
        request = EvaluationRequest(_resolve(driven, candidate), checked, trials, _parse_ids(ids))
        measurement = asyncio.run(evaluate(driven, request))
    result = build_result(run_id, measurement, wanted)
    sys.stdout.write(result.model_dump_json(indent=2) + "\n")


def _check_split(split: str) -> Split:
    if split == "train":
        return "train"
    if split == "val":
        return "val"
    raise UserError(
        "The test split is sealed." if split == "test" else f"There is no split {split!r}.",
        where="--split",
        fix="Choose train or val. The test number comes once, from `capevolve finalize`.",
    )


def _parse_ks(text: str) -> tuple[int, ...]:
    try:
        ks = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        ks = ()
    if not ks or min(ks) < 1:
        raise UserError(f"{text!r} is not a list of k.", where="--ks", fix="Write it as 1,2,3.")
    return ks


def _parse_ids(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _split_run_dir(run_dir: Path) -> tuple[Path, str]:
    folder = run_dir.resolve()
    if folder.parent.name != "runs" or folder.parent.parent.name != ".capevolve":
        raise UserError(
            "This is not a run's folder.", where=str(run_dir), fix="Name PROJECT/.capevolve/runs/RUN."
        )
    return folder.parents[2], folder.name


def _resolve(run: OpenRun, name: str) -> str:
    """The candidate's id; a folder becomes a candidate of the ledger first."""
    if Path(name).is_dir():
        tree = read_tree(Path(name))
        with run.ledger.write() as connection:
            return store_candidate(connection, tree).id
    with run.ledger.read() as connection:
        return find_candidate(connection, run.id, name).id


def build_result(run_id: str, measurement: Measurement, ks: tuple[int, ...] | None) -> EvaluationResult:
    """The result of a measurement as it is printed."""
    summary = summarize(measurement, ks)
    return EvaluationResult(
        run=run_id,
        candidate=measurement.candidate_id,
        split=measurement.split,
        subset=measurement.subset,
        n_trials=measurement.num_trials,
        reward=summary.mean,
        stderr=summary.se,
        n_tasks=summary.n_tasks,
        n_scored=summary.n_scored,
        coverage=summary.coverage,
        pass_k={str(k): value.value for k, value in summary.pass_k.items()},
        pass_at_k={str(k): value.value for k, value in summary.pass_at_k.items()},
        per_task=[
            TaskResult(
                task_id=task.task_id,
                reward=task_stats(task.rewards).value,
                stderr=task_stats(task.rewards).se,
                n=len(task.rewards),
                unmeasured=[f"{u.reason}: {u.detail}" for u in task.unmeasured],
            )
            for task in measurement.tasks
        ],
    )
