"""The rows of a run as plain objects, to write into a bundle and to read back into a ledger of its own.

Rows past the seal are among them: an import contract keeps this module for `capevolve.verify`, which writes
a bundle only after a result was committed. What a row of the ledger holds beside the run is left out: the
ledger's URL, leases, and the values of `proposer.env`, which may be secrets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Table,
    create_engine,
    event,
    insert,
    or_,
    select,
    union,
)
from sqlalchemy.exc import IntegrityError

from capevolve.canonical import canonical_json
from capevolve.errors import LedgerError
from capevolve.ledger import schema
from capevolve.ledger.rollouts import read_row, select_rollouts
from capevolve.ledger.store import Ledger, open_ledger

LEFT_OUT = "(left out)"
"""Stands for the value of an environment variable."""

BATCH = 500
BATCH_BYTES = 8_000_000
"""Rows written at once: their number, and about their size."""

Row = dict[str, Any]


def read_rows(connection: Connection, run_id: str) -> Iterator[tuple[str, Iterator[Row]]]:
    """Every table with the rows of a run by primary key; with the attempts of all runs at its test set."""
    for table, mine in _tables(run_id):
        yield table.name, _read(connection, table, mine)


def _tables(run_id: str) -> list[tuple[Table, ColumnElement[bool]]]:
    s = schema
    evaluated = select(s.evaluations.c.id).where(s.evaluations.c.run_id == run_id)
    return [
        (s.runs, s.runs.c.id == run_id),
        (s.split_sets, s.split_sets.c.run_id == run_id),
        (s.split_tasks, s.split_tasks.c.run_id == run_id),
        (s.candidates, _candidates(run_id)),
        (s.proposals, s.proposals.c.run_id == run_id),
        (s.attempts, _attempts(run_id)),
        (s.evaluations, s.evaluations.c.run_id == run_id),
        (s.trials, s.trials.c.evaluation_id.in_(evaluated)),
        (s.rollouts, s.rollouts.c.evaluation_id.in_(evaluated)),
        (s.verdicts, s.verdicts.c.run_id == run_id),
        (s.seal_events, s.seal_events.c.run_id == run_id),
        (s.events, s.events.c.run_id == run_id),
    ]


def _candidates(run_id: str) -> ColumnElement[bool]:
    runs, proposals, evaluations = schema.runs, schema.proposals, schema.evaluations
    mine = union(
        select(runs.c.seed_candidate).where(runs.c.id == run_id),
        select(proposals.c.candidate_id).where(proposals.c.run_id == run_id),
        select(evaluations.c.candidate_id).where(evaluations.c.run_id == run_id),
    )
    return schema.candidates.c.id.in_(mine)


def _attempts(run_id: str) -> ColumnElement[bool]:
    """The attempts of the run, and those of other runs that are looks at the same test set."""
    attempts, sets = schema.attempts, schema.split_sets
    contents = select(sets.c.test_digest).where(sets.c.run_id == run_id)
    ids = select(sets.c.test_ids_digest).where(sets.c.run_id == run_id)
    return or_(
        attempts.c.run_id == run_id,
        attempts.c.test_digest.in_(contents),
        attempts.c.test_ids_digest.in_(ids),
    )


def _read(connection: Connection, table: Table, mine: ColumnElement[bool]) -> Iterator[Row]:
    if table is schema.rollouts:
        yield from _read_rollouts(connection, mine)
        return
    statement = select(table).where(mine).order_by(*table.primary_key.columns)
    for row in connection.execute(statement.execution_options(yield_per=BATCH)):
        yield _redact(table, row._asdict())


def _read_rollouts(connection: Connection, mine: ColumnElement[bool]) -> Iterator[Row]:
    """Rollouts with their payloads in them, however the ledger keeps these: as in schema version 1."""
    columns = schema.rollouts.c.keys()
    for row in connection.execute(select_rollouts(mine)):
        values = {name: row._mapping[name] for name in columns}
        del values["payload_digest"]
        yield {**values, "payload": read_row(row)}


def _redact(table: Table, row: Row) -> Row:
    if table is schema.runs:
        return {**row, "spec": redact_spec(row["spec"])}
    if table is schema.events and row["kind"] == "spec_changed":
        specs = {name: redact_spec(spec) for name, spec in json.loads(row["payload"]).items()}
        return {**row, "payload": canonical_json(specs)}
    return row


def redact_spec(text: str) -> str:
    """A stored spec without the values of its proposer's environment; unchanged when it has none."""
    spec = json.loads(text)
    environment = (spec.get("proposer") or {}).get("env")
    if not environment:
        return text
    spec["proposer"]["env"] = dict.fromkeys(environment, LEFT_OUT)
    return canonical_json(spec)


@contextmanager
def new_ledger(path: Path) -> Iterator[Connection]:
    """Makes an SQLite ledger to read rows back into, which refuses nothing: judging them is not its task."""
    engine = create_engine(URL.create("sqlite", database=str(path)))
    event.listen(engine, "connect", _take_anything)
    try:
        with engine.begin() as connection:
            schema.metadata.create_all(connection)
            version = {"key": "schema_version", "value": str(schema.SCHEMA_VERSION)}
            connection.execute(insert(schema.meta).values(version))
            yield connection
    finally:
        engine.dispose()


def open_copy(path: Path) -> Ledger:
    """Opens a ledger made by `new_ledger`."""
    return open_ledger(URL.create("sqlite", database=str(path)).render_as_string(), create=False)


def _take_anything(connection: Any, _record: Any) -> None:
    for pragma in ("foreign_keys=OFF", "ignore_check_constraints=ON", "synchronous=OFF"):
        connection.execute(f"PRAGMA {pragma}")


def insert_rows(connection: Connection, table_name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows to a ledger made by `new_ledger`.

    Raises:
        LedgerError: A row has other columns than the table, a value that no column holds, or a key that
            another row has.
    """
    table = schema.metadata.tables[table_name]
    if table is schema.rollouts:
        rows = [{**row, "payload_digest": None} for row in rows]
    for row in rows:
        if set(row) != set(table.c.keys()):
            names = sorted(set(row) ^ set(table.c.keys()))
            raise LedgerError(f"A row's columns are not those of the table: {', '.join(names)}.")
        if not all(value is None or isinstance(value, str | int | float) for value in row.values()):
            raise LedgerError("A row holds a value that is neither text nor a number.")
    try:
        connection.execute(insert(table), [dict(row) for row in rows])
    except IntegrityError as error:
        raise LedgerError(f"A row cannot be stored: {error.orig}.") from error


def insert_blob(connection: Connection, name: str, data: bytes) -> None:
    """Adds the content of a file to a ledger made by `new_ledger`."""
    connection.execute(insert(schema.blobs).values(digest=name, data=data))
