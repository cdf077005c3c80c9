"""Splits tasks, or says why it cannot."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from capevolve.errors import SplitError
from capevolve.model import SPLITS, Split, TaskRef
from capevolve.splits.apart import Parts, add_near, check_apart, share_content, tear_groups
from capevolve.splits.ids import SHOWN, check_task_ids, show_id, show_some
from capevolve.splits.keys import check_keys, describe_ungrouped, stratum_warnings
from capevolve.splits.partition import bind_together, fill, largest_remainder
from capevolve.splits.plan import (
    DEFAULT_RATIOS,
    Marks,
    PerSplit,
    SplitPlan,
    SplitSettings,
    TaskRow,
    ratio_fault,
)
from capevolve.splits.sizes import check_sizes, count_tasks, show_sizes, size_warnings
from capevolve.splits.strata import fill_evenly

_Names = Mapping[Split, Sequence[str]]
_Rows = Mapping[str, TaskRow]


def make_splits(tasks: Iterable[TaskRow], settings: SplitSettings, keys: Iterable[str] = ()) -> SplitPlan:
    """Splits tasks into train, val and test.

    Args:
        tasks: All tasks of the project, in any order.
        settings: How to split them.
        keys: The metadata keys that tasks have; named where a key of the settings is not one of them.

    Returns:
        The same plan, hence the same digest, whenever tasks and settings are the same.

    Raises:
        SplitError: The tasks cannot be split as asked; the message names the sizes and the smallest fix.
    """
    listed = list(tasks)
    check_task_ids(task.id for task in listed)
    rows = _tell_apart({row.id: row for row in sorted(listed, key=lambda row: row.id)})
    _check_settings(settings)
    check_keys(rows.values(), settings, keys)
    if settings.ids is not None:
        names, resized = _pin(rows, settings.ids, allow_small=settings.allow_small), None
    else:
        names, resized = _draw(rows, settings)
    parts: Parts = {split: [rows[name] for name in sorted(names[split])] for split in SPLITS}
    if not settings.allow_no_holdout:
        check_apart(parts, settings)
    used = {row.id for part in parts.values() for row in part}
    unused = [row for row in rows.values() if row.id not in used]
    plan = SplitPlan(
        train=_refs(parts["train"]),
        val=_refs(parts["val"]),
        test=_refs(parts["test"]),
        seed=settings.seed,
        method=settings.method,
        holdout=not share_content(parts["test"], (*parts["train"], *parts["val"])),
        val_holdout=not share_content(parts["val"], parts["train"]),
        unused=_refs(unused),
        marks=_mark([*parts["train"], *parts["val"], *parts["test"], *unused], settings),
    )
    hidden = {ref.id for ref in plan.test}
    first = (describe_ungrouped(rows.values(), settings.group_key, hidden), resized, _describe_torn(parts))
    warnings = [warning for warning in first if warning is not None] + _plan_warnings(plan, parts)
    warnings += stratum_warnings(rows.values(), parts, settings)
    return _look_for_near(replace(plan, warnings=tuple(warnings)), parts, settings)


def _tell_apart(rows: _Rows) -> _Rows:
    """Leaves inputs out of the comparison when all tasks have the same: then they tell nothing apart."""
    inputs = {row.input_digest for row in rows.values()}
    if len(rows) < 2 or len(inputs) > 1 or inputs == {None}:
        return rows
    return {name: replace(row, input_digest=None, text=None) for name, row in rows.items()}


def _look_for_near(plan: SplitPlan, parts: Parts, settings: SplitSettings) -> SplitPlan:
    if settings.near_duplicates == "ignore" or not any(row.text for part in parts.values() for row in part):
        return plan
    from capevolve.splits.near import find_near  # It loads numpy, which whoever only reads a spec need not.

    return add_near(plan, find_near(parts), settings)


def _mark(rows: Sequence[TaskRow], settings: SplitSettings) -> Marks | None:
    """Returns what the plan rests on beside ids, digests and groups; None when that is nothing."""
    marks = Marks()
    if settings.stratify_key is not None:
        names = sorted({row.stratum for row in rows if row.stratum is not None})
        places = {name: place for place, name in enumerate(names)}
        strata = tuple(None if row.stratum is None else places[row.stratum] for row in rows)
        marks = replace(marks, stratum_names=tuple(names), strata=strata)
    alike: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        alike.setdefault(row.content, []).append(position)
    copies = [tuple(some) for some in alike.values() if len({rows[i].digest for i in some}) > 1]
    marks = replace(marks, copies=tuple(copies))
    return None if marks == Marks() else marks


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


def _draw(rows: _Rows, settings: SplitSettings) -> tuple[_Names, str | None]:
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
    if settings.stratify_key is None:
        names = fill(units, targets)
    else:
        names = fill_evenly(units, {row.id: row.stratum for row in rows.values()}, targets, settings.seed)
    sizes = _sizes(names)
    check_sizes(sizes, asked, n, method=settings.method, allow_small=small, units=len(units))
    if sizes == targets:
        return names, None
    return (
        names,
        f"Tasks that stay together change the sizes: {show_sizes(sizes)}, not {show_sizes(targets)}.",
    )


def _ties(row: TaskRow, settings: SplitSettings) -> list[tuple[str, str]]:
    """Returns the marks that bind a task to others."""
    ties = [("group", row.group)] if row.group is not None else []
    return [*ties, ("content", row.content)] if settings.on_duplicate_content == "group" else ties


def _pin(rows: _Rows, ids: PerSplit[tuple[str, ...]], *, allow_small: bool) -> _Names:
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


def _nearest(name: str, split: Split, rows: _Rows) -> str:
    near = difflib.get_close_matches(name, rows, n=1)
    return f"{show_id(name)} (pinned to {split}{', nearest: ' + show_id(near[0]) if near else ''})"


def _describe_torn(parts: Parts) -> str | None:
    return "Tasks of one group are in more than one split." if tear_groups(parts) else None


def _plan_warnings(plan: SplitPlan, parts: Parts) -> list[str]:
    warnings = []
    if not plan.holdout:
        warnings.append(
            "No holdout: test shares tasks or content with train or val; its number is a fit metric."
        )
    if not plan.val_holdout:
        warnings.append("val shares tasks or content with train: the gate judges what the proposer has seen.")
    if plan.unused:
        warnings.append(f"{count_tasks(len(plan.unused))} in no split: {show_some(_shown_ids(plan.unused))}.")
    for name, part in parts.items():
        copies = len(part) - len({row.content for row in part})
        if copies:
            warnings.append(
                f"{name} has {count_tasks(copies)} with the content of another one: they count twice."
            )
    return warnings + size_warnings({"train": len(plan.train), "val": len(plan.val), "test": len(plan.test)})


def _shown_ids(refs: Iterable[TaskRef]) -> list[str]:
    return [show_id(ref.id) for ref in refs]


def _sizes(names: _Names) -> dict[Split, int]:
    return {split: len(names[split]) for split in SPLITS}


def _refs(rows: Iterable[TaskRow]) -> tuple[TaskRef, ...]:
    return tuple(TaskRef(id=row.id, digest=row.digest, cluster=row.cluster) for row in rows)
