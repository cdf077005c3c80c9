"""Finalize: the sealed test split scored once, for the best and the seed candidate, and one number.

This is the only module that opens the seal. Both candidates are scored in one interleaved queue, so that
drift of the target's world meets both alike. The numbers are computed from the stored trials alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

import capevolve
from capevolve import seal
from capevolve.errors import TestSealError
from capevolve.evaluate import EvaluationRequest, evaluate_together
from capevolve.evaluate.progress import Progress, ignore_progress
from capevolve.evaluate.ticket import Ticket
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.record import read_past
from capevolve.gate.val_record import ValRecord, build_val
from capevolve.gate.val_scores import read_val_scores
from capevolve.ledger.attempts import find_attempt
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.runs import find_splits, read_run, read_split
from capevolve.ledger.trials import read_trials
from capevolve.model import Measurement
from capevolve.result import FinalResult, SealRecord, build_result
from capevolve.runs import OpenRun
from capevolve.search.planning import read_remaining_for_final
from capevolve.search.state import find_incumbent

BEST_TAG = "FINAL"
SEED_TAG = "FINAL_seed"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a finalize ended with.

    Attributes:
        fresh: False when the result was there already.
        chain_head: Hash of the last seal event, to publish where others keep it.
    """

    result: FinalResult
    fresh: bool
    chain_head: str


def is_committed(connection: Connection, run_id: str) -> bool:
    """Whether a run has its test numbers."""
    return isinstance(seal.read_state(connection, run_id), seal.Committed)


async def conclude(
    run: OpenRun,
    *,
    override_reason: str | None = None,
    on_progress: Callable[[Progress], None] = ignore_progress,
) -> Conclusion:
    """Finalizes a run, or reads the result of one that is finalized. Safe to call any number of times."""
    stored = _read_stored(run) if override_reason is None else None
    result = stored or await finalize(run, override_reason=override_reason, on_progress=on_progress)
    with run.ledger.read() as connection:
        return Conclusion(result, stored is None, seal.read_head(connection, run.id))


def _read_stored(run: OpenRun) -> FinalResult | None:
    with run.ledger.read() as connection:
        state = seal.read_state(connection, run.id)
    if isinstance(state, seal.Committed) and state.attempt.result is not None:
        return FinalResult.model_validate_json(state.attempt.result)
    return None


async def finalize(
    run: OpenRun,
    *,
    override_reason: str | None = None,
    on_progress: Callable[[Progress], None] = ignore_progress,
) -> FinalResult:
    """Scores the test split for the best and the seed candidate and commits the result.

    An interrupted finalize is continued: trials with a result are never called again.

    Args:
        override_reason: Why the test split may be scored although it was before; on record for ever.

    Raises:
        TestSealError: The run is committed, another plan was begun, or the looks are used up.
        FencedError: Another driver took the run over.
        BudgetExhaustedError: The cap on money was reached; the attempt stays open and can be continued.
    """
    with run.ledger.read() as connection:
        if override_reason is None:
            seal.reserve(connection, run.id)
        record = read_run(connection, run.id)
        best_id = find_incumbent(record.seed_candidate, read_verdicts(connection, run.id))
    request = seal.PlanRequest(
        best_id=best_id,
        seed_id=record.seed_candidate,
        num_trials=run.spec.seal_trials(),
        base_seed=run.spec.base_seed(),
        ks=run.spec.evaluation.reported_ks(run.spec.seal_trials()),
        adapter_files=record.adapter_files,
        version=capevolve.__version__,
    )
    ticket = seal.open_attempt(
        run.ledger,
        run.driver,
        request,
        now=run.clock(),
        override_reason=override_reason,
        max_looks=run.spec.seal.max_test_looks,
    )
    best, seed = await _score(run, request, ticket, on_progress)
    result = _compute(run, request, ticket, best, seed)
    seal.commit(run.ledger, run.driver, ticket, result.to_json(), now=run.clock())
    return result


async def _score(
    run: OpenRun, request: seal.PlanRequest, ticket: Ticket, on_progress: Callable[[Progress], None]
) -> tuple[Measurement, Measurement | None]:
    """Scores both candidates; one evaluation when they are the same."""
    arms = [(request.best_id, BEST_TAG)]
    if request.seed_id != request.best_id:
        arms.append((request.seed_id, SEED_TAG))
    measurements = await evaluate_together(
        run,
        [EvaluationRequest(candidate_id, "test", request.num_trials, tag=tag) for candidate_id, tag in arms],
        ticket=ticket,
        remaining=read_remaining_for_final(run),
        on_progress=on_progress,
    )
    return measurements[0], measurements[1] if len(measurements) > 1 else None


def _compute(
    run: OpenRun,
    request: seal.PlanRequest,
    ticket: Ticket,
    best: Measurement,
    seed: Measurement | None,
) -> FinalResult:
    with run.ledger.read() as connection:
        attempt = find_attempt(connection, ticket.attempt_id)
        splits = find_splits(connection, run.id)
        if attempt is None or splits is None:
            raise TestSealError("The attempt that was scored is not in the ledger.", where=run.id)
        mine = [e for e in list_evaluations(connection, run.id) if e.key.attempt_id == attempt.id]
        interrupted = sum(t.interrupted for e in mine for t in read_trials(connection, e.id))
        looks = seal.count_earlier_looks(connection, splits)
        val = _read_val(connection, run, request)
        record = SealRecord(
            looks=looks,
            look=attempt.look,
            attempts=attempt.number,
            interrupted_trials=interrupted,
            override_reason=attempt.override_reason,
            plan_digest=attempt.plan_digest,
            test_digest=splits.test_digest,
            chain_head=seal.read_head(connection, run.id),
        )
    return build_result(
        run_id=run.id,
        version=request.version,
        best_id=request.best_id,
        seed_id=request.seed_id,
        best=best,
        seed=seed,
        ks=request.ks,
        splits=splits,
        seal=record,
        val=val,
    )


def _read_val(connection: Connection, run: OpenRun, request: seal.PlanRequest) -> ValRecord | None:
    settings = gate_settings(run.spec.gate)
    refs = [task.ref for task in read_split(connection, run.id, "val")]
    scores = read_val_scores(read_past(connection, run), settings, refs)
    fresh = settings.confirm is not None
    return build_val(request.best_id, request.seed_id, scores, fresh=fresh)
