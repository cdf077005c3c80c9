"""The story of a run: split, baseline, {propose, evaluate, gate} until done, finalize, report."""

from __future__ import annotations

from pathlib import Path

from prefect import flow, tags
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger

from capevolve.canonical import short
from capevolve.errors import BudgetExhaustedError, CandidateError, LedgerError, OutsideError
from capevolve.gate.record import find_ask
from capevolve.proposers.proposal import discard_proposal, load_proposer
from capevolve.runs import OpenRun, RunRef, drive_run, end_run
from capevolve.search.planning import plan_next
from capevolve_flows.naming import name_run, resolve_run_id
from capevolve_tasks import (
    Evaluated,
    Judged,
    control,
    evaluate,
    finalize,
    gate,
    measure,
    propose,
    report,
    split,
)


@flow(name="optimize", flow_run_name=name_run)
async def optimize(project: str, run: str | None = None, allow_hopeless_gate: bool = False) -> str:
    """Improves a project's seed candidate and ends in one sealed test number. A rerun continues.

    Args:
        project: The folder of `capevolve.yaml`.
        run: The run to start or to continue; left out, it is named after the flow run.
        allow_hopeless_gate: Start even if the gate can never accept, whatever the candidate.

    Returns:
        The path of report.html.
    """
    run_id = resolve_run_id(run)
    with tags(f"run:{run_id}"), drive_run(Path(project), run_id) as driven:
        try:
            reason = await _search(driven, allow_hopeless_gate)
            await finalize(driven.ref)
            end_run(driven, "finished", reason)
            return await report(driven.ref)
        except BaseException as error:
            _note_stop(driven, error)
            raise


async def _search(run: OpenRun, allow_hopeless_gate: bool) -> str:
    """Searches until the policy or a cap ends it; returns why."""
    log = get_run_logger()
    started = await split(run.ref, allow_hopeless_gate)
    baseline = await evaluate(run.ref, started.seed_id, "val", "seed")
    _require_measured(baseline)
    if run.spec.gate.aa_control:
        await control(run.ref)
    while True:
        step = plan_next(run)
        if step.iteration is None:
            log.info("search ends: %s", step.stop_reason)
            return step.stop_reason or ""
        exhausted = await _iterate(run, step.iteration, step.parent_id)
        if exhausted is not None:
            return exhausted


async def _iterate(run: OpenRun, iteration: int, parent_id: str) -> str | None:
    """Makes or continues one iteration; returns the cap that stopped it, if one did."""
    ref: RunRef = run.ref
    if load_proposer(run.root, run.spec).needs_evidence:
        evidence = await evaluate(ref, parent_id, "train", short(parent_id))
        if evidence.exhausted is not None:
            return evidence.exhausted
    proposal = await propose(ref, iteration, parent_id)
    if proposal.candidate_id is None:
        return None
    label = f"{iteration}-{short(proposal.candidate_id)}"
    while (ask := find_ask(run, iteration)[1]) is not None:
        measured = await measure(ref, iteration, ask.stage, label)
        if measured.exhausted is not None:
            return measured.exhausted
        if measured.invalid is not None:
            discard_proposal(run, iteration, measured.invalid)
            return None
    # The state is the badge; asking for its result raises what failed. Prefect types it as not awaitable.
    state: State[Judged] = await gate(ref, iteration, return_state=True)  # type: ignore[misc]
    await state.aresult()
    return None


def _require_measured(baseline: Evaluated) -> None:
    if baseline.invalid is not None:
        raise CandidateError(
            baseline.invalid, where="the seed candidate", fix="`capevolve check` shows what fails."
        )
    if baseline.exhausted is not None:
        raise BudgetExhaustedError(
            f"There is no baseline: {baseline.exhausted}",
            where="capevolve.yaml, budget",
            fix="Raise the cap and resume: nothing was scored on test, what was measured is kept.",
        )
    if baseline.n_scored == 0:
        raise OutsideError(
            "Nothing of the baseline was measured: every trial ended without a reward.",
            where=f"seed candidate on val, {baseline.n_tasks} tasks",
            fix="`capevolve check` runs one real task and shows what fails.",
        )


def _note_stop(run: OpenRun, error: BaseException) -> None:
    """Notes why the run stopped, unless that is exactly what cannot be written."""
    try:
        end_run(run, "stopped", str(error) or type(error).__name__)
    except LedgerError:
        get_run_logger().warning("the stop could not be noted in the ledger")
