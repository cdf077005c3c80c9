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
OnNear = Literal["warn", "refuse", "ignore"]
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
        stratum: Each stratum is spread over the splits; None is a stratum of its own.
        input_digest: Equal for inputs that case and white space alone tell apart; None compares nothing.
        text: The words of the input, normalised, to look for near duplicates in; None has none.
    """

    id: str
    digest: str
    cluster: str | None = None
    group: str | None = None
    stratum: str | None = None
    input_digest: str | None = None
    text: str | None = None

    @property
    def content(self) -> str:
        """What tasks with the same content have in common: the input, or everything where it says nothing."""
        return self.digest if self.input_digest is None else self.input_digest


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """How to split. At most one of `ratios`, `counts` and `ids`; none means 0.5 / 0.25 / 0.25.

    Attributes:
        group_key: The metadata key that `TaskRow.group` was read from; named in messages.
        stratify_key: The metadata key that `TaskRow.stratum` was read from; None spreads nothing.
        allow_no_holdout: Lets splits share tasks or content; the plan then says so.
        allow_small: Lets val have 0 or 1 task, and pinned ids fewer than 4 tasks.
        on_duplicate_content: "refuse" the same content in two splits under different ids, or "group": keep
            such tasks in one split.
        near_duplicates: "warn" of inputs in two splits that are nearly the same, "refuse" them (unless
            `allow_no_holdout`), or "ignore" them. They never move a task.
    """

    seed: int = 0
    ratios: PerSplit[float] | None = None
    counts: PerSplit[int] | None = None
    ids: PerSplit[tuple[str, ...]] | None = None
    group_key: str | None = None
    stratify_key: str | None = None
    allow_no_holdout: bool = False
    allow_small: bool = False
    on_duplicate_content: OnDuplicate = "refuse"
    near_duplicates: OnNear = "warn"

    @property
    def method(self) -> Method:
        """Which of the three ways decides."""
        return "ids" if self.ids is not None else "counts" if self.counts is not None else "ratios"


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two tasks of different splits that are nearly the same, by their positions in the plan.

    Attributes:
        similarity: Jaccard index of their word shingles, rounded down to hundredths.
    """

    first: int
    second: int
    similarity: float


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """What a search for near duplicates found.

    Attributes:
        pairs: The first of them, one for each task and other split.
        found: For a split and another: how many tasks of the first are nearly the same as one of the other.
        cut: True when the search was cut short, so that there may be more.
    """

    pairs: tuple[NearPair, ...] = ()
    found: tuple[tuple[Split, Split, int], ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """What a plan rests on beside ids, digests and groups: nothing that is kept elsewhere tells it.

    Tasks are named by their position in the plan: train, val, test and unused, each ordered by id, from 0.

    Attributes:
        stratum_names: The strata, sorted.
        strata: For each position its stratum's place in `stratum_names`; None is the stratum without a name.
            Empty when no key stratifies.
        copies: Tasks whose inputs are the same but for case and white space, where their digests differ.
    """

    stratum_names: tuple[str, ...] = ()
    strata: tuple[int | None, ...] = ()
    copies: tuple[tuple[int, ...], ...] = ()
    near: NearDuplicates | None = None


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Which task is in which split; each split is ordered by task id.

    Attributes:
        holdout: False when test shares a task or content with train or val: its number is a fit metric.
        val_holdout: False when val shares a task or content with train.
        warnings: What a reader of the numbers must know. Not part of the digest.
        unused: Tasks in no split.
        marks: What the plan rests on beside that; None is nothing. Not part of the digest.
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
    marks: Marks | None = None

    def places(self) -> list[tuple[Split | Literal["unused"], TaskRef]]:
        """Returns every task with its split, by position."""
        named: tuple[tuple[Split | Literal["unused"], tuple[TaskRef, ...]], ...] = (
            ("train", self.train),
            ("val", self.val),
            ("test", self.test),
            ("unused", self.unused),
        )
        return [(name, ref) for name, refs in named for ref in refs]

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
