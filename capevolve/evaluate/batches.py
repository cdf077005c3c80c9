"""Puts an evaluation's trials into the calls of a batch hook."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from capevolve.evaluate.flight import Arm
from capevolve.ledger.trials import Claim


def arrange_arm(arm: Arm, hook: str) -> bool:
    """Orders an arm's trials by the calls of its adapter's batch hook; False when none is used."""
    size = arm.pool.call_size()
    if size:
        calls = arrange_calls(arm.todo, size, many_trials=hook == "run_trials")
        arm.todo = deque(claim for call in calls for claim in call)
        arm.calls = {(c.task_id, c.trial): number for number, call in enumerate(calls) for c in call}
    return size > 0


def arrange_calls(claims: Iterable[Claim], size: int, *, many_trials: bool) -> list[tuple[Claim, ...]]:
    """Returns the calls that run these trials, each as full as it can be.

    A call is a block: the same trials of each of its tasks. So it has one seed, or a first one and how many.

    Args:
        claims: The trials in the order in which to run them.
        size: The most trials of a call, at least 1.
        many_trials: True where a call takes several trials of a task (`run_trials`).
    """
    rows: dict[str, list[Claim]] = {}
    for claim in claims:
        rows.setdefault(claim.task_id, []).append(claim)
    blocks: dict[tuple[int, int], list[list[Claim]]] = {}
    for row in rows.values():
        for stretch in _split(sorted(row, key=lambda claim: claim.trial), size if many_trials else 1):
            blocks.setdefault((stretch[0].trial, len(stretch)), []).append(stretch)
    calls = []
    for (_, length), stretches in blocks.items():
        tasks = size // length
        for start in range(0, len(stretches), tasks):
            calls.append(tuple(claim for stretch in stretches[start : start + tasks] for claim in stretch))
    return calls


def _split(row: Sequence[Claim], most: int) -> Iterator[list[Claim]]:
    """Yields the stretches of consecutive trials, none longer than `most`."""
    stretch: list[Claim] = []
    for claim in row:
        if stretch and (len(stretch) == most or claim.trial != stretch[-1].trial + 1):
            yield stretch
            stretch = []
        stretch.append(claim)
    if stretch:
        yield stretch
