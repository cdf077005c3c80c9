"""From each schema version to the next. A step is never changed once a version was released with it.

So its SQL is written out: the tables in `schema` are those of the newest version only.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

Migration = Callable[[Connection], None]

_VERDICTS = (
    "run_id, iteration, candidate_id, incumbent_id, candidate_evaluation, incumbent_evaluation, settings, "
    "decision, payload, created_at"
)


def _add_blob_payloads(connection: Connection) -> None:
    """Version 2: payloads as blobs, verdicts without evaluations, rollouts scored again."""
    run = connection.exec_driver_sql
    run("ALTER TABLE blobs ADD COLUMN encoding VARCHAR")
    run("ALTER TABLE rollouts ADD COLUMN payload_digest VARCHAR")
    real = "DOUBLE PRECISION" if connection.dialect.name == "postgresql" else "FLOAT"
    run(
        "CREATE TABLE rescores (evaluation_id INTEGER NOT NULL REFERENCES evaluations (id), "
        "adapter_digest VARCHAR NOT NULL, task_id TEXT NOT NULL, trial INTEGER NOT NULL, "
        f"asked INTEGER NOT NULL, at {real} NOT NULL, reward {real}, reason VARCHAR, detail TEXT, "
        "feedback TEXT NOT NULL, metrics TEXT NOT NULL, "
        "PRIMARY KEY (evaluation_id, adapter_digest, task_id, trial, asked), "
        "CONSTRAINT rescored_or_reason CHECK ((reward IS NULL) = (reason IS NOT NULL)), "
        "CONSTRAINT rescore_range CHECK (reward IS NULL OR (reward >= 0 AND reward <= 1)))"
    )
    if connection.dialect.name == "postgresql":
        run("ALTER TABLE verdicts ALTER COLUMN candidate_evaluation DROP NOT NULL")
        run("ALTER TABLE verdicts ALTER COLUMN incumbent_evaluation DROP NOT NULL")
        return
    # SQLite cannot loosen a column. No table refers to verdicts, so a new one may take its place.
    run(
        "CREATE TABLE verdicts_2 (run_id VARCHAR NOT NULL REFERENCES runs (id), iteration INTEGER NOT NULL, "
        "candidate_id VARCHAR NOT NULL, incumbent_id VARCHAR NOT NULL, "
        "candidate_evaluation INTEGER REFERENCES evaluations (id), "
        "incumbent_evaluation INTEGER REFERENCES evaluations (id), "
        "settings TEXT NOT NULL, decision VARCHAR NOT NULL, payload TEXT NOT NULL, "
        "created_at FLOAT NOT NULL, "
        "PRIMARY KEY (run_id, iteration), "
        "CONSTRAINT verdict_decision CHECK (decision IN ('accept', 'reject', 'indecisive')))"
    )
    run(f"INSERT INTO verdicts_2 ({_VERDICTS}) SELECT {_VERDICTS} FROM verdicts")
    run("DROP TABLE verdicts")
    run("ALTER TABLE verdicts_2 RENAME TO verdicts")


MIGRATIONS: dict[int, Migration] = {1: _add_blob_payloads}
"""`MIGRATIONS[n]` takes a ledger from schema version n to n + 1."""
