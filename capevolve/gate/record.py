"""The gate at work on a run: what it needs next, the trials it asks for, and the verdict, recorded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from sqlalchemy import Connection

from capevolve.budget import Remaining
from capevolve.canonical import canonical_json
from capevolve.errors import LedgerError
from capevolve.evaluate import EvaluationRequest, evaluate_together
from capevolve.evaluate.measurement import read_measurement, read_tasks
from capevolve.evaluate.progress import Progress, ignore_progress
from capevolve.failpoints import failpoint
from capevolve.gate.confirm.case import Ask
from capevolve.gate.confirm.history import Past, describe_past, read_record
from capevolve.gate.confirm.seeds import ArmName
from capevolve.gate.decide import Judgement, Match, decide, locate
from capevolve.gate.from_spec import gate_settings
from capevolve.ledger.evaluations import EvaluationKey, find_evaluation
from capevolve.ledger.leases import check_lease
from capevolve.ledger.proposals import VerdictRecord, find_proposal, insert_verdict, read_verdicts
from capevolve.ledger.runs import read_run, read_split
from capevolve.model import Measurement
from capevolve.runs import OpenRun


def find_ask(run: OpenRun, iteration: int) -> tuple[Match, Ask | None]:
    """Returns whom an iteration judges, and the trials that the gate still needs for it.

    Nothing is needed when the gate can judge, or has judged.

    Raises:
        LedgerError: The iteration has no candidate, or its incumbent was not evaluated on val.
    """
    with run.ledger.read() as connection:
        match = read_match(connection, run, iteration)
        if _find_verdict(connection, run, iteration) is not None:
            return match, None
        step = step_gate(connection, run, match, iteration)
    return match, step if isinstance(step, Ask) else None


async def measure_ask(
    run: OpenRun,
    match: Match,
    ask: Ask,
    *,
    remaining: Remaining | None = None,
    on_progress: Callable[[Progress], None] = ignore_progress,
) -> Measurement:
    """Runs the trials of an ask, both arms interleaved where it is for both; returns the candidate's.

    Asked again, it continues: see `evaluate`.

    Raises:
        LedgerError: The gate would not find what was measured, and ask for it for ever.
    """
    arms: tuple[ArmName, ...] = ("candidate", "incumbent") if ask.both else ("candidate",)
    keys = [locate(run.id, match, ask, arm) for arm in arms]
    requests = [
        EvaluationRequest(key.candidate_id, "val", key.num_trials, key.subset, key.tag, key.base_seed)
        for key in keys
    ]
    measured = await evaluate_together(run, requests, remaining=remaining, on_progress=on_progress)
    failpoint("gate.measured")
    with run.ledger.read() as connection:
        found = [find_evaluation(connection, key) for key in keys]
    if any(evaluation is None or evaluation.finished_at is None for evaluation in found):
        raise LedgerError(f"The {ask.stage} trials of run {run.id} are measured and cannot be found again.")
    return measured[0]


def read_match(connection: Connection, run: OpenRun, iteration: int) -> Match:
    """Returns whom an iteration judges against whom.

    Raises:
        LedgerError: The iteration has no candidate.
    """
    proposal = find_proposal(connection, run.id, iteration)
    if proposal is None or proposal.candidate_id is None or proposal.status != "proposed":
        raise LedgerError(f"Iteration {iteration} of run {run.id} has no candidate to judge.")
    return Match(proposal.candidate_id, proposal.candidate_id, proposal.parent_id)


def step_gate(connection: Connection, run: OpenRun, match: Match, iteration: int) -> Ask | Judgement:
    """Returns what the gate needs next for a match, or its judgement."""
    task_ids = [task.ref.id for task in read_split(connection, run.id, "val")]
    return decide(read_past(connection, run, iteration), match, gate_settings(run.spec.gate), task_ids)


def read_past(connection: Connection, run: OpenRun, iteration: int | None = None) -> Past:
    """Returns the run as the gate knows it before an iteration; None is now."""
    verdicts = read_verdicts(connection, run.id)
    earlier = [v for v in verdicts if iteration is None or v.iteration < iteration]
    record = read_run(connection, run.id)
    return describe_past(record, run.spec, earlier, lambda key: _find_measurement(connection, key))


def read_incumbent(connection: Connection, run: OpenRun, candidate_id: str) -> Measurement | None:
    """Returns what the gate knows of an incumbent on val; None while its evaluation is not finished.

    In mode `confirm` that is its record, in the others its full val evaluation.
    """
    task_ids = [task.ref.id for task in read_split(connection, run.id, "val")]
    return read_record(read_past(connection, run), candidate_id, gate_settings(run.spec.gate), task_ids)


def _find_measurement(connection: Connection, key: EvaluationKey) -> Measurement | None:
    evaluation = find_evaluation(connection, key)
    if evaluation is None or evaluation.finished_at is None:
        return None
    return read_measurement(connection, evaluation, read_tasks(connection, evaluation))


def _find_verdict(connection: Connection, run: OpenRun, iteration: int) -> VerdictRecord | None:
    return next((v for v in read_verdicts(connection, run.id) if v.iteration == iteration), None)


def record_verdict(run: OpenRun, iteration: int) -> VerdictRecord:
    """Judges the candidate of an iteration against the incumbent it edited; asked again, reads the verdict.

    Raises:
        LedgerError: The iteration has no candidate, or something that the gate needs was not measured.
    """
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        known = _find_verdict(connection, run, iteration)
        if known is not None:
            return known
        match = read_match(connection, run, iteration)
        step = step_gate(connection, run, match, iteration)
        if isinstance(step, Ask):
            raise LedgerError(f"A candidate cannot be judged before its {step.stage} trials are finished.")
        if step.candidate_evaluation is None:
            raise LedgerError(f"Iteration {iteration} has nothing to record: {step.verdict.reason}.")
        record = VerdictRecord(
            iteration=iteration,
            candidate_id=match.candidate_id,
            incumbent_id=match.incumbent_id,
            candidate_evaluation=step.candidate_evaluation,
            incumbent_evaluation=step.incumbent_evaluation,
            settings=canonical_json(asdict(gate_settings(run.spec.gate))),
            verdict=step.verdict,
            created_at=run.clock(),
        )
        failpoint("gate.judged")
        insert_verdict(connection, run.id, record)
    failpoint("gate.recorded")
    return record
