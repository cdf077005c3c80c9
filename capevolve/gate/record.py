"""The verdict of an iteration: judged on stored val measurements, recorded once."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection

from capevolve.canonical import canonical_json
from capevolve.errors import LedgerError
from capevolve.evaluate.measurement import read_measurement, read_tasks
from capevolve.failpoints import failpoint
from capevolve.gate.rules import GateSettings, judge
from capevolve.ledger.evaluations import EvaluationRecord, find_evaluation
from capevolve.ledger.leases import check_lease
from capevolve.ledger.proposals import (
    VerdictRecord,
    find_proposal,
    insert_verdict,
    read_verdicts,
)
from capevolve.model import Measurement
from capevolve.runs import OpenRun
from capevolve.spec import GateSpec


def record_verdict(run: OpenRun, iteration: int) -> VerdictRecord:
    """Judges the candidate of an iteration against the incumbent it edited; asked again, reads the verdict.

    Raises:
        LedgerError: The iteration has no candidate, or one side was not evaluated on val.
    """
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        for record in read_verdicts(connection, run.id):
            if record.iteration == iteration:
                return record
        proposal = find_proposal(connection, run.id, iteration)
        if proposal is None or proposal.candidate_id is None or proposal.status != "proposed":
            raise LedgerError(f"Iteration {iteration} of run {run.id} has no candidate to judge.")
        candidate, measured = _read_val(connection, run, proposal.candidate_id)
        incumbent, reference = _read_val(connection, run, proposal.parent_id)
        settings = gate_settings(run.spec.gate)
        record = VerdictRecord(
            iteration=iteration,
            candidate_id=proposal.candidate_id,
            incumbent_id=proposal.parent_id,
            candidate_evaluation=candidate.id,
            incumbent_evaluation=incumbent.id,
            settings=canonical_json(asdict(settings)),
            verdict=judge(measured, reference, settings),
            created_at=run.clock(),
        )
        failpoint("gate.judged")
        insert_verdict(connection, run.id, record)
    failpoint("gate.recorded")
    return record


def gate_settings(spec: GateSpec) -> GateSettings:
    """The gate's settings from the spec."""
    return GateSettings(
        mode=spec.mode, k_se=spec.k_se, threshold=spec.threshold, min_coverage=spec.min_coverage
    )


def _read_val(
    connection: Connection, run: OpenRun, candidate_id: str
) -> tuple[EvaluationRecord, Measurement]:
    evaluation = find_evaluation(connection, run.key(candidate_id, "val"))
    if evaluation is None or evaluation.finished_at is None:
        raise LedgerError("A candidate cannot be judged before its val evaluation is finished.")
    return evaluation, read_measurement(connection, evaluation, read_tasks(connection, evaluation))
