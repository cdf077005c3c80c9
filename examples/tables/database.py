"""The two tables in memory, open for questions only: nothing can be changed and no query runs for ever."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

STEP_LIMIT = 1_000_000
"""Steps of SQLite's virtual machine a query may take: some 20 ms. The dearest gold query needs 41,000."""
ROW_LIMIT = 5_000
TEXT_LIMIT = 2_000
"""Bytes of the longest text or row: with `STEP_LIMIT` it bounds the memory a query can take."""

_PROGRESS_EVERY = 1_000
_FUNCTIONS = frozenset(
    {
        "abs", "avg", "coalesce", "count", "ifnull", "instr", "length", "like", "lower", "max", "min",
        "nullif", "replace", "round", "substr", "substring", "sum", "total", "trim", "upper",
    }
)  # fmt: skip
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})

Row = tuple[Any, ...]


class QueryError(ValueError):
    """The SQL was refused, failed, or ran past a limit."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table to load: its columns, each with its SQL type, and its rows."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Sequence[str], ...]


def read_tables(data: Path) -> tuple[Table, ...]:
    """Reads the two tables from their CSV files."""
    numbers = {"latitude", "longitude", "precipitation", "temp_max", "temp_min", "wind"}
    tables = []
    for name, file in (("airports", "airports.csv"), ("weather", "seattle-weather.csv")):
        with (data / file).open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
        columns = tuple((column, "REAL" if column in numbers else "TEXT") for column in header)
        tables.append(Table(name, columns, tuple(rows)))
    return tuple(tables)


class Database:
    """Tables in memory that answer SELECT and refuse everything else. Safe to share between threads."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._lock = Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        for table in tables:
            columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
            marks = ", ".join("?" for _ in table.columns)
            self._connection.execute(f"CREATE TABLE {table.name} ({columns})")
            self._connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", table.rows)
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, TEXT_LIMIT)
        # Steps do not count the work inside LIKE, which grows fast with the wildcards of its pattern.
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100)
        self._connection.set_authorizer(_authorize)

    def query(self, sql: str) -> list[Row]:
        """The rows that a query returns.

        Raises:
            QueryError: The SQL is wrong, does more than read, takes more than `STEP_LIMIT` steps or
                returns more than `ROW_LIMIT` rows.
        """
        left = STEP_LIMIT // _PROGRESS_EVERY

        def tick() -> int:
            nonlocal left
            left -= 1
            return left < 0

        with self._lock:
            self._connection.set_progress_handler(tick, _PROGRESS_EVERY)
            try:
                rows = self._connection.execute(sql).fetchmany(ROW_LIMIT + 1)
            except sqlite3.Error as error:
                raise QueryError(str(error) if left >= 0 else "the query took too many steps") from error
            except (ValueError, sqlite3.Warning) as error:
                raise QueryError(str(error)) from error
            finally:
                self._connection.set_progress_handler(None, 0)
        if len(rows) > ROW_LIMIT:
            raise QueryError(f"the query returned more than {ROW_LIMIT} rows")
        return rows


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    # Only what reads, and only functions that return the same for the same tables.
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_OK if (second or "").lower() in _FUNCTIONS else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def is_ordered(sql: str) -> bool:
    """Whether the order of a query's rows is part of its answer: an ORDER BY outside all parentheses."""
    text = re.sub(r"'(?:[^']|'')*'", "''", sql)
    while (inner := re.sub(r"\([^()]*\)", " ", text)) != text:
        text = inner
    return re.search(r"\border\s+by\b", text, re.IGNORECASE) is not None


def same_rows(got: Sequence[Row], gold: Sequence[Row], *, ordered: bool) -> bool:
    """Whether two results are equal: row by row when ordered, else as multisets. Floats to six decimals."""
    left, right = ([tuple(_round(v) for v in row) for row in rows] for rows in (got, gold))
    return left == right if ordered else Counter(left) == Counter(right)


def _round(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
