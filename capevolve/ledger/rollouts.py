"""The rollouts of an evaluation, streamed: they can be large, and there can be many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select, tuple_

from capevolve.ledger import schema
from capevolve.ledger.payloads import read_payload

_AT_ONCE = 50

_table = schema.rollouts
_blobs = schema.blobs


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """What a finished trial left behind, as JSON text."""

    task_id: str
    trial: int
    feedback: str
    metrics: str
    payload: str


def select_rollouts(mine: ColumnElement[bool]) -> Select[Any]:
    """The rows of rollouts by their key, each with the blob of its payload, to read in small batches."""
    joined = _table.outerjoin(_blobs, _blobs.c.digest == _table.c.payload_digest)
    return (
        select(_table, _blobs.c.data, _blobs.c.encoding)
        .select_from(joined)
        .where(mine)
        .order_by(_table.c.evaluation_id, _table.c.task_id, _table.c.trial)
        .execution_options(yield_per=_AT_ONCE)
    )


def read_rollouts(connection: Connection, evaluation_id: int) -> Iterator[RolloutRow]:
    """The rollouts of an evaluation by task id and trial, one at a time.

    Raises:
        LedgerError: A payload is missing.
        TamperError: A payload is not what its digest says.
    """
    for row in connection.execute(select_rollouts(_table.c.evaluation_id == evaluation_id)):
        yield RolloutRow(row.task_id, row.trial, row.feedback, row.metrics, read_row(row))


def read_rollouts_after(
    connection: Connection, evaluation_id: int, place: tuple[str, int] | None, count: int
) -> list[RolloutRow]:
    """At most `count` rollouts behind a task id and trial, for who cannot keep a transaction open."""
    mine = _table.c.evaluation_id == evaluation_id
    if place is not None:
        mine = and_(mine, tuple_(_table.c.task_id, _table.c.trial) > place)
    rows = connection.execute(select_rollouts(mine).limit(count))
    return [RolloutRow(r.task_id, r.trial, r.feedback, r.metrics, read_row(r)) for r in rows]


def read_row(row: Any) -> str:
    """The payload of a row of `select_rollouts`."""
    return read_payload(row.payload, row.payload_digest, row.data, row.encoding)
