"""Rows of a run as they stand, the sealed split included: what `verify` computes everything again from.

Nothing is interpreted here, so that an edited row is read as it is and named. An import contract keeps this
module for `capevolve.verify`, which shows no test id before a result was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, func, or_, select

from capevolve.ledger import schema
from capevolve.ledger.runs import SplitTask
from capevolve.model import TaskRef

_AT_ONCE = 50


def hold_view(connection: Connection) -> None:
    """Makes a read transaction see one state of the ledger throughout. Call it first in the transaction."""
    if connection.dialect.name == "postgresql":  # on SQLite a read transaction is a snapshot already
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


@dataclass(frozen=True, slots=True)
class FrozenTask:
    """A row of `split_tasks`."""

    split: str
    position: int
    task: SplitTask


def read_frozen_tasks(connection: Connection, run_id: str) -> tuple[FrozenTask, ...]:
    """The tasks of every split of a run, test and unused included, by position."""
    table = schema.split_tasks
    statement = select(table).where(table.c.run_id == run_id).order_by(table.c.position, table.c.split)
    return tuple(
        FrozenTask(
            row.split,
            row.position,
            SplitTask(TaskRef(row.task_id, row.digest, row.cluster), row.task_group, row.content),
        )
        for row in connection.execute(statement)
    )


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """The stored identity of an evaluation, and its task ids (JSON text) when it has a subset of them."""

    id: int
    digest: str
    subset: str | None


def read_identities(connection: Connection, run_id: str) -> tuple[IdentityRow, ...]:
    """The stored identities of a run's evaluations, oldest first."""
    table = schema.evaluations
    statement = select(table.c.id, table.c.digest, table.c.subset).where(table.c.run_id == run_id)
    return tuple(IdentityRow(*row) for row in connection.execute(statement.order_by(table.c.id)))


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A row of `trials`: what it is and what came of it."""

    task_id: str
    trial: int
    seed: int
    state: str
    reward: Any
    reason: str | None


def read_stored_trials(connection: Connection, evaluation_id: int) -> tuple[StoredTrial, ...]:
    """The trials of an evaluation by task id and trial."""
    table = schema.trials
    columns = (table.c.task_id, table.c.trial, table.c.seed, table.c.state, table.c.reward, table.c.reason)
    rows = connection.execute(select(*columns).where(table.c.evaluation_id == evaluation_id))
    return tuple(sorted((StoredTrial(*row) for row in rows), key=lambda row: (row.task_id, row.trial)))


def read_rollout_sizes(connection: Connection, evaluation_id: int) -> dict[tuple[str, int], int]:
    """The length of what the row of each rollout of an evaluation holds, by task id and trial.

    That is its payload, or the digest by which a blob has it; 0 where one row has both.
    """
    table = schema.rollouts
    inline, named = func.length(table.c.payload), func.length(table.c.payload_digest)
    size = case((table.c.payload_digest.is_(None), inline), (inline > 0, 0), else_=named)
    statement = select(table.c.task_id, table.c.trial, size)
    rows = connection.execute(statement.where(table.c.evaluation_id == evaluation_id))
    return {(task_id, trial): int(size) for task_id, trial, size in rows}


def read_payload_blobs(connection: Connection, run_id: str) -> Iterator[tuple[str, bytes | None, str | None]]:
    """The blobs of a run's payloads, each once, as (digest, data, encoding); no data where one is missing."""
    rollouts, evaluations, blobs = schema.rollouts, schema.evaluations, schema.blobs
    mine = select(evaluations.c.id).where(evaluations.c.run_id == run_id)
    named = (
        select(rollouts.c.payload_digest)
        .where(rollouts.c.evaluation_id.in_(mine), rollouts.c.payload_digest.is_not(None))
        .distinct()
        .subquery()
    )
    statement = select(named.c.payload_digest, blobs.c.data, blobs.c.encoding).select_from(
        named.outerjoin(blobs, blobs.c.digest == named.c.payload_digest)
    )
    for row in connection.execute(statement.execution_options(yield_per=_AT_ONCE)):
        yield row.payload_digest, row.data, row.encoding


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """A row of `verdicts` whose JSON was not read."""

    iteration: int
    settings: str
    decision: str
    payload: str


def read_stored_verdicts(connection: Connection, run_id: str) -> tuple[StoredVerdict, ...]:
    """The verdicts of a run in order of iteration."""
    table = schema.verdicts
    columns = (table.c.iteration, table.c.settings, table.c.decision, table.c.payload)
    statement = select(*columns).where(table.c.run_id == run_id).order_by(table.c.iteration)
    return tuple(StoredVerdict(*row) for row in connection.execute(statement))


@dataclass(frozen=True, slots=True)
class LookRow:
    """An attempt of any run at a test set."""

    attempt_id: int
    run_id: str
    look: int
    test_digest: str
    test_ids_digest: str


def read_looks(connection: Connection, test_digest: str, test_ids_digest: str) -> tuple[LookRow, ...]:
    """The attempts of all runs at a test set, told by its contents or by its ids, in order."""
    table = schema.attempts
    columns = (table.c.id, table.c.run_id, table.c.look, table.c.test_digest, table.c.test_ids_digest)
    same = or_(table.c.test_digest == test_digest, table.c.test_ids_digest == test_ids_digest)
    rows = connection.execute(select(*columns).where(same).order_by(table.c.id))
    return tuple(LookRow(*row) for row in rows)
