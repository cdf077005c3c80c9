"""Opening, transactions, versions, and failures by name."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, text

from capevolve.errors import LedgerError, UserError
from capevolve.ledger import schema, store
from capevolve.ledger.events import append_event, read_events
from capevolve.ledger.runs import list_runs
from capevolve.ledger.store import Ledger, open_ledger, read_version


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state' / 'ledger.db'}"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    opened = open_ledger(url)
    yield opened
    opened.close()


def _path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def _note(ledger, kind="note", payload=None) -> None:
    with ledger.write() as connection:
        append_event(connection, "r1", kind, payload or {}, 0.0)


def _count(ledger) -> int:
    with ledger.read() as connection:
        return len(read_events(connection, "r1"))


def test_a_new_ledger_is_made_with_its_folder_and_opens_again(url):
    first = open_ledger(url)
    _note(first)
    first.close()
    again = open_ledger(url, create=False)
    with again.read() as connection:
        assert read_version(connection) == schema.SCHEMA_VERSION
    assert _count(again) == 1
    assert again.is_sqlite
    again.close()


def test_a_missing_ledger_is_not_made_by_looking_for_it(url):
    with pytest.raises(LedgerError, match="no ledger here"):
        open_ledger(url, create=False)
    assert not _path(url).parent.exists()


def test_a_database_without_a_ledger_is_not_taken_for_one(url):
    path = _path(url)
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    with pytest.raises(LedgerError, match="holds no ledger"):
        open_ledger(url, create=False)


@pytest.mark.parametrize(
    "bad", ["sqlite://", "sqlite:///:memory:", "oracle9://x/y", "nonsense", "mysql+nope://x"]
)
def test_a_url_that_cannot_hold_a_ledger_is_refused(bad):
    with pytest.raises(UserError):
        open_ledger(bad)


def test_a_file_that_is_no_database_is_named_corrupt_and_left_alone(url):
    path = _path(url)
    path.parent.mkdir()
    garbage = bytes(range(256)) * 40
    path.write_bytes(garbage)
    for create in (True, False):
        with pytest.raises(LedgerError, match="corrupt") as caught:
            open_ledger(url, create=create)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == garbage


@pytest.mark.parametrize("kept", [1, 100, 4096, 0.5])
def test_a_truncated_ledger_is_named_corrupt(url, kept, monkeypatch):
    monkeypatch.setattr(store, "CREATION_S", 0.05)
    open_ledger(url).close()
    path = _path(url)
    whole = path.read_bytes()
    path.write_bytes(whole[: kept if kept >= 1 else int(len(whole) * kept)])
    with pytest.raises(LedgerError, match="corrupt"):
        open_ledger(url)


def test_a_ledger_emptied_to_nothing_is_not_silently_made_anew(url, monkeypatch):
    monkeypatch.setattr(store, "CREATION_S", 0.05)
    open_ledger(url).close()
    _path(url).write_bytes(b"")
    for create in (True, False):
        with pytest.raises(LedgerError, match="empty"):
            open_ledger(url, create=create)
    assert _path(url).read_bytes() == b""


def test_a_page_overwritten_in_an_open_ledger_is_named_corrupt(ledger, url):
    with ledger.write() as connection:
        for number in range(400):
            append_event(connection, "r1", "many", {"number": number, "text": "x" * 200}, 0.0)
    ledger.close()
    path = _path(url)
    data = bytearray(path.read_bytes())
    data[40 * 4096 :] = b"\xff" * len(data[40 * 4096 :])
    path.write_bytes(bytes(data))
    with pytest.raises(LedgerError, match="corrupt"):
        _count(ledger)


def test_a_ledger_of_a_newer_version_is_refused_and_not_touched(url):
    open_ledger(url).close()
    path = _path(url)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99'")
    connection.close()
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(LedgerError, match=f"version 99; this capevolve knows {schema.SCHEMA_VERSION}"):
            open_ledger(url, create=create)
    assert path.read_bytes() == before


def test_an_older_ledger_is_migrated_forward_step_by_step_once(url, monkeypatch):
    open_ledger(url).close()
    steps: list[int] = []

    def migrate(version):
        def step(connection):
            connection.execute(text(f"ALTER TABLE runs ADD COLUMN later{version} TEXT"))
            steps.append(version)

        return step

    now = schema.SCHEMA_VERSION
    monkeypatch.setattr(schema, "SCHEMA_VERSION", now + 2)
    monkeypatch.setattr(store, "MIGRATIONS", {now: migrate(1), now + 1: migrate(2)})
    for _ in range(2):
        ledger = open_ledger(url, create=False)
        with ledger.read() as connection:
            assert read_version(connection) == now + 2
            connection.execute(text("SELECT later1, later2 FROM runs"))
        ledger.close()
    assert steps == [1, 2]


def test_a_migration_that_fails_leaves_the_old_version(url, monkeypatch):
    open_ledger(url).close()

    def fail(connection):
        connection.execute(text("ALTER TABLE runs ADD COLUMN half TEXT"))
        raise RuntimeError("the power went")

    now = schema.SCHEMA_VERSION
    with monkeypatch.context() as patched:
        patched.setattr(schema, "SCHEMA_VERSION", now + 1)
        patched.setattr(store, "MIGRATIONS", {now: fail})
        with pytest.raises(RuntimeError, match="power"):
            open_ledger(url)
    ledger = open_ledger(url)
    with ledger.read() as connection:
        assert read_version(connection) == now
        assert "half" not in {row[1] for row in connection.execute(text("PRAGMA table_info(runs)"))}
    ledger.close()


def test_a_write_that_fails_leaves_nothing(ledger):
    with pytest.raises(RuntimeError), ledger.write() as connection:
        append_event(connection, "r1", "note", {}, 0.0)
        raise RuntimeError
    assert _count(ledger) == 0


def test_a_reader_keeps_its_view_while_another_writes(ledger):
    with ledger.read() as connection:
        assert read_events(connection, "r1") == ()
        _note(ledger)
        assert read_events(connection, "r1") == ()
    assert _count(ledger) == 1


def test_every_connection_is_durable_and_checks_its_references(ledger):
    for door in (ledger.read, ledger.write):
        with door() as connection:
            found = [
                connection.scalar(text(f"PRAGMA {name}"))
                for name in ("journal_mode", "synchronous", "foreign_keys")
            ]
            assert found == ["wal", 2, 1]


def test_a_folder_in_whose_place_is_a_file_is_named(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(LedgerError, match=r"(?s)folder cannot be made.*state"):
        open_ledger(f"sqlite:///{tmp_path}/state/ledger.db")


def test_a_file_in_whose_place_is_a_folder_is_named(tmp_path):
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(LedgerError, match="cannot be opened"):
        open_ledger(f"sqlite:///{tmp_path}/ledger.db")


def test_a_ledger_deleted_under_an_open_one_is_an_error_with_a_name(ledger, url):
    ledger.close()
    shutil.rmtree(_path(url).parent)
    with pytest.raises(LedgerError, match="cannot be opened"):
        _note(ledger)


def test_a_full_disk_is_named_and_what_was_written_is_kept(ledger):
    _note(ledger)
    ledger.close()
    limit = {"pages": 0}

    def cap(connection, _record):
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {limit['pages'] or used + 1_000_000}")

    event.listen(ledger._engine, "connect", cap)
    limit["pages"] = 1  # SQLite raises it to what is used
    with pytest.raises(LedgerError, match="disk is full") as caught:
        _note(ledger, payload={"text": "x" * 200_000})
    assert "Free some space" in str(caught.value)
    assert _count(ledger) == 1
    ledger.close()
    limit["pages"] = 0
    _note(ledger, payload={"text": "x" * 200_000})
    assert _count(ledger) == 2


def test_a_write_lock_that_is_held_too_long_is_named(url, monkeypatch):
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.1)
    ledger = open_ledger(url)
    with ledger.write(), pytest.raises(LedgerError, match="write lock"):
        _note(ledger)
    _note(ledger)
    ledger.close()


def test_a_write_waits_for_another_one_and_then_gets_through(ledger):
    began = threading.Event()

    def hold():
        with ledger.write() as connection:
            append_event(connection, "r1", "first", {}, 0.0)
            began.set()
            time.sleep(0.15)

    thread = threading.Thread(target=hold)
    thread.start()
    assert began.wait(5)
    _note(ledger, "second")
    thread.join()
    with ledger.read() as connection:
        assert [e.kind for e in read_events(connection, "r1")] == ["first", "second"]


def _start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_processes_that_create_one_ledger_at_once_and_write_to_it_all_get_through(url):
    code = """
        import sys, time
        from capevolve.ledger.events import append_event
        from capevolve.ledger.store import open_ledger
        print("ready", flush=True)
        while time.time() < float(sys.argv[2]): pass
        ledger = open_ledger(sys.argv[1])
        for number in range(20):
            with ledger.write() as connection:
                append_event(connection, "r1", "note", {"number": number}, 0.0)
        print("done")
    """
    at = str(time.time() + 1.5)
    writers = [_start(code, url, at) for _ in range(2)]
    ends = [(writer.communicate(timeout=60)[0], writer.returncode) for writer in writers]
    assert ends == [("ready\ndone\n", 0)] * 2
    ledger = open_ledger(url, create=False)
    assert _count(ledger) == 40
    ledger.close()


def test_a_ledger_that_may_not_be_written_can_be_read_and_refuses_a_write_by_name():
    code = """
        import os, sys
        from capevolve.errors import LedgerError
        from capevolve.ledger.events import append_event, read_events
        from capevolve.ledger.store import open_ledger
        open_ledger(sys.argv[3]).close()  # whatever is imported late is imported now
        if os.geteuid() == 0:
            os.setuid(65534)
        ledger = open_ledger(sys.argv[1], create=False)
        with ledger.read() as connection:
            print(len(read_events(connection, "r1")))
        try:
            with ledger.write() as connection:
                append_event(connection, "r1", "note", {}, 0.0)
        except LedgerError as error:
            print(error.what)
        try:
            open_ledger(sys.argv[2])
        except LedgerError as error:
            print(error.what)
    """
    folder = Path(tempfile.mkdtemp(prefix="capevolve-test-"))
    try:
        ledger = open_ledger(f"sqlite:///{folder}/open/ledger.db")
        _note(ledger)
        ledger.close()
        (folder / "shut").mkdir()
        (folder / "open" / "ledger.db").chmod(0o444)
        (folder / "open").chmod(0o777)
        (folder / "shut").chmod(0o555)
        folder.chmod(0o755)
        urls = [f"sqlite:///{folder}/{name}.db" for name in ("open/ledger", "shut/ledger", "own/ledger")]
        reader = _start(code, *urls)
        assert reader.communicate(timeout=30)[0].splitlines() == [
            "1",
            "The ledger is read-only.",
            "The ledger cannot be opened.",
        ]
    finally:
        (folder / "shut").chmod(0o755)
        shutil.rmtree(folder)


def test_the_url_in_an_error_hides_a_password():
    ledger = store.Ledger(store._make_engine("postgresql+psycopg://me:secret@localhost:1/x", create=True))
    assert "secret" not in ledger.url
    with pytest.raises(LedgerError) as caught, ledger.read():
        pass
    assert "secret" not in str(caught.value)
    ledger.close()


def test_an_unreachable_server_is_a_ledger_error_when_it_is_opened():
    with pytest.raises(LedgerError):
        open_ledger("postgresql+psycopg://me:secret@localhost:1/x?connect_timeout=2")


def test_runs_of_an_empty_ledger_are_none(ledger):
    with ledger.read() as connection:
        assert list_runs(connection) == ()
