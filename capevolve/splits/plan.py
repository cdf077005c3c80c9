"""The values of splitting: tasks and settings in, a plan out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from capevolve.canonical import digest
from capevolve.model import Split, TaskRef

RATIO_TOLERANCE = 1e-6

Method = Literal["ratios", "counts", "ids"]
OnDuplicate = Literal["refuse", "group"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PerSplit(Generic[T]):
    """One value for each split."""

    train: T
    val: T
    test: T

    def by_split(self) -> dict[Split, T]:
        """Returns the values under the names of their splits."""
        return {"train": self.train, "val": self.val, "test": self.test}


DEFAULT_RATIOS = PerSplit(0.5, 0.25, 0.25)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as the splitter sees it.

    Attributes:
        digest: Digest of the task's content without its id; equal digests are duplicate content.
        cluster: Carried into the plan for clustered errors; never moves a task.
        group: Tasks of one group stay in one split; None stands alone.
    """

    id: str
    digest: str
    cluster: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """How to split. At most one of `ratios`, `counts` and `ids`; none means 0.5 / 0.25 / 0.25.

    Attributes:
        group_by: The metadata key that `TaskRow.group` was read from; named in messages.
        allow_no_holdout: Lets splits share tasks or content; the plan then says so.
        allow_small: Lets val have 0 or 1 task, and pinned ids fewer than 4 tasks.
        on_duplicate_content: "refuse" equal content in two splits under different ids, or "group": keep
            such tasks in one split.
    """

    seed: int = 0
    ratios: PerSplit[float] | None = None
    counts: PerSplit[int] | None = None
    ids: PerSplit[tuple[str, ...]] | None = None
    group_by: str | None = None
    allow_no_holdout: bool = False
    allow_small: bool = False
    on_duplicate_content: OnDuplicate = "refuse"

    @property
    def method(self) -> Method:
        """Which of the three ways decides."""
        return "ids" if self.ids is not None else "counts" if self.counts is not None else "ratios"


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Which task is in which split; each split is ordered by task id.

    Attributes:
        holdout: False when test shares a task or content with train or val: its number is a fit metric.
        val_holdout: False when val shares a task or content with train.
        warnings: What a reader of the numbers must know. Not part of the digest.
        unused: Tasks in no split.
    """

    train: tuple[TaskRef, ...]
    val: tuple[TaskRef, ...]
    test: tuple[TaskRef, ...]
    seed: int
    method: Method
    holdout: bool
    val_holdout: bool
    warnings: tuple[str, ...] = ()
    unused: tuple[TaskRef, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the plan: seed, method, and the split, id, content and cluster of every task."""
        parts = {"train": self.train, "val": self.val, "test": self.test, "unused": self.unused}
        listed = {name: [[ref.id, ref.digest, ref.cluster] for ref in refs] for name, refs in parts.items()}
        flags = {"holdout": self.holdout, "val_holdout": self.val_holdout}
        return digest({"seed": self.seed, "method": self.method, **flags, **listed})

    @property
    def test_digest(self) -> str:
        """Digest of the test set's *content*: other ids or another order do not change it."""
        return digest(sorted(ref.digest for ref in self.test))

    @property
    def test_ids_digest(self) -> str:
        """Digest of the test set's ids."""
        return digest(sorted(ref.id for ref in self.test))


def ratio_fault(ratios: PerSplit[float]) -> str | None:
    """Returns what is wrong with ratios (each at least 0, together 1 within 1e-6), or None."""
    values = ratios.by_split().values()
    if not all(math.isfinite(value) and value >= 0 for value in values):
        return "must each be at least 0"
    total = math.fsum(values)
    return None if abs(total - 1) <= RATIO_TOLERANCE else f"must add up to 1, not {total:.6g}"
