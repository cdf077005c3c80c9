"""The seal's rows: attempts at the test split, looks at a test set, and the chain of seal events.

The rules are in `capevolve.seal`; here is only what is stored. `one_look_number` and
`one_attempt_number` are unique in the database, so two processes can never both believe they opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, or_, select, update

from capevolve.errors import LedgerError
from capevolve.ledger import schema

AttemptState = Literal["open", "committed", "superseded"]
_attempts = schema.attempts
_events = schema.seal_events


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt at the test split.

    Attributes:
        number: 1 for the first attempt of the run; a later one needs an override.
        plan: Canonical JSON of the plan.
        look: Which look at this test set it is, counted over all runs of the ledger.
        override_reason: Why a second attempt was allowed; None for the first.
        result: Canonical JSON of the result once committed.
    """

    id: int
    run_id: str
    number: int
    plan: str
    plan_digest: str
    test_digest: str
    test_ids_digest: str
    look: int
    override_reason: str | None
    state: AttemptState
    opened_at: float
    ended_at: float | None
    result: str | None


def lock_attempts(connection: Connection) -> None:
    """Keeps other writers out of the attempts until this transaction ends."""
    if connection.dialect.name == "postgresql":  # on SQLite a write transaction already excludes them
        connection.exec_driver_sql("LOCK TABLE attempts IN SHARE ROW EXCLUSIVE MODE")


def read_attempts(connection: Connection, run_id: str) -> tuple[AttemptRecord, ...]:
    """The attempts of a run in order."""
    rows = connection.execute(
        select(_attempts).where(_attempts.c.run_id == run_id).order_by(_attempts.c.number)
    )
    return tuple(AttemptRecord(**row._asdict()) for row in rows)


def find_attempt(connection: Connection, attempt_id: int) -> AttemptRecord | None:
    """The attempt with this id, or None."""
    row = connection.execute(select(_attempts).where(_attempts.c.id == attempt_id)).one_or_none()
    return None if row is None else AttemptRecord(**row._asdict())


def insert_attempt(
    connection: Connection,
    *,
    run_id: str,
    number: int,
    plan: str,
    plan_digest: str,
    test_digest: str,
    test_ids_digest: str,
    look: int,
    override_reason: str | None,
    now: float,
) -> int:
    """Adds an open attempt and returns its id."""
    result = connection.execute(
        insert(_attempts).values(
            run_id=run_id,
            number=number,
            plan=plan,
            plan_digest=plan_digest,
            test_digest=test_digest,
            test_ids_digest=test_ids_digest,
            look=look,
            override_reason=override_reason,
            state="open",
            opened_at=now,
        )
    )
    primary_key = result.inserted_primary_key
    if primary_key is None:
        raise LedgerError("The ledger gave no key to a new attempt.")
    return int(primary_key[0])


def replan_attempt(connection: Connection, attempt_id: int, plan: str, plan_digest: str) -> None:
    """Gives an open attempt another plan. Only for one that never claimed a trial."""
    connection.execute(
        update(_attempts)
        .where(_attempts.c.id == attempt_id, _attempts.c.state == "open")
        .values(plan=plan, plan_digest=plan_digest)
    )


def commit_attempt(connection: Connection, attempt_id: int, result: str, now: float) -> None:
    """Stores the result of an open attempt and closes it.

    Raises:
        LedgerError: The attempt is not open.
    """
    _end(connection, attempt_id, {"state": "committed", "result": result, "ended_at": now})


def supersede_attempt(connection: Connection, attempt_id: int, now: float) -> None:
    """Closes an open attempt that another one replaces."""
    _end(connection, attempt_id, {"state": "superseded", "ended_at": now})


def _end(connection: Connection, attempt_id: int, values: dict[str, Any]) -> None:
    done = connection.execute(
        update(_attempts).where(_attempts.c.id == attempt_id, _attempts.c.state == "open").values(**values)
    )
    if done.rowcount != 1:
        raise LedgerError(f"Attempt {attempt_id} is not open any more.")


def count_looks(connection: Connection, test_digest: str, test_ids_digest: str) -> int:
    """Attempts of all runs at this test set, told by its contents or by its ids."""
    same = or_(_attempts.c.test_digest == test_digest, _attempts.c.test_ids_digest == test_ids_digest)
    return int(connection.scalar(select(func.count()).select_from(_attempts).where(same)) or 0)


def highest_look(connection: Connection, test_digest: str) -> int:
    """The highest look number given to a test set with these contents; 0 when there is none."""
    statement = select(func.max(_attempts.c.look)).where(_attempts.c.test_digest == test_digest)
    return int(connection.scalar(statement) or 0)


def count_claims(connection: Connection, attempt_id: int) -> int:
    """Test trials that were claimed, and so may have been called, in an attempt."""
    trials, evaluations = schema.trials, schema.evaluations
    statement = (
        select(func.count())
        .select_from(trials.join(evaluations, trials.c.evaluation_id == evaluations.c.id))
        .where(evaluations.c.attempt_id == attempt_id)
    )
    return int(connection.scalar(statement) or 0)


@dataclass(frozen=True, slots=True)
class SealEvent:
    """One link of the chain: `hash` covers the run, `seq`, `kind`, `payload`, `at` and `previous`."""

    run_id: str
    seq: int
    kind: str
    payload: str
    at: float
    previous: str
    hash: str


def read_seal_events(connection: Connection, run_id: str) -> tuple[SealEvent, ...]:
    """The chain of a run, from its first link."""
    rows = connection.execute(select(_events).where(_events.c.run_id == run_id).order_by(_events.c.seq))
    return tuple(SealEvent(**row._asdict()) for row in rows)


def insert_seal_event(connection: Connection, event: SealEvent) -> None:
    """Adds a link."""
    connection.execute(
        insert(_events).values(
            run_id=event.run_id,
            seq=event.seq,
            kind=event.kind,
            payload=event.payload,
            at=event.at,
            previous=event.previous,
            hash=event.hash,
        )
    )
