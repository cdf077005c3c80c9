"""What must not be in two splits, and how it is told: no id of a test task that was drawn leaves here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from capevolve.errors import SplitError
from capevolve.model import Split
from capevolve.splits.ids import show_id, show_some
from capevolve.splits.plan import Marks, NearDuplicates, SplitPlan, SplitSettings, TaskRow

Parts = Mapping[Split, Sequence[TaskRow]]


def check_apart(parts: Parts, settings: SplitSettings) -> None:
    """Refuses a task, a content or a group that is in two splits.

    Raises:
        SplitError: There is one. Tasks are named; those of test only where the user pinned them there.
    """
    merge = "Pin them to one split" if settings.ids else "Set splits.on_duplicate_content: group"
    apart = f"Put what makes the tasks differ for the agent into Task.input, or {merge[0].lower()}{merge[1:]}"
    rules: tuple[tuple[str, Callable[[TaskRow], str | None], str], ...] = (
        ("The same task is", lambda row: row.id, "Pin each id to one split"),
        ("The same content is", lambda row: row.digest, merge),
        ("The same input (but for case and white space) is", lambda row: row.input_digest, apart),
        ("Tasks of one group are", lambda row: row.group, "Pin them to one split"),
    )
    for what, key, fix in rules:
        across = _across(parts, key, hide_test=settings.ids is None)
        if across:
            raise SplitError(
                f"{what} in more than one split: {show_some(across)}.",
                where=f"splits.{settings.method}",
                fix=f"{fix}; or accept a fit metric with splits.allow_no_holdout: true.",
            )


def tear_groups(parts: Parts) -> bool:
    """Returns whether tasks of one group are in several splits."""
    return bool(_across(parts, lambda row: row.group, hide_test=True))


def share_content(some: Iterable[TaskRow], others: Collection[TaskRow]) -> bool:
    """Returns whether any task or content is in both."""
    ids, contents = {row.id for row in others}, {row.content for row in others}
    return any(row.id in ids or row.content in contents for row in some)


def _across(parts: Parts, key: Callable[[TaskRow], str | None], *, hide_test: bool) -> list[str]:
    """Returns, for each key found in several splits, one task of each of them."""
    found: dict[str, dict[Split, str]] = {}
    for split, part in parts.items():
        for row in part:
            mark = key(row)
            if mark is not None:
                hidden = hide_test and split == "test"
                name = "a test task" if hidden else f"{show_id(row.id)} ({split})"
                found.setdefault(mark, {}).setdefault(split, name)
    return [" and ".join(places.values()) for places in found.values() if len(places) > 1]


def add_near(plan: SplitPlan, near: NearDuplicates | None, settings: SplitSettings) -> SplitPlan:
    """Returns the plan with what was found of near duplicates, and with the warnings of them.

    Raises:
        SplitError: There are some and they are to be refused.
    """
    if near is None or settings.near_duplicates == "ignore":
        return plan
    warnings = _describe_near(plan, near)
    if near.found and settings.near_duplicates == "refuse" and not settings.allow_no_holdout:
        raise SplitError(
            " ".join(warnings),
            where="splits.near_duplicates",
            fix="Rewrite or remove one of each two, or let them be with splits.near_duplicates: warn.",
        )
    marks = replace(plan.marks or Marks(), near=near)
    return replace(plan, marks=marks, warnings=(*plan.warnings, *warnings))


def _describe_near(plan: SplitPlan, near: NearDuplicates) -> list[str]:
    places = plan.places()

    def name(position: int) -> str:
        split, ref = places[position]
        return f"a test task (position {position})" if split == "test" else f"{show_id(ref.id)} ({split})"

    warnings = []
    for split, other, count in near.found:
        size = sum(place == split for place, _ in places)
        pairs = [
            f"{name(pair.first)} and {name(pair.second)}, {pair.similarity:.2f}"
            for pair in near.pairs
            if (places[pair.second][0], places[pair.first][0]) == (split, other)
        ]
        more = [f"and {count - len(pairs)} more"] if count > len(pairs) else []
        repeats = "repeats" if count == 1 else "repeat"
        warnings.append(
            f"{count} of {size} {split} tasks nearly {repeats} the input of a {other} task (with the "
            f"similarity of their word shingles): {'; '.join([*pairs, *more])}."
        )
    if near.cut:
        warnings.append("The search for near duplicates was cut short: there may be more.")
    return warnings
