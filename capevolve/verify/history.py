"""The seal's chain recomputed and replayed, and the attempts compared with what it says of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from capevolve import seal
from capevolve.canonical import digest, digest_bytes
from capevolve.evaluate.ticket import TestPlan
from capevolve.ledger.attempts import AttemptRecord, SealEvent, read_attempts, read_seal_events
from capevolve.ledger.audit import read_looks
from capevolve.ledger.evidence import SealedDigests, parse_payload
from capevolve.verify.difference import expect, name_row, reading, refuse


@dataclass(slots=True)
class _Replay:
    """An attempt as the chain tells it."""

    plan: str
    splits: str
    look: int
    override: str | None
    opened_at: float
    state: str = "open"
    ended_at: float | None = None
    result: str | None = None
    head: str = ""
    evidence: SealedDigests | None = None


@dataclass(frozen=True, slots=True)
class VerifiedAttempt:
    """An attempt whose row is what the chain says.

    Attributes:
        head: The chain's head before the commit; empty for an attempt that was not committed.
        evidence: The digests of the run's rows at the commit; None without a commit, or when they are of a
            version this capevolve does not know.
    """

    row: AttemptRecord
    plan: TestPlan
    splits_digest: str
    head: str
    evidence: SealedDigests | None

    @property
    def where(self) -> str:
        """The attempt's row."""
        return name_row("attempts", run=self.row.run_id, attempt=self.row.number)

    @property
    def committed(self) -> bool:
        """Whether it has a result."""
        return self.row.state == "committed"


@dataclass(frozen=True, slots=True)
class History:
    """The attempts of a run, in order, and the chain's length and head."""

    attempts: tuple[VerifiedAttempt, ...]
    events: int
    head: str

    @property
    def committed(self) -> tuple[VerifiedAttempt, ...]:
        """The attempts that have a result."""
        return tuple(attempt for attempt in self.attempts if attempt.committed)

    @property
    def is_sealed(self) -> bool:
        """True while no result was committed, so that no test id may be shown."""
        return not self.committed


def check_history(connection: Connection, run_id: str) -> History:
    """Recomputes the chain, replays it, and compares the attempts and their looks with it.

    Raises:
        TamperError: A link is broken, or an attempt is not what the chain says.
    """
    chain = read_seal_events(connection, run_id)
    with reading(name_row("seal_events", run=run_id)):
        seal.check_chain(run_id, chain)
        replays = _replay(run_id, chain)
        rows = read_attempts(connection, run_id)
    _match(run_id, chain, replays, rows)
    attempts = []
    for row, told in zip(rows, replays, strict=True):
        _compare(row, told)
        _check_look(connection, row)
        with reading(name_row("attempts", run=run_id, attempt=row.number)):
            plan = TestPlan.from_json(row.plan)
        attempts.append(VerifiedAttempt(row, plan, told.splits, told.head, told.evidence))
    head = chain[-1].hash if chain else seal.genesis(run_id)
    return History(tuple(attempts), len(chain), head)


def _replay(run_id: str, chain: Sequence[SealEvent]) -> list[_Replay]:
    attempts: list[_Replay] = []
    for event in chain:
        where = name_row("seal_events", run=run_id, seq=event.seq)
        with reading(where):
            payload = json.loads(event.payload)
            step = _STEPS.get(event.kind)
            if step is not None and not step(attempts, event, payload):
                refuse(f"The event {event.kind!r} does not follow from those before it.", where)
    return attempts


def _open(attempts: list[_Replay], event: SealEvent, payload: Mapping[str, Any]) -> bool:
    if payload["attempt"] != len(attempts) + 1:
        return False
    if attempts and attempts[-1].state == "open":
        attempts[-1].state, attempts[-1].ended_at = "superseded", event.at
    attempts.append(
        _Replay(payload["plan"], payload["splits"], payload["look"], payload["override"], event.at)
    )
    return True


def _continue(attempts: list[_Replay], event: SealEvent, payload: Mapping[str, Any]) -> bool:
    return _is_open(attempts, payload)


def _replan(attempts: list[_Replay], event: SealEvent, payload: Mapping[str, Any]) -> bool:
    if not _is_open(attempts, payload) or payload["was"] != attempts[-1].plan:
        return False
    attempts[-1].plan = payload["plan"]
    return True


def _commit(attempts: list[_Replay], event: SealEvent, payload: Mapping[str, Any]) -> bool:
    if not _is_open(attempts, payload) or payload["plan"] != attempts[-1].plan:
        return False
    last = attempts[-1]
    last.state, last.ended_at, last.result, last.head = (
        "committed",
        event.at,
        payload["result"],
        event.previous,
    )
    last.evidence = parse_payload(payload["evidence"]) if "evidence" in payload else None
    return True


def _is_open(attempts: list[_Replay], payload: Mapping[str, Any]) -> bool:
    return bool(attempts) and attempts[-1].state == "open" and payload["attempt"] == len(attempts)


_STEPS: Mapping[str, Callable[[list[_Replay], SealEvent, Mapping[str, Any]], bool]] = {
    "opened": _open,
    "continued": _continue,
    "replanned": _replan,
    "committed": _commit,
}


def _match(
    run_id: str, chain: Sequence[SealEvent], replays: Sequence[_Replay], rows: Sequence[AttemptRecord]
) -> None:
    """Refuses an attempt without its event, and an event without its attempt."""
    for number, row in enumerate(rows, start=1):
        if row.number != number:
            refuse(f"Attempt {number} is missing.", name_row("attempts", run=run_id, attempt=number))
    uncommitted = [
        n
        for n, (row, told) in enumerate(zip(rows, replays, strict=False), start=1)
        if row.state == "committed" and told.state != "committed"
    ]
    if uncommitted:
        where = name_row("seal_events", run=run_id, seq=len(chain) + 1)
        refuse(f"Attempt {uncommitted[0]} is committed without the event of its commit.", where)
    if len(rows) > len(replays):
        where = name_row("seal_events", run=run_id, seq=len(chain) + 1)
        refuse(f"Attempt {len(replays) + 1} is there without the event that opened it.", where)
    if len(rows) < len(replays):
        where = name_row("attempts", run=run_id, attempt=len(rows) + 1)
        refuse(f"The chain tells of attempt {len(rows) + 1}, whose row is missing.", where)


def _compare(row: AttemptRecord, told: _Replay) -> None:
    where = name_row("attempts", run=row.run_id, attempt=row.number)
    expect("state", where, row.state, told.state)
    expect("plan_digest", where, row.plan_digest, told.plan)
    with reading(where):
        expect("plan: its digest", where, digest_bytes(row.plan.encode("utf-8")), told.plan)
        result = None if row.result is None else digest(row.result)
    expect("result: its digest", where, result, told.result)
    expect("look", where, row.look, told.look)
    expect("override_reason", where, row.override_reason, told.override)
    expect("opened_at", where, row.opened_at, told.opened_at)
    expect("ended_at", where, row.ended_at, told.ended_at)


def _check_look(connection: Connection, row: AttemptRecord) -> None:
    """Counts the looks again: attempts of all runs at the same test set before this one."""
    seen = read_looks(connection, row.test_digest, row.test_ids_digest)
    earlier = [look for look in seen if look.attempt_id < row.id]
    highest = max((look.look for look in earlier if look.test_digest == row.test_digest), default=0)
    where = name_row("attempts", run=row.run_id, attempt=row.number)
    expect("look, counted over all runs", where, row.look, max(len(earlier), highest) + 1)
