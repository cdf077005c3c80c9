"""The start of a run: tasks listed, seed candidate kept, splits frozen, once, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

import capevolve
from capevolve.adapters.listing import list_tasks
from capevolve.adapters.records import ListedTask, TaskListing
from capevolve.candidates import read_tree, store_candidate
from capevolve.canonical import canonical_json, digest_bytes
from capevolve.failpoints import failpoint
from capevolve.ledger.events import append_event
from capevolve.ledger.leases import check_lease
from capevolve.ledger.runs import (
    RunRecord,
    SplitSet,
    SplitTask,
    find_run,
    find_splits,
    insert_run,
    insert_splits,
)
from capevolve.model import TaskRef
from capevolve.runs import OpenRun
from capevolve.spec.resume import spec_json
from capevolve.splits import SplitPlan, TaskRow, make_splits


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run whose splits are frozen."""

    record: RunRecord
    splits: SplitSet


async def start_run(run: OpenRun) -> StartedRun:
    """Starts a run, or reads what was frozen when it was started.

    Nothing of the target is called: only the adapter is loaded and asked for its tasks.

    Raises:
        AdapterError: The adapter cannot be loaded, or its tasks are unfit.
        SplitError: The tasks cannot be split as asked.
        UserError: The seed candidate's folder is missing or unfit.
    """
    with run.ledger.read() as connection:
        started = _find_started(connection, run.id)
    if started is not None:
        return started
    listing = await list_tasks(run.adapter, timeout_s=run.spec.evaluation.timeout_s)
    tree = read_tree(run.root / run.spec.seed_candidate)
    plan = make_splits(list_rows(listing.tasks, run.spec.splits.group_by), run.loaded.split_settings())
    now = run.clock()
    record = _record(run, tree.candidate.id, listing, now)
    splits = describe_splits(plan, now)
    failpoint("start.listed")
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        started = _find_started(connection, run.id)
        if started is not None:
            return started
        store_candidate(connection, tree)
        insert_run(connection, record)
        insert_splits(connection, run.id, splits, _pair_tasks(plan, listing.tasks, run.spec.splits.group_by))
        payload = {"sizes": dict(splits.sizes), "digest": splits.digest, "warnings": list(plan.warnings)}
        append_event(connection, run.id, "started", payload, now)
        failpoint("start.inserted")
    failpoint("start.frozen")
    return StartedRun(record, splits)


def _find_started(connection: Connection, run_id: str) -> StartedRun | None:
    record, splits = find_run(connection, run_id), find_splits(connection, run_id)
    return None if record is None or splits is None else StartedRun(record, splits)


def list_rows(tasks: Sequence[ListedTask], group_by: str | None) -> list[TaskRow]:
    """The tasks as the splitter sees them."""
    return [TaskRow(task.id, task.digest, task.cluster, _group(task, group_by)) for task in tasks]


def _group(task: ListedTask, group_by: str | None) -> str | None:
    value = None if group_by is None else task.metadata.get(group_by)
    if value is None or isinstance(value, str):
        return value
    return canonical_json(value)


def _record(run: OpenRun, seed_id: str, listing: TaskListing, now: float) -> RunRecord:
    text = spec_json(run.spec)
    return RunRecord(
        id=run.id,
        name=run.spec.name,
        created_at=now,
        spec=text,
        spec_digest=digest_bytes(text.encode("utf-8")),
        version=capevolve.__version__,
        seed_candidate=seed_id,
        adapter_files=listing.facts.files,
        adapter_digest=listing.facts.digest,
        status="running",
        stop_reason=None,
        ended_at=None,
    )


def describe_splits(plan: SplitPlan, now: float) -> SplitSet:
    """What the ledger keeps of a split plan beside its tasks."""
    payload = {
        "seed": plan.seed,
        "method": plan.method,
        "holdout": plan.holdout,
        "val_holdout": plan.val_holdout,
        "warnings": list(plan.warnings),
    }
    sizes = {"train": plan.train, "val": plan.val, "test": plan.test, "unused": plan.unused}
    return SplitSet(
        payload=canonical_json(payload),
        digest=plan.digest,
        test_digest=plan.test_digest,
        test_ids_digest=plan.test_ids_digest,
        frozen_at=now,
        sizes=tuple(sorted((name, len(tasks)) for name, tasks in sizes.items() if tasks)),
    )


def _pair_tasks(
    plan: SplitPlan, tasks: Sequence[ListedTask], group_by: str | None
) -> list[tuple[str, SplitTask]]:
    listed = {task.id: task for task in tasks}
    named: tuple[tuple[str, tuple[TaskRef, ...]], ...] = (
        ("train", plan.train),
        ("val", plan.val),
        ("test", plan.test),
        ("unused", plan.unused),
    )
    return [
        (split, SplitTask(ref, _group(listed[ref.id], group_by), listed[ref.id].content))
        for split, refs in named
        for ref in refs
    ]
