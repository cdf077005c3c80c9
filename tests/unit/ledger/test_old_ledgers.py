"""Ledgers written by every released schema version: they open, migrate forward, verify, and are reported on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from capevolve.ledger import schema, store
from capevolve.ledger.runs import list_runs
from capevolve.ledger.store import open_ledger, read_version
from capevolve.report import read_facts, render_markdown
from capevolve.verify import verify_run

OLD = sorted((Path(__file__).parent / "old").glob("ledger-v*.sql"))


def restore(dump: Path, folder: Path) -> str:
    path = folder / "ledger.db"
    connection = sqlite3.connect(path)
    connection.executescript(dump.read_text())
    connection.close()
    return f"sqlite:///{path}"


def test_every_schema_version_so_far_has_its_fixture():
    assert [dump.stem for dump in OLD] == [f"ledger-v{n}" for n in range(1, schema.SCHEMA_VERSION + 1)]


@pytest.mark.parametrize("dump", OLD, ids=lambda dump: dump.stem)
def test_an_old_ledger_opens_verifies_and_tells_its_number(dump, tmp_path):
    ledger = open_ledger(restore(dump, tmp_path), create=False)
    with ledger.read() as connection:
        assert read_version(connection) == schema.SCHEMA_VERSION
        (run,) = list_runs(connection)
    facts = read_facts(ledger, run.id, now=2e9)
    assert facts.final is not None
    assert facts.final.result.test.reward == 1.0
    assert facts.final.result.test_delta.delta == 1.0
    assert "Held-out test delta: +1.000" in render_markdown(facts)
    with ledger.read() as connection:
        verify_run(connection, run.id)
    ledger.close()


def test_an_older_schema_is_migrated_step_by_step_in_one_transaction(tmp_path, monkeypatch):
    url = restore(OLD[0], tmp_path)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 3)

    def to_two(connection):
        connection.execute(text("ALTER TABLE runs ADD COLUMN colour TEXT"))

    def to_three(connection):
        connection.execute(text("UPDATE runs SET colour = 'blue'"))

    monkeypatch.setattr(store, "MIGRATIONS", {1: to_two, 2: to_three})
    ledger = open_ledger(url)
    with ledger.read() as connection:
        assert read_version(connection) == 3
        assert connection.scalar(text("SELECT colour FROM runs")) == "blue"
    ledger.close()


def test_a_migration_that_fails_leaves_the_old_ledger_as_it_was(tmp_path, monkeypatch):
    url = restore(OLD[0], tmp_path)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)

    def fail(connection):
        connection.execute(text("ALTER TABLE runs ADD COLUMN colour TEXT"))
        raise RuntimeError("the power went out")

    monkeypatch.setattr(store, "MIGRATIONS", {1: fail})
    with pytest.raises(RuntimeError):
        open_ledger(url)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 1)
    ledger = open_ledger(url)
    with ledger.read() as connection:
        assert read_version(connection) == 1
        columns = [row[1] for row in connection.execute(text("PRAGMA table_info(runs)"))]
    assert "colour" not in columns
    ledger.close()
