"""Evaluations in the ledger: their identity, their sessions and the fence around both.

Every write checks, in its own transaction, that the driver's epoch and the evaluation's session are still
the current ones. A session is one pass over an evaluation: a second pass in the same epoch (a retried
Prefect task) opens a new session, and late results of the first are refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from capevolve.canonical import canonical_json, digest
from capevolve.errors import FencedError, LedgerError
from capevolve.ledger import schema
from capevolve.ledger.leases import Driver, check_lease
from capevolve.model import Split

_evaluations = schema.evaluations


@dataclass(frozen=True, slots=True)
class EvaluationKey:
    """What an evaluation is: a candidate on a split with so many trials. Asked twice, it is the same one.

    Attributes:
        tag: Sets evaluations of the same candidate and split apart (`FINAL` and `FINAL_seed` on test).
        subset: Task ids when only some tasks of the split are meant; None is the whole split.
        attempt_id: The seal's attempt; set exactly for `test`.
    """

    run_id: str
    candidate_id: str
    split: Split
    num_trials: int
    base_seed: int
    tag: str = ""
    subset: tuple[str, ...] | None = None
    attempt_id: int | None = None

    @property
    def digest(self) -> str:
        """The evaluation's identity."""
        subset = None if self.subset is None else sorted(self.subset)
        return digest(
            [
                self.run_id,
                self.candidate_id,
                self.split,
                self.num_trials,
                self.base_seed,
                self.tag,
                subset,
                self.attempt_id,
            ]
        )


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """An evaluation in the ledger."""

    id: int
    key: EvaluationKey
    session: int
    created_at: float
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write to one evaluation: the driver and the session it opened."""

    driver: Driver
    evaluation_id: int
    session: int


def open_evaluation(connection: Connection, driver: Driver, key: EvaluationKey, now: float) -> Fence:
    """Finds or adds an evaluation and opens a new session on it."""
    check_lease(connection, driver)
    row = connection.execute(
        select(_evaluations.c.id, _evaluations.c.session)
        .where(_evaluations.c.digest == key.digest)
        .with_for_update()
    ).one_or_none()
    if row is not None:
        session = int(row.session) + 1
        connection.execute(update(_evaluations).where(_evaluations.c.id == row.id).values(session=session))
        return Fence(driver, row.id, session)
    result = connection.execute(
        insert(_evaluations).values(
            digest=key.digest,
            run_id=key.run_id,
            candidate_id=key.candidate_id,
            split=key.split,
            tag=key.tag,
            num_trials=key.num_trials,
            base_seed=key.base_seed,
            subset=None if key.subset is None else canonical_json(list(key.subset)),
            attempt_id=key.attempt_id,
            session=1,
            created_at=now,
        )
    )
    primary_key = result.inserted_primary_key
    if primary_key is None:
        raise LedgerError("The ledger gave no key to a new evaluation.")
    return Fence(driver, int(primary_key[0]), 1)


_SESSION = (
    select(_evaluations.c.session)
    .where(_evaluations.c.id == bindparam("evaluation_id"))
    .with_for_update(read=True)
)
"""Made once: it is asked before every commit."""


def check_fence(connection: Connection, fence: Fence) -> None:
    """Refuses a writer whose epoch or session is over.

    Raises:
        FencedError: A later driver or a later session works on this evaluation.
    """
    check_lease(connection, fence.driver)
    session = connection.scalar(_SESSION, {"evaluation_id": fence.evaluation_id})
    if session != fence.session:
        raise FencedError(
            f"A later pass over evaluation {fence.evaluation_id} has begun; this one's results are refused.",
            fix="Nothing is lost: the later pass finishes the evaluation.",
        )


def finish_evaluation(connection: Connection, fence: Fence, now: float) -> None:
    """Notes that every trial of the evaluation has its result."""
    check_fence(connection, fence)
    connection.execute(
        update(_evaluations)
        .where(_evaluations.c.id == fence.evaluation_id, _evaluations.c.finished_at.is_(None))
        .values(finished_at=now)
    )


def find_evaluation(connection: Connection, key: EvaluationKey) -> EvaluationRecord | None:
    """The evaluation with this identity, or None."""
    row = connection.execute(select(_evaluations).where(_evaluations.c.digest == key.digest)).one_or_none()
    return None if row is None else _evaluation(row)


def read_evaluation(connection: Connection, evaluation_id: int) -> EvaluationRecord:
    """The evaluation with this id.

    Raises:
        LedgerError: There is none.
    """
    row = connection.execute(select(_evaluations).where(_evaluations.c.id == evaluation_id)).one_or_none()
    if row is None:
        raise LedgerError(f"The ledger knows no evaluation {evaluation_id}.")
    return _evaluation(row)


def list_evaluations(connection: Connection, run_id: str) -> tuple[EvaluationRecord, ...]:
    """The evaluations of a run, oldest first."""
    rows = connection.execute(
        select(_evaluations).where(_evaluations.c.run_id == run_id).order_by(_evaluations.c.id)
    )
    return tuple(_evaluation(row) for row in rows)


def _evaluation(row: Any) -> EvaluationRecord:
    key = EvaluationKey(
        row.run_id,
        row.candidate_id,
        row.split,
        row.num_trials,
        row.base_seed,
        row.tag,
        None if row.subset is None else tuple(json.loads(row.subset)),
        row.attempt_id,
    )
    return EvaluationRecord(row.id, key, row.session, row.created_at, row.finished_at)
