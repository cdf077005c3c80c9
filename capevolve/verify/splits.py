"""The splits drawn again from their seed and settings, over the tasks as they are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from capevolve.adapters.records import ListedTask
from capevolve.canonical import digest_bytes
from capevolve.errors import UserError
from capevolve.ledger.audit import FrozenTask
from capevolve.ledger.evidence import RunDigests
from capevolve.ledger.runs import SplitSet
from capevolve.model import TaskRef
from capevolve.spec import ProjectSpec
from capevolve.splits import Marks, PerSplit, SplitPlan, SplitSettings, TaskRow, make_splits
from capevolve.splits.apart import add_near
from capevolve.splits.keys import describe_ungrouped
from capevolve.start import describe_splits, list_rows, read_marks
from capevolve.verify.difference import expect, name_row, reading, refuse
from capevolve.verify.evidence import check_evidence
from capevolve.verify.history import History

_Place = tuple[str, str]


def check_splits(
    run_id: str,
    spec: ProjectSpec,
    splits: SplitSet,
    tasks: Sequence[FrozenTask],
    history: History,
    digests: RunDigests,
) -> None:
    """Draws the splits again and compares every row with them.

    Raises:
        TamperError: A task is elsewhere, or is another one, than the seed and the settings say.
    """
    _check_gone(tasks, history)
    where = name_row("split_sets", run=run_id)
    with reading(where):
        marks = read_marks(splits)
    with reading(name_row("split_tasks", run=run_id)):
        rows = _list_marked(tasks, marks)
        plan, problem = _draw_again(rows, _settings(spec, tasks), marks)
    if plan is not None:
        _compare_rows(run_id, plan, tasks, history)
    _check_contents(run_id, tasks, rows, spec)
    check_evidence(history, digests, "split_tasks", "split_sets")
    if plan is None:
        # The words of the problem may hold ids of test tasks.
        said = "" if history.is_sealed else f" {problem}"
        refuse(f"The splits cannot be drawn again from the tasks that are stored.{said}", where)
    _compare_sets(where, splits, plan, describe_ungrouped(_by_id(rows), spec.splits.group_key))
    for attempt in history.attempts:
        expect("test_digest", attempt.where, attempt.row.test_digest, splits.test_digest)
        expect("test_ids_digest", attempt.where, attempt.row.test_ids_digest, splits.test_ids_digest)


def _settings(spec: ProjectSpec, tasks: Sequence[FrozenTask]) -> SplitSettings:
    """The settings of the spec; ids pinned in a file of their own are those that were stored."""
    settings = spec.splits.to_settings()
    if spec.splits.ids_file is None:
        return settings
    train, val, test = (
        tuple(frozen.task.ref.id for frozen in tasks if frozen.split == split)
        for split in ("train", "val", "test")
    )
    return replace(settings, ids=PerSplit(train, val, test))


def _check_gone(tasks: Sequence[FrozenTask], history: History) -> None:
    """Names a task that was sealed with a result and is in no split any more."""
    stored = {frozen.task.ref.id for frozen in tasks}
    for attempt in history.committed:
        marks = () if attempt.evidence is None else sorted(attempt.evidence.marks)
        for table, *key in marks:
            if table == "split_tasks" and key[1] not in stored:
                refuse("The row is gone.", name_row("split_tasks", split=key[0], task=key[1]))


def _list_marked(tasks: Sequence[FrozenTask], marks: Marks) -> list[TaskRow]:
    """The stored tasks with what the marks say of them."""
    copies = {position: f"copies {i}" for i, alike in enumerate(marks.copies) for position in alike}
    rows = []
    for frozen in tasks:
        ref, place = frozen.task.ref, marks.strata[frozen.position] if marks.strata else None
        stratum = None if place is None else marks.stratum_names[place]
        rows.append(
            TaskRow(ref.id, ref.digest, ref.cluster, frozen.task.group, stratum, copies.get(frozen.position))
        )
    return rows


def _by_id(rows: Iterable[TaskRow]) -> list[TaskRow]:
    """Every task once, ordered as the splitter orders them."""
    return [row for _, row in sorted({row.id: row for row in rows}.items())]


def _draw_again(
    rows: Sequence[TaskRow], settings: SplitSettings, marks: Marks
) -> tuple[SplitPlan | None, UserError | None]:
    try:
        return add_near(make_splits(_by_id(rows), settings), marks.near, settings), None
    except UserError as problem:
        return None, problem


def _compare_rows(run_id: str, plan: SplitPlan, tasks: Sequence[FrozenTask], history: History) -> None:
    drawn = _list_places(plan)
    for frozen in tasks:
        ref = frozen.task.ref
        where = _locate(run_id, frozen, history)
        if (frozen.split, ref.id) not in drawn:
            should = [split for split, task_id in drawn if task_id == ref.id]
            expect("split", where, frozen.split, " and ".join(should))
    stored = {(frozen.split, frozen.task.ref.id): frozen for frozen in tasks}
    for position, (place, ref) in enumerate(drawn.items()):
        if place not in stored:
            refuse("The row is missing.", name_row("split_tasks", run=run_id, position=position))
        frozen = stored[place]
        where = _locate(run_id, frozen, history)
        expect("position", where, frozen.position, position)
        copy = (frozen.task.ref.digest, frozen.task.ref.cluster)
        expect("digest and cluster", where, copy, (ref.digest, ref.cluster))


def _list_places(plan: SplitPlan) -> dict[_Place, TaskRef]:
    named = (("train", plan.train), ("val", plan.val), ("test", plan.test), ("unused", plan.unused))
    return {(split, ref.id): ref for split, refs in named for ref in refs}


def _locate(run_id: str, frozen: FrozenTask, history: History) -> str:
    """The row of a task: by its position alone while test is sealed, because it may be a test task."""
    if history.is_sealed:
        return name_row("split_tasks", run=run_id, position=frozen.position)
    return name_row("split_tasks", run=run_id, split=frozen.split, task=frozen.task.ref.id)


def _check_contents(
    run_id: str, tasks: Sequence[FrozenTask], rows: Sequence[TaskRow], spec: ProjectSpec
) -> None:
    """Compares each train task with its content, and refuses the content of any other."""
    copies: dict[str, str | None] = {}
    for frozen, row in zip(tasks, rows, strict=True):
        where = name_row("split_tasks", run=run_id, position=frozen.position)
        if frozen.split != "train":
            expect("content", where, frozen.task.content is not None, computed=False)
            continue
        with reading(where):
            found = _check_train_content(where, frozen, row, spec)
            if found.input_digest is not None and row.input_digest is not None:
                same = copies.setdefault(row.input_digest, found.input_digest)
                expect("input, which marks call a copy", where, found.input_digest, same)


def _check_train_content(where: str, frozen: FrozenTask, row: TaskRow, spec: ProjectSpec) -> TaskRow:
    """Returns the task as its content tells it."""
    content, ref = frozen.task.content, frozen.task.ref
    if content is None:
        refuse("The content of a train task is missing.", where)
    expect("digest", where, ref.digest, digest_bytes(content.encode("utf-8")))
    listed = ListedTask(ref.id, ref.digest, content, ref.cluster)
    cluster = listed.metadata.get("cluster")
    expect("cluster", where, ref.cluster, None if cluster is None else str(cluster))
    (told,) = list_rows([listed], spec.splits.group_key, spec.splits.stratify_key)
    expect("task_group", where, frozen.task.group, told.group)
    expect("stratum", where, row.stratum, told.stratum)
    return told


def _compare_sets(where: str, stored: SplitSet, plan: SplitPlan, ungrouped: str | None) -> None:
    """Compares what is stored of the splits with those drawn.

    Args:
        ungrouped: The warning of tasks without a group as capevolve 0.1 put it, with the ids of test too.
    """
    with reading(where):
        kept = json.loads(stored.payload)
        if ungrouped is not None and kept["warnings"][:1] == [ungrouped]:
            plan = replace(plan, warnings=(ungrouped, *plan.warnings[1:]))
        drawn = describe_splits(plan, stored.frozen_at)
        expect("payload", where, kept, json.loads(drawn.payload))
    expect("digest", where, stored.digest, drawn.digest)
    expect("test_digest", where, stored.test_digest, drawn.test_digest)
    expect("test_ids_digest", where, stored.test_ids_digest, drawn.test_ids_digest)
    expect("sizes", where, stored.sizes, drawn.sizes)
