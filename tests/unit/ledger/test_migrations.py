"""Schema version 2 over version 1: the same tables as a new ledger's, and nothing of the old rows lost."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from capevolve.design.measured import read_variance
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.runs import list_runs
from capevolve.ledger.schema import SCHEMA_VERSION
from capevolve.ledger.store import open_ledger, read_version

V1 = Path(__file__).parent / "old" / "ledger-v1.sql"

TO_VERSION_1 = (
    "DROP TABLE rescores",
    "ALTER TABLE blobs DROP COLUMN encoding",
    "ALTER TABLE rollouts DROP COLUMN payload_digest",
    "ALTER TABLE verdicts ALTER COLUMN candidate_evaluation SET NOT NULL",
    "ALTER TABLE verdicts ALTER COLUMN incumbent_evaluation SET NOT NULL",
    "UPDATE meta SET value = '1'",
)


def describe(ledger):
    """Every table with its columns, key, foreign keys and checks, as the database tells them."""
    found = {}
    with ledger.read() as connection:
        seen = inspect(connection)
        for table in sorted(seen.get_table_names()):
            columns = {c["name"]: (str(c["type"]), c["nullable"]) for c in seen.get_columns(table)}
            foreign = sorted(
                (f["constrained_columns"], f["referred_table"]) for f in seen.get_foreign_keys(table)
            )
            key = seen.get_pk_constraint(table)["constrained_columns"]
            checks = sorted(c["name"] for c in seen.get_check_constraints(table))
            found[table] = (columns, key, foreign, checks)
    return found


@pytest.fixture
def migrated(make_ledger_url, backend, tmp_path):
    """An empty ledger of version 1 on the backend, opened by this version."""
    if backend == "sqlite":
        path = tmp_path / "old.db"
        connection = sqlite3.connect(path)
        connection.executescript(V1.read_text())
        connection.close()
        url = f"sqlite:///{path}"
    else:
        url = make_ledger_url()
        ledger = open_ledger(url)
        with ledger.write() as connection:
            for statement in TO_VERSION_1:
                connection.execute(text(statement))
        ledger.close()
    ledger = open_ledger(url, create=False)
    yield ledger
    ledger.close()


@pytest.mark.both_ledgers
def test_a_migrated_ledger_has_the_tables_of_a_new_one(migrated, ledger):
    with migrated.read() as connection:
        assert read_version(connection) == SCHEMA_VERSION
    assert describe(migrated) == describe(ledger)


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "ledger.db"
    connection = sqlite3.connect(path)
    connection.executescript(V1.read_text())
    yield connection, f"sqlite:///{path}"
    connection.close()


def test_the_rows_of_a_version_1_ledger_are_all_there_after_the_migration(old):
    connection, url = old
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    tables = [name for name in tables if name != "meta" and not name.startswith("sqlite_")]
    before = {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in tables}
    payloads = [row[0] for row in connection.execute("SELECT payload FROM rollouts WHERE evaluation_id = 1")]
    ledger = open_ledger(url, create=False)
    for name in tables:
        columns = ", ".join(c[1] for c in connection.execute(f"PRAGMA table_info({name})").fetchall())
        now = connection.execute(f"SELECT {columns} FROM {name} ORDER BY 1, 2").fetchall()
        width = len(before[name][0]) if before[name] else 0
        assert [row[:width] for row in now] == before[name], name
    assert before["verdicts"]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with ledger.read() as reader:
        assert sorted(rollout.payload for rollout in read_rollouts(reader, 1)) == sorted(payloads)
    ledger.close()


def test_a_verdict_may_stand_without_evaluations_and_is_read_so(old):
    _, url = old
    ledger = open_ledger(url, create=False)
    with ledger.write() as connection:
        connection.execute(
            text("UPDATE verdicts SET candidate_evaluation = NULL, incumbent_evaluation = NULL")
        )
        (run,) = list_runs(connection)
        verdicts = read_verdicts(connection, run.id)
        assert {(v.candidate_evaluation, v.incumbent_evaluation) for v in verdicts} == {(None, None)}
        assert read_variance(connection, run.name).run_id == run.id
    ledger.close()
