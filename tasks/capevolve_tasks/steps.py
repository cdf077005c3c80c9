"""The six steps of a run. Each opens the run from its reference, does its part, and closes it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed
from prefect.tasks import exponential_backoff

from capevolve.design import refuse_hopeless_gate
from capevolve.errors import BudgetExhaustedError, CandidateError, OutsideError
from capevolve.evaluate import EvaluationRequest
from capevolve.evaluate import evaluate as evaluate_candidate
from capevolve.evaluate.progress import Progress
from capevolve.finalize import conclude
from capevolve.gate.control import describe_noise, refuse_noise, run_control
from capevolve.gate.record import find_ask, measure_ask, record_verdict
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.runs import read_split
from capevolve.model import Decision, Measurement
from capevolve.proposers.proposal import make_proposal
from capevolve.report import candidate_rows, read_facts, render_markdown, write_projections
from capevolve.runs import OpenRun, RunRef, attach_run
from capevolve.search.planning import read_remaining
from capevolve.start import start_run
from capevolve.stats import summarize
from capevolve_tasks.artifacts import (
    artifact_key,
    progress_artifact,
    show_candidates,
    show_report,
    show_seal,
)
from capevolve_tasks.limits import make_admit, read_size
from capevolve_tasks.outcomes import Evaluated, Finalized, Judged, Proposed, Started

RETRIES = 3

_BADGES = {
    Decision.ACCEPT: "Accepted",
    Decision.REJECT: "Rejected",
    Decision.INDECISIVE: "Indecisive",
}


def is_outside(_task: Any, _run: Any, state: State[Any]) -> bool:
    """True when the failure was outside capevolve and may pass. Everything else fails at once."""
    error = getattr(state.data, "result", state.data)
    return isinstance(error, OutsideError)


@contextmanager
def opened(ref: RunRef) -> Iterator[OpenRun]:
    """The run of a reference, its ledger closed afterwards."""
    run = attach_run(ref)
    limit = run.spec.evaluation.prefect_limit
    try:
        yield run if limit is None else replace(run, admit=make_admit(limit))
    finally:
        run.ledger.close()


_STEP: dict[str, Any] = {
    "cache_policy": NO_CACHE,
    "persist_result": False,
    "retries": RETRIES,
    "retry_delay_seconds": exponential_backoff(2),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": is_outside,
}


@task(task_run_name="split", **_STEP)
async def split(ref: RunRef, allow_hopeless_gate: bool = False) -> Started:
    """Lists the tasks and freezes the splits, once, and refuses a gate that can never accept.

    Args:
        ref: The driven run.
        allow_hopeless_gate: Go on with such a gate all the same.
    """
    with opened(ref) as run:
        if run.spec.evaluation.prefect_limit is not None:
            await read_size(run.spec.evaluation.prefect_limit)
        started = await start_run(run)
        with run.ledger.read() as connection:
            is_new = not list_evaluations(connection, run.id)
            refs = [task.ref for task in read_split(connection, run.id, "val")]
        if is_new and not allow_hopeless_gate:
            units = {("task", ref.id) if ref.cluster is None else ("cluster", ref.cluster) for ref in refs}
            refuse_hopeless_gate(run.spec, len(refs), val_units=len(units))
    log = get_run_logger()
    for warning in started.splits.warnings:
        log.warning(warning)
    return Started(started.record.seed_candidate, started.splits.sizes, started.splits.warnings)


@task(task_run_name="evaluate-{label}-{split}", **_STEP)
async def evaluate(
    ref: RunRef, candidate_id: str, split: Literal["train", "val", "test"], label: str
) -> Evaluated:
    """Evaluates a candidate on train or val. A rerun continues; finished trials are never called again.

    Args:
        ref: The driven run.
        candidate_id: The candidate's digest.
        split: `train` or `val`; `test` is refused, it belongs to finalize.
        label: A short name for people.
    """
    key = artifact_key("progress", ref.run_id, label, split)
    with opened(ref) as run:
        request = EvaluationRequest(candidate_id, split)
        return await _evaluate(
            key,
            f"{label} on {split}",
            lambda note: evaluate_candidate(run, request, remaining=read_remaining(run), on_progress=note),
            candidate_id,
            split,
        )


async def _evaluate(
    key: str,
    title: str,
    run_trials: Callable[[Callable[[Progress], None]], Awaitable[Measurement]],
    candidate_id: str,
    split: str,
) -> Evaluated:
    """Runs trials beside their progress artifact; a cap and an unfit candidate are outcomes, not failures."""
    exhausted, invalid = None, None
    async with progress_artifact(key, title) as note:
        try:
            measurement = await run_trials(note)
        except BudgetExhaustedError as error:
            exhausted = error.what
        except CandidateError as error:
            invalid = error.what
    if exhausted is not None or invalid is not None:
        get_run_logger().warning(exhausted or invalid)
        return Evaluated(candidate_id, split, None, None, 0, 0, exhausted, invalid)
    summary = summarize(measurement)
    get_run_logger().info(
        "%s: mean %s, SE %s, %d of %d tasks",
        title, summary.mean, summary.se, summary.n_scored, summary.n_tasks,
    )  # fmt: skip
    return Evaluated(candidate_id, split, summary.mean, summary.se, summary.n_scored, summary.n_tasks)


@task(task_run_name="evaluate-{label}-{stage}", **_STEP)
async def measure(ref: RunRef, iteration: int, stage: str, label: str) -> Evaluated:
    """Runs the val trials that the gate asks for before it can judge. A rerun continues.

    Args:
        ref: The driven run.
        iteration: The iteration whose candidate is measured; 0 is the A/A control.
        stage: What the trials are for, as the gate named it.
        label: A short name for people.
    """
    with opened(ref) as run:
        match, ask = find_ask(run, iteration)
        if ask is None or ask.stage != stage:
            return Evaluated(match.candidate_id, "val", None, None, 0, 0)  # another execution was faster
        key = artifact_key("progress", ref.run_id, label, stage)
        return await _evaluate(
            key,
            f"{label} on val, {stage}",
            lambda note: measure_ask(run, match, ask, remaining=read_remaining(run), on_progress=note),
            match.candidate_id,
            "val",
        )


@task(task_run_name="aa-control", **_STEP)
async def control(ref: RunRef) -> str:
    """Puts a copy of the seed candidate through the gate; returns the noise floor in words.

    Args:
        ref: The driven run.
    """
    with opened(ref) as run:
        async with progress_artifact(artifact_key("progress", run.id, "aa"), "A/A control") as note:
            found = await run_control(run, remaining=lambda: read_remaining(run), on_progress=note)
    floor = describe_noise(found)
    get_run_logger().info(floor)
    refuse_noise(found)
    return floor


@task(task_run_name="propose-{iteration}", **_STEP)
async def propose(ref: RunRef, iteration: int, parent_id: str) -> Proposed:
    """Calls the proposer on a scratch copy of the incumbent with a brief of train evidence.

    Args:
        ref: The driven run.
        iteration: The iteration, from 1.
        parent_id: The incumbent's digest.
    """
    with opened(ref) as run:
        proposal = await make_proposal(run, iteration, parent_id)
    get_run_logger().info("%s: %s", proposal.status, proposal.summary or proposal.detail or "no words")
    candidate_id = proposal.candidate_id if proposal.status == "proposed" else None
    return Proposed(iteration, proposal.status, candidate_id, proposal.summary)


@task(task_run_name="gate-{iteration}", **_STEP)
async def gate(ref: RunRef, iteration: int) -> State[Judged]:
    """Judges the iteration's candidate on val against the incumbent it edited.

    Args:
        ref: The driven run.
        iteration: The iteration, from 1.
    """
    with opened(ref) as run:
        record = record_verdict(run, iteration)
        rows = candidate_rows(read_facts(run.ledger, run.id, now=time.time()))
    await show_candidates(ref.run_id, rows)
    verdict = record.verdict
    judged = Judged(iteration, verdict.decision.value, verdict.reason)
    return Completed(name=_BADGES[verdict.decision], message=verdict.reason, data=judged)


@task(task_run_name="finalize", **_STEP)
async def finalize(ref: RunRef, override_reason: str | None = None) -> Finalized:
    """Scores the sealed test split for the best and the seed candidate, once.

    Args:
        ref: The driven run.
        override_reason: Why test may be scored although it was before; on record for ever.
    """
    with opened(ref) as run:
        async with progress_artifact(artifact_key("progress", run.id, "final"), "finalize") as note:
            conclusion = await conclude(run, override_reason=override_reason, on_progress=note)
    await show_seal(ref.run_id, conclusion.chain_head)
    result = conclusion.result
    delta = None if result.test_delta is None else result.test_delta.delta
    return Finalized(
        result.test.reward,
        result.test_baseline.reward,
        delta,
        result.test_delta_reason,
        result.test_looks,
        conclusion.fresh,
    )


@task(task_run_name="report", **_STEP)
async def report(ref: RunRef) -> str:
    """Writes the run's projections and shows the report; returns the path of report.html.

    Args:
        ref: The driven run.
    """
    with opened(ref) as run:
        projections = write_projections(run.ledger, run.root, run.id, now=time.time())
    await show_candidates(ref.run_id, candidate_rows(projections.facts))
    await show_report(ref.run_id, render_markdown(projections.facts))
    return str(projections.report_html)
