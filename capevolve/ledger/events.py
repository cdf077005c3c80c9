"""The run's log: what happened, when, append-only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from capevolve.canonical import canonical_json
from capevolve.ledger import schema

_table = schema.events


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the run's log."""

    at: float
    kind: str
    payload: Mapping[str, Any]


def append_event(
    connection: Connection, run_id: str, kind: str, payload: Mapping[str, Any], now: float
) -> None:
    """Adds a line to the run's log."""
    connection.execute(
        insert(_table).values(run_id=run_id, at=now, kind=kind, payload=canonical_json(dict(payload)))
    )


def read_events(connection: Connection, run_id: str, kind: str | None = None) -> tuple[Event, ...]:
    """The run's log in order, of one kind or all."""
    statement = select(_table).where(_table.c.run_id == run_id).order_by(_table.c.id)
    if kind is not None:
        statement = statement.where(_table.c.kind == kind)
    return tuple(Event(row.at, row.kind, json.loads(row.payload)) for row in connection.execute(statement))
