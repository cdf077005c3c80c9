"""The splits as a report shows them, with what they share computed from their tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations

from capevolve.ledger.runs import SplitSet
from capevolve.model import TaskRef
from capevolve.report.values import Overlap, SplitFacts
from capevolve.report.wording import clean_line


def describe_splits(
    splits: SplitSet, train: Sequence[TaskRef], val: Sequence[TaskRef], test: Sequence[TaskRef] | None
) -> SplitFacts:
    """Returns the facts of frozen splits.

    Args:
        test: The test tasks; None while they are behind the seal.
    """
    payload = json.loads(splits.payload)
    sizes = dict(splits.sizes)
    known: dict[str, Sequence[TaskRef]] = {"train": train, "val": val}
    if test is not None:
        known["test"] = test
    return SplitFacts(
        train=len(train),
        val=len(val),
        test=sizes.get("test", 0),
        unused=sizes.get("unused", 0),
        seed=int(payload["seed"]),
        method=str(payload["method"]),
        holdout=splits.holdout,
        val_holdout=splits.val_holdout,
        warnings=tuple(clean_line(warning) for warning in splits.warnings),
        digest=splits.digest,
        test_digest=splits.test_digest,
        test_ids_digest=splits.test_ids_digest,
        train_ids=tuple(task.id for task in train),
        val_ids=tuple(task.id for task in val),
        test_ids=None if test is None else tuple(task.id for task in test),
        overlaps=_find_overlaps(known),
    )


def _find_overlaps(splits: Mapping[str, Sequence[TaskRef]]) -> tuple[Overlap, ...]:
    pairs = (
        Overlap(
            first,
            second,
            ids=len({task.id for task in splits[first]} & {task.id for task in splits[second]}),
            contents=len({task.digest for task in splits[first]} & {task.digest for task in splits[second]}),
        )
        for first, second in combinations(splits, 2)
    )
    return tuple(pair for pair in pairs if pair.ids or pair.contents)
