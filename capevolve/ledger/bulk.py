"""Thousands of rows at once: written by statements compiled once, read while the garbage collector rests.

SQLAlchemy's own way of running a statement for many rows looks at every value of every row, which costs twice
what SQLite needs to store it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.expression import Insert, Update

Rows = Sequence[Mapping[str, Any]]
Bind = Callable[[Rows], Sequence[Any]]


@dataclass(slots=True)
class BulkStatement:
    """An insert or update whose every value is a bound parameter: text, a number or None, passed as it is.

    Args:
        statement: Without values of its own; an insert takes the columns named in `columns`.
        columns: The columns of an insert; empty for an update, whose `bindparam`s have names.
    """

    statement: Insert | Update
    columns: tuple[str, ...] = ()
    _compiled: dict[str, tuple[str, Bind]] = field(default_factory=dict)

    def execute(self, connection: Connection, rows: Rows) -> int:
        """Runs the statement for each row, by the names of its parameters; returns the rows it changed.

        Returns:
            -1 where the database's driver does not tell.
        """
        dialect = connection.dialect
        known = self._compiled.get(dialect.name)
        if known is None:
            known = self._compiled[dialect.name] = self._compile(dialect)
        text, bind = known
        return connection.exec_driver_sql(text, bind(rows)).rowcount

    def _compile(self, dialect: Dialect) -> tuple[str, Bind]:
        compiled = self.statement.compile(dialect=dialect, column_keys=self.columns or None)
        order = compiled.positiontup
        if order is None:
            return str(compiled), list
        pick = itemgetter(*order)
        return str(compiled), lambda rows: [pick(row) for row in rows]


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keeps the collector of cyclic garbage still meanwhile.

    While a hundred thousand small values are made and kept it would look at all of them again and again, for
    a third of the time, and rows hold no cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
