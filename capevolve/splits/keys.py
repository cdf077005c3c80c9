"""The metadata keys that group and stratify tasks: that they exist, and what is said of tasks without."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from capevolve.errors import SplitError
from capevolve.model import Split
from capevolve.splits.ids import show_id, show_some
from capevolve.splits.plan import SplitSettings, TaskRow
from capevolve.splits.sizes import count_tasks


def check_keys(rows: Collection[TaskRow], settings: SplitSettings, known: Iterable[str]) -> None:
    """Refuses a key that no task has.

    Args:
        known: The keys that tasks have, to be named.

    Raises:
        SplitError: No task has it, or there is one that means nothing beside pinned ids.
    """
    if settings.stratify_key is not None and settings.ids is not None:
        raise SplitError(
            "stratify_key has nothing to spread: pinned ids say where each task goes.",
            where="splits.stratify_key",
            fix="Remove stratify_key, or the pinned ids.",
        )
    keys = {"group_key": settings.group_key, "stratify_key": settings.stratify_key}
    found = {"group_key": [row.group for row in rows], "stratify_key": [row.stratum for row in rows]}
    for name, key in keys.items():
        if key is not None and rows and all(value is None for value in found[name]):
            raise SplitError(
                f"No task has {key!r} in its metadata{_name_known(key, known)}.",
                where=f"splits.{name}",
                fix=f"Name a key that tasks() puts into Task.metadata, or remove {name}.",
            )


def _name_known(key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=2)
    ordered = [*near, *(name for name in names if name not in near)]
    return f"; the keys there are {show_some([show_id(name) for name in ordered])}" if ordered else ""


def describe_ungrouped(
    rows: Iterable[TaskRow], group_key: str | None, hidden: Collection[str] = ()
) -> str | None:
    """Returns the warning of tasks that lack the key that groups; None when there are none.

    Args:
        hidden: Ids that are counted and not named: those of test.
    """
    lacking = [row.id for row in rows if row.group is None]
    if group_key is None or not lacking:
        return None
    alone = f"{count_tasks(len(lacking))} without {group_key!r} in the metadata, each a group of its own"
    shown = [show_id(name) for name in lacking if name not in hidden]
    return f"{alone}: {show_some(shown, len(lacking))}." if shown else f"{alone}."


def stratum_warnings(
    rows: Collection[TaskRow], parts: Mapping[Split, Sequence[TaskRow]], settings: SplitSettings
) -> list[str]:
    """Returns which strata val and test lack, and how many tasks are in the stratum without a name."""
    key = settings.stratify_key
    if key is None:
        return []
    warnings = []
    unnamed = sum(row.stratum is None for row in rows)
    if unnamed:
        warnings.append(f"{count_tasks(unnamed)} without {key!r} in the metadata: a stratum of their own.")
    sizes = Counter(row.stratum for row in rows)
    tested = Counter(row.stratum for row in parts["test"])
    for split in ("val", "test"):
        absent = sizes.keys() - {row.stratum for row in parts[split]}
        if absent and parts[split]:
            # A stratum of test tasks alone may be named after one of them.
            shown = [name for name in absent if tested[name] < sizes[name]]
            shown.sort(key=lambda name: (-sizes[name], name is not None, name or ""))
            what = f"{split} has no task of {len(absent)} of the {len(sizes)} strata of {key!r}"
            names = ["no value" if name is None else show_id(name) for name in shown]
            warnings.append(f"{what}: {show_some(names, len(absent))}." if names else f"{what}.")
    return warnings
