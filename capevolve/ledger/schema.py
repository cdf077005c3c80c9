"""The tables of the ledger, as SQLAlchemy Core metadata for SQLite and PostgreSQL.

JSON lives in text columns as canonical JSON, so that a digest of a row is the same on every database.
Times are seconds since the epoch, UTC. Rows are added and filled in; none is ever deleted.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 2

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("spec", Text, nullable=False),
    Column("spec_digest", String, nullable=False),
    Column("version", String, nullable=False),
    Column("seed_candidate", String, nullable=False),
    Column("adapter_files", Text, nullable=False),
    Column("adapter_digest", String, nullable=False),
    Column("status", String, nullable=False),
    Column("stop_reason", Text),
    Column("ended_at", Float),
    CheckConstraint("status IN ('running', 'stopped', 'finished')", name="run_status"),
)

leases = Table(
    "leases",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("host", String, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("pid_started_at", Float, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("acquired_at", Float, nullable=False),
    Column("heartbeat_at", Float, nullable=False),
    Column("released_at", Float),
)

split_sets = Table(
    "split_sets",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("payload", Text, nullable=False),
    Column("digest", String, nullable=False),
    Column("test_digest", String, nullable=False),
    Column("test_ids_digest", String, nullable=False),
    Column("frozen_at", Float, nullable=False),
)

split_tasks = Table(
    "split_tasks",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("split", String, primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("digest", String, nullable=False),
    Column("cluster", Text),
    Column("task_group", Text),
    Column("content", Text),  # train only: what a brief may show
    CheckConstraint("split IN ('train', 'val', 'test', 'unused')", name="split_name"),
)

blobs = Table(
    "blobs",
    metadata,
    Column("digest", String, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("encoding", String),  # of `data`: null is the bytes themselves; `digest` is of these always
)

candidates = Table(
    "candidates",
    metadata,
    Column("id", String, primary_key=True),
    Column("manifest", Text, nullable=False),
)

proposals = Table(
    "proposals",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("iteration", Integer, primary_key=True),
    Column("parent_id", String, nullable=False),
    Column("status", String, nullable=False),
    Column("candidate_id", String),
    Column("summary", Text, nullable=False, default=""),
    Column("detail", Text, nullable=False, default=""),
    Column("cost_usd", Float),
    Column("tokens", BigInteger),
    Column("calls", Integer, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("finished_at", Float),
    CheckConstraint(
        "status IN ('started', 'proposed', 'duplicate', 'empty', 'invalid', 'failed', 'exhausted')",
        name="proposal_status",
    ),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("digest", String, nullable=False, unique=True),
    Column("run_id", String, ForeignKey("runs.id"), nullable=False),
    Column("candidate_id", String, ForeignKey("candidates.id"), nullable=False),
    Column("split", String, nullable=False),
    Column("tag", String, nullable=False),
    Column("num_trials", Integer, nullable=False),
    Column("base_seed", Integer, nullable=False),
    Column("subset", Text),  # canonical list of task ids; null is the whole split
    Column("attempt_id", Integer, ForeignKey("attempts.id")),
    Column("session", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("finished_at", Float),
    CheckConstraint("(split = 'test') = (attempt_id IS NOT NULL)", name="test_needs_attempt"),
)

trials = Table(
    "trials",
    metadata,
    Column("evaluation_id", Integer, ForeignKey("evaluations.id"), primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("trial", Integer, primary_key=True),
    Column("seed", Integer, nullable=False),
    Column("state", String, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("session", Integer, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("interrupted", Integer, nullable=False),
    Column("claimed_at", Float, nullable=False),
    Column("finished_at", Float),
    Column("reward", Float),
    Column("reason", String),
    Column("detail", Text),
    Column("duration_s", Float),
    Column("cost_usd", Float),
    Column("tokens", BigInteger),
    CheckConstraint("state IN ('claimed', 'scored', 'unmeasured')", name="trial_state"),
    CheckConstraint("(state = 'scored') = (reward IS NOT NULL)", name="scored_has_reward"),
    CheckConstraint("reward IS NULL OR (reward >= 0 AND reward <= 1)", name="reward_range"),
    sqlite_with_rowid=False,
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("evaluation_id", Integer, ForeignKey("evaluations.id"), primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("trial", Integer, primary_key=True),
    Column("feedback", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("payload", Text, nullable=False),  # empty where `payload_digest` names a blob
    Column("payload_digest", String),
    sqlite_with_rowid=False,
)

rescores = Table(
    "rescores",
    metadata,
    Column("evaluation_id", Integer, ForeignKey("evaluations.id"), primary_key=True),
    Column("adapter_digest", String, primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("trial", Integer, primary_key=True),
    Column("asked", Integer, primary_key=True),  # the latest asking stands
    Column("at", Float, nullable=False),
    Column("reward", Float),
    Column("reason", String),
    Column("detail", Text),
    Column("feedback", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    CheckConstraint("(reward IS NULL) = (reason IS NOT NULL)", name="rescored_or_reason"),
    CheckConstraint("reward IS NULL OR (reward >= 0 AND reward <= 1)", name="rescore_range"),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("iteration", Integer, primary_key=True),
    Column("candidate_id", String, nullable=False),
    Column("incumbent_id", String, nullable=False),
    Column("candidate_evaluation", Integer, ForeignKey("evaluations.id")),
    Column("incumbent_evaluation", Integer, ForeignKey("evaluations.id")),
    Column("settings", Text, nullable=False),
    Column("decision", String, nullable=False),
    Column("payload", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    CheckConstraint("decision IN ('accept', 'reject', 'indecisive')", name="verdict_decision"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String, ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("plan", Text, nullable=False),
    Column("plan_digest", String, nullable=False),
    Column("test_digest", String, nullable=False),
    Column("test_ids_digest", String, nullable=False),
    Column("look", Integer, nullable=False),
    Column("override_reason", Text),
    Column("state", String, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("result", Text),
    UniqueConstraint("run_id", "number", name="one_attempt_number"),
    UniqueConstraint("test_digest", "look", name="one_look_number"),
    CheckConstraint("state IN ('open', 'committed', 'superseded')", name="attempt_state"),
    CheckConstraint("(state = 'committed') = (result IS NOT NULL)", name="committed_has_result"),
)

seal_events = Table(
    "seal_events",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("payload", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("previous", String, nullable=False),
    Column("hash", String, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String, nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("payload", Text, nullable=False),
)
