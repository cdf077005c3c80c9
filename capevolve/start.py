"""The start of a run: tasks listed, seed candidate kept, splits frozen, once, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
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
from capevolve.runs import OpenRun
from capevolve.spec.resume import spec_json
from capevolve.splits import Marks, SplitPlan, SplitSettings, TaskRow, make_splits
from capevolve.splits.content import read_input

_MARKS = TypeAdapter(Marks)


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
    settings = run.loaded.split_settings()
    plan = plan_splits(listing.tasks, settings)
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
        insert_splits(connection, run.id, splits, _pair_tasks(plan, listing.tasks, settings.group_key))
        payload = {"sizes": dict(splits.sizes), "digest": splits.digest, "warnings": list(plan.warnings)}
        append_event(connection, run.id, "started", payload, now)
        failpoint("start.inserted")
    failpoint("start.frozen")
    return StartedRun(record, splits)


def _find_started(connection: Connection, run_id: str) -> StartedRun | None:
    record, splits = find_run(connection, run_id), find_splits(connection, run_id)
    return None if record is None or splits is None else StartedRun(record, splits)


def plan_splits(tasks: Sequence[ListedTask], settings: SplitSettings) -> SplitPlan:
    """Splits the tasks that an adapter listed.

    Raises:
        SplitError: They cannot be split as asked.
    """
    asks_keys = settings.group_key is not None or settings.stratify_key is not None
    keys = (
        {key for task in tasks for key, value in task.metadata.items() if value is not None}
        if asks_keys
        else ()
    )
    return make_splits(list_rows(tasks, settings.group_key, settings.stratify_key), settings, keys)


def list_rows(
    tasks: Sequence[ListedTask], group_key: str | None, stratify_key: str | None = None
) -> list[TaskRow]:
    """The tasks as the splitter sees them."""
    return [_row(task, group_key, stratify_key) for task in tasks]


def _row(task: ListedTask, group_key: str | None, stratify_key: str | None) -> TaskRow:
    content = json.loads(task.content)
    given = read_input(content["input"])
    return TaskRow(
        id=task.id,
        digest=task.digest,
        cluster=task.cluster,
        group=_read_key(content["metadata"], group_key),
        stratum=_read_key(content["metadata"], stratify_key),
        input_digest=given.digest,
        text=given.text,
    )


def _read_key(metadata: dict[str, Any], key: str | None) -> str | None:
    """The value of a key as text: what is no text as its JSON, so that 1 and "1" are the same."""
    value = None if key is None else metadata.get(key)
    return value if value is None or isinstance(value, str) else canonical_json(value)


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
    payload: dict[str, Any] = {
        "seed": plan.seed,
        "method": plan.method,
        "holdout": plan.holdout,
        "val_holdout": plan.val_holdout,
        "warnings": list(plan.warnings),
    }
    if plan.marks is not None:
        payload["marks"] = _MARKS.dump_python(plan.marks, mode="json", exclude_defaults=True)
    sizes = {"train": plan.train, "val": plan.val, "test": plan.test, "unused": plan.unused}
    return SplitSet(
        payload=canonical_json(payload),
        digest=plan.digest,
        test_digest=plan.test_digest,
        test_ids_digest=plan.test_ids_digest,
        frozen_at=now,
        sizes=tuple(sorted((name, len(tasks)) for name, tasks in sizes.items() if tasks)),
    )


def read_marks(splits: SplitSet) -> Marks:
    """What frozen splits rest on beside ids, digests and groups.

    Raises:
        ValueError: It is not what `describe_splits` wrote.
    """
    return _MARKS.validate_python(json.loads(splits.payload).get("marks", {}), strict=False)


def _pair_tasks(
    plan: SplitPlan, tasks: Sequence[ListedTask], group_key: str | None
) -> list[tuple[str, SplitTask]]:
    listed = {task.id: task for task in tasks}
    return [
        (split, SplitTask(ref, _read_key(listed[ref.id].metadata, group_key), listed[ref.id].content))
        for split, ref in plan.places()
    ]
