"""Proposals and the verdicts on them, one of each per iteration."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, select, update

from capevolve.canonical import canonical_json
from capevolve.ledger import schema
from capevolve.model import Decision, StageVerdict, Verdict

ProposalStatus = Literal["started", "proposed", "duplicate", "empty", "invalid", "failed", "exhausted"]


@dataclass(frozen=True, slots=True)
class ProposalRecord:
    """What a proposer made of the incumbent in one iteration.

    Attributes:
        status: `started` until the proposer ended; `proposed` has a new candidate; the others have none
            that needs an evaluation.
        calls: How often the proposer was called for this iteration (2 after one interruption).
        cost_usd, tokens: What all these calls reported together; None when none of them did.
    """

    iteration: int
    parent_id: str
    status: ProposalStatus
    candidate_id: str | None
    summary: str
    detail: str
    cost_usd: float | None
    tokens: int | None
    calls: int
    started_at: float
    finished_at: float | None


def start_proposal(connection: Connection, run_id: str, iteration: int, parent_id: str, now: float) -> None:
    """Notes that the proposer is about to be called, once more if it was interrupted before."""
    table = schema.proposals
    mine = (table.c.run_id == run_id) & (table.c.iteration == iteration)
    before = connection.scalar(select(table.c.calls).where(mine))
    if before is None:
        connection.execute(
            insert(table).values(
                run_id=run_id,
                iteration=iteration,
                parent_id=parent_id,
                status="started",
                summary="",
                detail="",
                calls=1,
                started_at=now,
            )
        )
    else:
        connection.execute(
            update(table).where(mine, table.c.status == "started").values(calls=before + 1, started_at=now)
        )


def charge_proposal(
    connection: Connection, run_id: str, iteration: int, cost_usd: float | None, tokens: int | None
) -> None:
    """Adds what one call of the proposer cost to a started proposal, whatever becomes of it."""
    table = schema.proposals
    mine = (table.c.run_id == run_id) & (table.c.iteration == iteration) & (table.c.status == "started")
    for column, part in ((table.c.cost_usd, cost_usd), (table.c.tokens, tokens)):
        if part is not None:
            total = func.coalesce(column, 0) + part
            connection.execute(update(table).where(mine).values({column: total}))


def finish_proposal(connection: Connection, run_id: str, proposal: ProposalRecord) -> None:
    """Fills a started proposal in and charges its cost; one that is filled stays as it is."""
    charge_proposal(connection, run_id, proposal.iteration, proposal.cost_usd, proposal.tokens)
    table = schema.proposals
    values = asdict(proposal)
    for key in ("iteration", "parent_id", "calls", "started_at", "cost_usd", "tokens"):
        del values[key]
    connection.execute(
        update(table)
        .where(table.c.run_id == run_id, table.c.iteration == proposal.iteration, table.c.status == "started")
        .values(**values)
    )


def invalidate_proposal(connection: Connection, run_id: str, iteration: int, detail: str) -> None:
    """Notes that a proposed candidate turned out unfit before it could be judged."""
    table = schema.proposals
    connection.execute(
        update(table)
        .where(table.c.run_id == run_id, table.c.iteration == iteration, table.c.status == "proposed")
        .values(status="invalid", candidate_id=None, detail=detail)
    )


def read_proposals(connection: Connection, run_id: str) -> tuple[ProposalRecord, ...]:
    """The proposals of a run in order of iteration."""
    table = schema.proposals
    rows = connection.execute(select(table).where(table.c.run_id == run_id).order_by(table.c.iteration))
    records = []
    for row in rows:
        values = row._asdict()
        del values["run_id"]
        records.append(ProposalRecord(**values))
    return tuple(records)


def find_proposal(connection: Connection, run_id: str, iteration: int) -> ProposalRecord | None:
    """The proposal of one iteration, or None."""
    return next((p for p in read_proposals(connection, run_id) if p.iteration == iteration), None)


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """A verdict with the evaluations, if any, and the gate settings (canonical JSON) it rests on."""

    iteration: int
    candidate_id: str
    incumbent_id: str
    candidate_evaluation: int | None
    incumbent_evaluation: int | None
    settings: str
    verdict: Verdict
    created_at: float


def insert_verdict(connection: Connection, run_id: str, record: VerdictRecord) -> None:
    """Adds the verdict of an iteration."""
    connection.execute(
        insert(schema.verdicts).values(
            run_id=run_id,
            iteration=record.iteration,
            candidate_id=record.candidate_id,
            incumbent_id=record.incumbent_id,
            candidate_evaluation=record.candidate_evaluation,
            incumbent_evaluation=record.incumbent_evaluation,
            settings=record.settings,
            decision=record.verdict.decision.value,
            payload=canonical_json(asdict(record.verdict)),
            created_at=record.created_at,
        )
    )


def read_verdicts(connection: Connection, run_id: str) -> tuple[VerdictRecord, ...]:
    """The verdicts of a run in order of iteration."""
    table = schema.verdicts
    rows = connection.execute(select(table).where(table.c.run_id == run_id).order_by(table.c.iteration))
    return tuple(
        VerdictRecord(
            row.iteration,
            row.candidate_id,
            row.incumbent_id,
            row.candidate_evaluation,
            row.incumbent_evaluation,
            row.settings,
            parse_verdict(row.payload),
            row.created_at,
        )
        for row in rows
    )


def parse_verdict(payload: str) -> Verdict:
    """Reads a verdict back from its canonical JSON."""
    values = json.loads(payload)
    values["decision"] = Decision(values["decision"])
    values["dropped"] = tuple((task_id, reason) for task_id, reason in values["dropped"])
    values["stages"] = tuple(_parse_stage(stage) for stage in values.get("stages", ()))
    return Verdict(**values)


def _parse_stage(values: dict[str, Any]) -> StageVerdict:
    task_ids = values.get("task_ids")
    return StageVerdict(**{**values, "task_ids": None if task_ids is None else tuple(task_ids)})
