"""Runs and their frozen splits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, select, update

from capevolve.canonical import canonical_json
from capevolve.errors import LedgerError, TamperError, TestSealError
from capevolve.ledger import schema
from capevolve.model import Split, TaskRef

RunStatus = Literal["running", "stopped", "finished"]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it was started; `status` and what follows are its latest state.

    Attributes:
        spec: The canonical JSON of the project spec that the run was started with.
        adapter_files: `{path: digest}` of the adapter and the project modules it imports.
        seed_candidate: The seed candidate's digest.
    """

    id: str
    name: str
    created_at: float
    spec: str
    spec_digest: str
    version: str
    seed_candidate: str
    adapter_files: tuple[tuple[str, str], ...]
    adapter_digest: str
    status: RunStatus
    stop_reason: str | None
    ended_at: float | None


def insert_run(connection: Connection, run: RunRecord) -> None:
    """Adds a run."""
    connection.execute(
        insert(schema.runs).values(
            id=run.id,
            name=run.name,
            created_at=run.created_at,
            spec=run.spec,
            spec_digest=run.spec_digest,
            version=run.version,
            seed_candidate=run.seed_candidate,
            adapter_files=canonical_json(dict(run.adapter_files)),
            adapter_digest=run.adapter_digest,
            status=run.status,
            stop_reason=run.stop_reason,
            ended_at=run.ended_at,
        )
    )


def _record(row: Any) -> RunRecord:
    values = row._asdict()
    try:
        values["adapter_files"] = tuple(sorted(json.loads(values["adapter_files"]).items()))
    except (ValueError, TypeError, AttributeError) as error:
        raise TamperError("`adapter_files` cannot be read.", where=f"table runs, run {row.id}") from error
    return RunRecord(**values)


def find_run(connection: Connection, run_id: str) -> RunRecord | None:
    """The run with this id, or None."""
    row = connection.execute(select(schema.runs).where(schema.runs.c.id == run_id)).one_or_none()
    return None if row is None else _record(row)


def read_run(connection: Connection, run_id: str) -> RunRecord:
    """The run with this id.

    Raises:
        LedgerError: There is none.
    """
    run = find_run(connection, run_id)
    if run is None:
        known = [record.id for record in list_runs(connection)][-5:]
        raise LedgerError(
            f"The ledger knows no run {run_id!r}.",
            fix=f"Known runs: {', '.join(known)}." if known else "Start one: capevolve run PROJECT.",
        )
    return run


def list_runs(connection: Connection) -> tuple[RunRecord, ...]:
    """All runs of the ledger, oldest first."""
    statement = select(schema.runs).order_by(schema.runs.c.created_at, schema.runs.c.id)
    return tuple(_record(row) for row in connection.execute(statement))


def set_run_status(
    connection: Connection, run_id: str, status: RunStatus, reason: str | None, now: float
) -> None:
    """Notes how the run stands."""
    connection.execute(
        update(schema.runs)
        .where(schema.runs.c.id == run_id)
        .values(status=status, stop_reason=reason, ended_at=None if status == "running" else now)
    )


def update_run_spec(connection: Connection, run_id: str, spec: str, spec_digest: str) -> None:
    """Replaces the spec of a run that is resumed with changed limits; an event keeps the old one."""
    connection.execute(
        update(schema.runs).where(schema.runs.c.id == run_id).values(spec=spec, spec_digest=spec_digest)
    )


@dataclass(frozen=True, slots=True)
class SplitTask:
    """A task in a split as the ledger keeps it; `content` (canonical JSON) only for train."""

    ref: TaskRef
    group: str | None
    content: str | None


@dataclass(frozen=True, slots=True)
class SplitSet:
    """The frozen splits of a run, without their task ids.

    Attributes:
        payload: Canonical JSON: seed, method, settings, warnings, whether test and val are held out.
        digest: Digest of the whole assignment.
        test_digest: Digest of the test tasks' contents: the same test set under other ids has the same.
        test_ids_digest: Digest of the test tasks' ids.
        sizes: Tasks per split.
    """

    payload: str
    digest: str
    test_digest: str
    test_ids_digest: str
    frozen_at: float
    sizes: tuple[tuple[str, int], ...]

    def size(self, split: Split) -> int:
        """The number of tasks in a split."""
        return dict(self.sizes).get(split, 0)

    @property
    def holdout(self) -> bool:
        """False when test shares a task or content with train or val: its number is a fit metric."""
        return bool(json.loads(self.payload)["holdout"])

    @property
    def val_holdout(self) -> bool:
        """False when val shares a task or content with train."""
        return bool(json.loads(self.payload)["val_holdout"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the numbers must know about the splits."""
        return tuple(json.loads(self.payload)["warnings"])


def insert_splits(
    connection: Connection,
    run_id: str,
    splits: SplitSet,
    tasks: Sequence[tuple[str, SplitTask]],
) -> None:
    """Freezes the splits of a run: (split, task) pairs in split order."""
    connection.execute(
        insert(schema.split_sets).values(
            run_id=run_id,
            payload=splits.payload,
            digest=splits.digest,
            test_digest=splits.test_digest,
            test_ids_digest=splits.test_ids_digest,
            frozen_at=splits.frozen_at,
        )
    )
    connection.execute(
        insert(schema.split_tasks),
        [
            {
                "run_id": run_id,
                "split": split,
                "task_id": task.ref.id,
                "position": position,
                "digest": task.ref.digest,
                "cluster": task.ref.cluster,
                "task_group": task.group,
                "content": task.content if split == "train" else None,
            }
            for position, (split, task) in enumerate(tasks)
        ],
    )


def find_splits(connection: Connection, run_id: str) -> SplitSet | None:
    """The frozen splits of a run, or None before they are frozen."""
    row = connection.execute(
        select(schema.split_sets).where(schema.split_sets.c.run_id == run_id)
    ).one_or_none()
    if row is None:
        return None
    table = schema.split_tasks
    counts = connection.execute(
        select(table.c.split, func.count()).where(table.c.run_id == run_id).group_by(table.c.split)
    )
    sizes = tuple(sorted((str(split), int(count)) for split, count in counts))
    return SplitSet(row.payload, row.digest, row.test_digest, row.test_ids_digest, row.frozen_at, sizes)


def read_split(connection: Connection, run_id: str, split: Split) -> tuple[SplitTask, ...]:
    """The tasks of train or val, in split order.

    Raises:
        TestSealError: The test split was asked for. Its ids leave the ledger only through the seal.
    """
    if split == "test":
        raise TestSealError(
            "The test split is sealed: its tasks are known only to finalize.",
            where=f"run {run_id}",
            fix=f"Use train or val; the test number comes from: capevolve finalize {run_id}.",
        )
    return _read_tasks(connection, run_id, split)


def read_sealed_split(connection: Connection, run_id: str) -> tuple[SplitTask, ...]:
    """The tasks of the test split. Only `seal` may call this; an architecture test watches it."""
    return _read_tasks(connection, run_id, "test")


def _read_tasks(connection: Connection, run_id: str, split: Split) -> tuple[SplitTask, ...]:
    table = schema.split_tasks
    rows = connection.execute(
        select(table).where(table.c.run_id == run_id, table.c.split == split).order_by(table.c.position)
    )
    return tuple(
        SplitTask(TaskRef(row.task_id, row.digest, row.cluster), row.task_group, row.content) for row in rows
    )
