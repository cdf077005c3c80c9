"""Splits tasks, or says why it cannot."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from capevolve.errors import SplitError
from capevolve.model import SPLITS, Split, TaskRef
from capevolve.splits.ids import SHOWN, check_task_ids, show_id, show_some
from capevolve.splits.partition import bind_together, fill, largest_remainder
from capevolve.splits.plan import DEFAULT_RATIOS, PerSplit, SplitPlan, SplitSettings, TaskRow, ratio_fault
from capevolve.splits.sizes import check_sizes, count_tasks, show_sizes, size_warnings

_Names = Mapping[Split, Sequence[str]]
_Parts = Mapping[Split, Sequence[TaskRow]]


def make_splits(tasks: Iterable[TaskRow], settings: SplitSettings) -> SplitPlan:
    """Splits tasks into train, val and test.

    Args:
        tasks: All tasks of the project, in any order.
        settings: How to split them.

    Returns:
        The same plan, hence the same digest, whenever tasks and settings are the same.

    Raises:
        SplitError: The tasks cannot be split as asked; the message names the sizes and the smallest fix.
    """
    listed = list(tasks)
    check_task_ids(task.id for task in listed)
    rows = {row.id: row for row in sorted(listed, key=lambda row: row.id)}
    _check_settings(settings)
    warnings = _check_groups(rows.values(), settings.group_by)
    if settings.ids is not None:
        names = _pin(rows, settings.ids, allow_small=settings.allow_small)
    else:
        names, resized = _draw(rows, settings)
        warnings += resized
    parts: _Parts = {split: [rows[name] for name in sorted(names[split])] for split in SPLITS}
    if not settings.allow_no_holdout:
        _check_apart(parts, settings)
    elif _across(parts, lambda row: row.group):
        warnings.append("Tasks of one group are in more than one split.")
    used = {row.id for part in parts.values() for row in part}
    plan = SplitPlan(
        train=_refs(parts["train"]),
        val=_refs(parts["val"]),
        test=_refs(parts["test"]),
        seed=settings.seed,
        method=settings.method,
        holdout=not _shared(parts["test"], (*parts["train"], *parts["val"])),
        val_holdout=not _shared(parts["val"], parts["train"]),
        unused=_refs(row for row in rows.values() if row.id not in used),
    )
    return replace(plan, warnings=(*warnings, *_plan_warnings(plan)))


def _check_settings(settings: SplitSettings) -> None:
    ways = {"ratios": settings.ratios, "counts": settings.counts, "ids": settings.ids}
    given = [name for name, way in ways.items() if way is not None]
    if len(given) > 1:
        raise SplitError(f"Both {' and '.join(given)} are given.", where="splits", fix="Keep one of them.")
    fault = ratio_fault(settings.ratios) if settings.ratios else None
    if settings.counts and min(settings.counts.by_split().values()) < 0:
        fault = "must each be at least 0"
    if fault:
        raise SplitError(f"The {given[0]} {fault}.", where=f"splits.{given[0]}")


def _check_groups(rows: Collection[TaskRow], group_by: str | None) -> list[str]:
    """Returns a warning when some tasks lack the key that groups; refuses when all do."""
    lacking = [show_id(row.id) for row in rows if row.group is None]
    if group_by is None or not lacking:
        return []
    if len(lacking) == len(rows):
        raise SplitError(
            f"No task has {group_by!r} in its metadata.",
            where="splits.group_by",
            fix="Name a key that tasks() puts into Task.metadata, or remove group_by.",
        )
    alone = f"{count_tasks(len(lacking))} without {group_by!r} in the metadata"
    return [f"{alone}, each a group of its own: {show_some(lacking)}."]


def _draw(rows: Mapping[str, TaskRow], settings: SplitSettings) -> tuple[_Names, list[str]]:
    """Returns the ids of each split, drawn by the seed, and a warning when sizes are not as asked."""
    n, small = len(rows), settings.allow_small
    if settings.counts is not None:
        asked: Mapping[Split, float] = settings.counts.by_split()
        targets = settings.counts.by_split()
        if sum(targets.values()) > n:
            over = sum(targets.values()) - n
            raise SplitError(
                f"The counts ask for {count_tasks(n + over)} ({show_sizes(targets)}); there are {n}.",
                where="splits.counts",
                fix=f"Ask for {over} fewer, or add {count_tasks(over)}.",
            )
    else:
        asked = (settings.ratios or DEFAULT_RATIOS).by_split()
        targets = largest_remainder(n, asked)
    check_sizes(targets, asked, n, method=settings.method, allow_small=small)
    units = bind_together(settings.seed, {row.id: _ties(row, settings) for row in rows.values()})
    names = fill(units, targets)
    sizes = _sizes(names)
    check_sizes(sizes, asked, n, method=settings.method, allow_small=small, units=len(units))
    if sizes == targets:
        return names, []
    return names, [
        f"Tasks that stay together change the sizes: {show_sizes(sizes)}, not {show_sizes(targets)}."
    ]


def _ties(row: TaskRow, settings: SplitSettings) -> list[tuple[str, str]]:
    """Returns the marks that bind a task to others."""
    ties = [("group", row.group)] if row.group is not None else []
    return [*ties, ("content", row.digest)] if settings.on_duplicate_content == "group" else ties


def _pin(rows: Mapping[str, TaskRow], ids: PerSplit[tuple[str, ...]], *, allow_small: bool) -> _Names:
    """Returns the pinned ids of each split, once every one of them names a task."""
    pinned = ids.by_split()
    unknown: list[tuple[str, Split]] = []
    twice: list[str] = []
    for split in SPLITS:
        counted = Counter(pinned[split])
        twice += [f"{show_id(name)} in {split}" for name, times in counted.items() if times > 1]
        unknown += [(name, split) for name in counted if name not in rows]
    # Only the first few are shown, and looking for near ids is slow.
    shown = [_nearest(*at, rows) if i < SHOWN else at[0] for i, at in enumerate(unknown)]
    faults = [f"no task has the id {show_some(shown)}"] if unknown else []
    faults += [f"pinned twice: {show_some(twice)}"] if twice else []
    if faults:
        raise SplitError(
            f"The pinned ids cannot be used: {'; '.join(faults)}.",
            where="splits.ids",
            fix="Pin ids that tasks() returns, each once per split.",
        )
    sizes = _sizes(pinned)
    check_sizes(sizes, sizes, len(rows), method="ids", allow_small=allow_small)
    return pinned


def _nearest(name: str, split: Split, rows: Mapping[str, TaskRow]) -> str:
    near = difflib.get_close_matches(name, rows, n=1)
    return f"{show_id(name)} (pinned to {split}{', nearest: ' + show_id(near[0]) if near else ''})"


def _check_apart(parts: _Parts, settings: SplitSettings) -> None:
    """Refuses a task, a content or a group that is in two splits."""
    merge = "Pin them to one split" if settings.ids else "Set splits.on_duplicate_content: group"
    rules: tuple[tuple[str, Callable[[TaskRow], str | None], str], ...] = (
        ("The same task is", lambda row: row.id, "Pin each id to one split"),
        ("The same content is", lambda row: row.digest, merge),
        ("Tasks of one group are", lambda row: row.group, "Pin them to one split"),
    )
    for what, key, fix in rules:
        across = _across(parts, key)
        if across:
            raise SplitError(
                f"{what} in more than one split: {show_some(across)}.",
                where=f"splits.{settings.method}",
                fix=f"{fix}; or accept a fit metric with splits.allow_no_holdout: true.",
            )


def _across(parts: _Parts, key: Callable[[TaskRow], str | None]) -> list[str]:
    """Returns, for each key found in several splits, one task of each of them."""
    found: dict[str, dict[Split, str]] = {}
    for split, part in parts.items():
        for row in part:
            mark = key(row)
            if mark is not None:
                found.setdefault(mark, {}).setdefault(split, f"{show_id(row.id)} ({split})")
    return [" and ".join(places.values()) for places in found.values() if len(places) > 1]


def _plan_warnings(plan: SplitPlan) -> list[str]:
    warnings = []
    if not plan.holdout:
        warnings.append(
            "No holdout: test shares tasks or content with train or val; its number is a fit metric."
        )
    if not plan.val_holdout:
        warnings.append("val shares tasks or content with train: the gate judges what the proposer has seen.")
    if plan.unused:
        warnings.append(f"{count_tasks(len(plan.unused))} in no split: {show_some(_shown_ids(plan.unused))}.")
    for name, refs in (("train", plan.train), ("val", plan.val), ("test", plan.test)):
        copies = len(refs) - len({ref.digest for ref in refs})
        if copies:
            warnings.append(
                f"{name} has {count_tasks(copies)} with the content of another one: they count twice."
            )
    return warnings + size_warnings({"train": len(plan.train), "val": len(plan.val), "test": len(plan.test)})


def _shown_ids(refs: Iterable[TaskRef]) -> list[str]:
    return [show_id(ref.id) for ref in refs]


def _shared(some: Iterable[TaskRow], others: Collection[TaskRow]) -> bool:
    """Returns whether any task or content is in both."""
    ids, contents = {row.id for row in others}, {row.digest for row in others}
    return any(row.id in ids or row.digest in contents for row in some)


def _sizes(names: _Names) -> dict[Split, int]:
    return {split: len(names[split]) for split in SPLITS}


def _refs(rows: Iterable[TaskRow]) -> tuple[TaskRef, ...]:
    return tuple(TaskRef(id=row.id, digest=row.digest, cluster=row.cluster) for row in rows)
