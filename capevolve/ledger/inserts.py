"""Rows that several writers may add at the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_missing(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> int:
    """Adds the rows whose keys are not there yet and returns how many these were.

    It waits for a writer that is about to add the same key, and leaves what that one wrote as it is.
    """
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).on_conflict_do_nothing()
    return sum(connection.execute(statement, row).rowcount for row in rows)
