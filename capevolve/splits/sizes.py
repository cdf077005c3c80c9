"""How small a split may be: what is refused, what is only warned of, and the smallest fix."""

from __future__ import annotations

from collections.abc import Mapping

from capevolve.errors import SplitError
from capevolve.model import SPLITS, Split
from capevolve.splits.partition import largest_remainder
from capevolve.splits.plan import Method

Sizes = Mapping[Split, int]

MIN_TASKS = 4
MIN_VAL = 2
"""With fewer val tasks a paired gate has no standard error."""
LOW_CONFIDENCE_VAL = 5
INDICATIVE_TEST = 8
_SEARCHED = 5000


def show_sizes(sizes: Sizes) -> str:
    """Returns `train/val/test = 5/3/2`."""
    return "train/val/test = " + "/".join(str(sizes[split]) for split in SPLITS)


def count_tasks(n: int) -> str:
    """Returns `1 task`, `2 tasks`."""
    return f"{n} task" if n == 1 else f"{n} tasks"


def check_sizes(
    sizes: Sizes,
    asked: Mapping[Split, float],
    n: int,
    *,
    method: Method,
    allow_small: bool,
    units: int | None = None,
) -> None:
    """Refuses splits too small to fit, select or estimate with.

    Args:
        sizes: Tasks per split.
        asked: The ratios, counts or pinned sizes: a split that asked for more than 0 may not be empty.
        n: Tasks in all.
        units: Sets of tasks that stay together, once they have been given out.

    Raises:
        SplitError: A rule is broken; the message names the sizes and the smallest fix.
    """
    wanted = [split for split in SPLITS if asked[split] > 0]
    empty = [split for split in wanted if sizes[split] == 0]
    faults = []
    if n < MIN_TASKS and len(wanted) == len(SPLITS) and not (method == "ids" and allow_small):
        faults.append("three splits need at least 4 tasks")
    if empty:
        faults.append(f"{' and '.join(empty)} would get no task")
    if sizes["test"] == 0 and "test" not in empty:
        faults.append("test is empty, so nothing would be estimated")
    if sizes["val"] < MIN_VAL and "val" not in empty and not allow_small:
        faults.append(f"val has {count_tasks(sizes['val'])} and a gate needs at least {MIN_VAL}")
    if not faults:
        return
    if units is not None:
        fix = f"The tasks stay together in {units} sets: use a finer splits.group_key, or pin splits.ids."
    elif method == "ids":
        fix = "Pin at least 2 val ids and 1 test id; splits.allow_small: true goes on without a sound gate."
    else:
        fix = _smallest_fix(asked, n, ratios=method == "ratios")
    raise SplitError(
        f"{count_tasks(n)} cannot be split as asked: {'; '.join(faults)} ({show_sizes(sizes)}).",
        where=f"splits.{method}",
        fix=fix,
    )


def size_warnings(sizes: Sizes) -> list[str]:
    """Returns what small splits mean for the numbers."""
    warnings = []
    if sizes["train"] == 0:
        warnings.append("train is empty: the proposer gets no evidence.")
    if sizes["val"] == 0:
        warnings.append("val is empty: no gate can judge a proposal.")
    elif sizes["val"] < LOW_CONFIDENCE_VAL:
        warnings.append(f"val has {count_tasks(sizes['val'])}: verdicts are of low confidence.")
    if sizes["test"] < INDICATIVE_TEST:
        warnings.append(f"test has {count_tasks(sizes['test'])}: the final number is indicative.")
    return warnings


def _smallest_fix(asked: Mapping[Split, float], n: int, *, ratios: bool) -> str:
    """Returns the fewest tasks to add at these ratios, and the counts that work with the tasks there are."""
    lacking = max(0, MIN_TASKS - n)
    counts = f"splits.counts to {{train: {n + lacking - 3}, val: 2, test: 1}}"
    more = f"Add {count_tasks(lacking)} and set {counts}" if lacking else f"Set {counts}"
    enough = _enough(asked, n) if ratios else None
    return f"{more}; or add {count_tasks(enough - n)} and keep the ratios." if enough else f"{more}."


def _enough(ratios: Mapping[Split, float], n: int) -> int | None:
    """Returns the fewest tasks, above n, that these ratios can split; None when there is no such number."""
    if not (ratios["val"] > 0 and ratios["test"] > 0):
        return None
    for more in range(max(n + 1, MIN_TASKS), n + _SEARCHED):
        sizes = largest_remainder(more, ratios)
        if sizes["val"] >= MIN_VAL and sizes["test"] and all(sizes[s] for s in SPLITS if ratios[s] > 0):
            return more
    return None
