"""Opening the ledger, its transactions, its schema version and its failures by name.

A write transaction takes the write lock at its beginning (`BEGIN IMMEDIATE` on SQLite), so that what it
reads cannot change before it commits. SQLite runs in WAL mode with `synchronous=FULL`: a commit that
returned survives a power cut.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from capevolve.errors import LedgerError, UserError
from capevolve.ledger import schema
from capevolve.ledger.migrations import MIGRATIONS

BUSY_TIMEOUT_S = 30.0
CREATION_S = 2.0
"""How long a file without content may be another process's ledger in the making."""

_HEADER_BYTES = 100


class Ledger:
    """A project's ledger: the only place where state lives.

    Args:
        engine: A SQLAlchemy engine made by `open_ledger`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer = engine.execution_options(capevolve_write=True)

    @property
    def url(self) -> str:
        """The database's URL, its password hidden."""
        return self._engine.url.render_as_string(hide_password=True)

    @property
    def is_sqlite(self) -> bool:
        """True on SQLite."""
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction: one consistent view."""
        with _named_failures(self.url), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A write transaction: holds the write lock, commits at its end, rolls back on any error."""
        with _named_failures(self.url), self._writer.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()


def open_ledger(url: str, *, create: bool = True) -> Ledger:
    """Opens a ledger, creates it when there is none, and migrates an older one forward.

    Args:
        url: A SQLAlchemy URL, `sqlite:///...` or `postgresql+psycopg://...`.
        create: False refuses a ledger that is not there yet.

    Raises:
        UserError: The URL cannot be used.
        LedgerError: The ledger is missing, corrupt, read-only, or from a newer capevolve.
    """
    ledger = Ledger(_make_engine(url, create=create))
    try:
        _prepare(ledger, create=create)
    except BaseException:
        ledger.close()
        raise
    return ledger


def _make_engine(url: str, *, create: bool) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite_engine(parsed.database, url, create=create)
        return create_engine(parsed, pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise UserError(
            f"The ledger URL cannot be used: {error}",
            where="capevolve.yaml, key `ledger`",
            fix="Use sqlite:///path or postgresql+psycopg://user@host/name (extra: capevolve[postgres]).",
        ) from error


def _sqlite_engine(database: str | None, url: str, *, create: bool) -> Engine:
    if not database or database == ":memory:":
        raise UserError("A ledger in memory would be lost.", where=url, fix="Name a file: sqlite:///path.")
    path = Path(database)
    if not create and not path.exists():
        raise LedgerError(
            "There is no ledger here.", where=str(path), fix="Start a run first: capevolve run PROJECT."
        )
    _refuse_emptied(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"The ledger's folder cannot be made: {error.strerror}.",
            where=str(path.parent),
            fix="Make it writable, or name another place with the key `ledger`.",
        ) from error
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False})
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _refuse_emptied(path: Path) -> None:
    """Refuses a file that lost its content: SQLite would take it for a new database."""
    end = time.monotonic() + CREATION_S
    while path.is_file() and path.stat().st_size < _HEADER_BYTES:
        if time.monotonic() > end:
            raise LedgerError(
                "The ledger is corrupt: the file is empty.",
                where=str(path),
                fix="Restore it from a copy. Delete it only if no run was ever started here.",
            )
        time.sleep(0.02)


def _set_pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin`, not by the driver
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        if "readonly" not in str(error):  # a read-only ledger can still be reported on
            raise
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("capevolve_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _prepare(ledger: Ledger, *, create: bool) -> None:
    with ledger.read() as connection:
        version = read_version(connection)
    if version == schema.SCHEMA_VERSION:
        return
    if version is None and not create:
        raise LedgerError(
            "This database holds no ledger.",
            where=ledger.url,
            fix="Start a run first: capevolve run PROJECT.",
        )
    with ledger.write() as connection:
        _migrate(connection, ledger.url)


def read_version(connection: Connection) -> int | None:
    """The ledger's schema version; None when the database holds no ledger."""
    if not inspect(connection).has_table("meta"):
        return None
    value = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == "schema_version"))
    return None if value is None else int(value)


def _migrate(connection: Connection, url: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('capevolve_schema'))")
    version = read_version(connection)
    if version is None:
        schema.metadata.create_all(connection)
        connection.execute(insert(schema.meta).values(key="schema_version", value=str(schema.SCHEMA_VERSION)))
        return
    if version > schema.SCHEMA_VERSION:
        raise LedgerError(
            f"The ledger has schema version {version}; this capevolve knows {schema.SCHEMA_VERSION}.",
            where=url,
            fix="Use the newer capevolve that wrote it. Nothing was changed.",
        )
    while version < schema.SCHEMA_VERSION:
        MIGRATIONS[version](connection)
        version += 1
    connection.execute(
        update(schema.meta).where(schema.meta.c.key == "schema_version").values(value=str(version))
    )


@contextmanager
def _named_failures(url: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        raise _explain(error, url) from error


_KNOWN_FAILURES: tuple[tuple[str, str, str], ...] = (
    ("not a database", "The ledger is corrupt: the file is not a database.", "Restore it from a copy."),
    ("malformed", "The ledger is corrupt.", "Restore it from a copy; `sqlite3 FILE .recover` may save rows."),
    ("disk is full", "The disk is full.", "Free some space and run again: everything so far is kept."),
    ("disk i/o error", "The disk failed to write the ledger.", "Check the disk, then run again."),
    ("readonly", "The ledger is read-only.", "Make the file and its folder writable."),
    ("unable to open", "The ledger cannot be opened.", "Check that its folder exists and is writable."),
    (
        "is locked",
        "Another process holds the ledger's write lock.",
        "Wait for it, or stop it, and run again.",
    ),
)


def _explain(error: DBAPIError, url: str) -> LedgerError:
    text = str(error.orig or error)
    for mark, what, fix in _KNOWN_FAILURES:
        if mark in text.lower():
            return LedgerError(what, where=url, fix=fix)
    return LedgerError(
        f"The ledger refused: {text.splitlines()[0] if text else type(error).__name__}",
        where=url,
        fix="Check that the database is reachable and writable, then run again.",
    )
