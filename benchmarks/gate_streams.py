"""Streams of edits for a simulated run: what each one truly does to the pass rate of each val task.

Seed candidate: task pass rates ~ Beta(.8, .6), so that most tasks nearly always pass or nearly always fail
(mean .57, within-task variance .14). Every candidate edits the incumbent of its moment. Its kind, size and
tasks are drawn beforehand, so every gate meets the same ideas; what they do depends on the incumbent.

- no-op: exactly the incumbent's rates.
- better: mean +m, m ~ U(.02, .10), over a random share U(.2, .6) of the tasks; each of them gains the same
  share of its room up to 1. Where the room is too small the edit does less than m, so late edits gain less.
- worse: mean -m, likewise down to 0.
- trade-off: one random share U(.2, .4) of the tasks gains mean +g, g ~ U(.05, .15), another one loses
  g + d, d ~ U(0, .03): much movement, and a mean at or slightly below 0.

| stream | no-op | better | worse | trade-off |
| --- | --- | --- | --- | --- |
| null | 1 | | | |
| mixed | .5 | .3 | .2 | |
| rich | .2 | .7 | .1 | |
| hostile | .2 | | .4 | .4 |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Kind(StrEnum):
    NOOP = "no-op"
    BETTER = "better"
    WORSE = "worse"
    TRADE = "trade-off"


STREAMS: dict[str, dict[Kind, float]] = {
    "null": {Kind.NOOP: 1.0},
    "mixed": {Kind.NOOP: 0.5, Kind.BETTER: 0.3, Kind.WORSE: 0.2},
    "rich": {Kind.NOOP: 0.2, Kind.BETTER: 0.7, Kind.WORSE: 0.1},
    "hostile": {Kind.NOOP: 0.2, Kind.WORSE: 0.4, Kind.TRADE: 0.4},
}


@dataclass(frozen=True, slots=True)
class Edit:
    """One idea: raise the mean by `gain` on the tasks `up`; lower it by as much and by `excess` on `down`."""

    kind: Kind
    gain: float
    excess: float
    up: Integers
    down: Integers

    def apply(self, rates: Floats) -> Floats:
        """Returns the candidate's pass rates, given the incumbent's."""
        gain = min(self.gain, float(np.sum(1.0 - rates[self.up])) / len(rates))
        loss = min(gain + self.excess, float(np.sum(rates[self.down])) / len(rates))
        if self.kind is Kind.TRADE:
            gain = min(gain, loss)
        edited = rates.copy()
        edited[self.up] += _share(gain, 1.0 - rates[self.up], len(rates)) * (1.0 - rates[self.up])
        edited[self.down] -= _share(loss, rates[self.down], len(rates)) * rates[self.down]
        return edited


def _share(wanted: float, room: Floats, n_tasks: int) -> float:
    total = float(np.sum(room)) / n_tasks
    return min(1.0, wanted / total) if total > 0.0 else 0.0


def draw_seed_rates(n_tasks: int, rng: np.random.Generator) -> Floats:
    return rng.beta(0.8, 0.6, n_tasks)


def draw_edits(stream: str, n_tasks: int, count: int, rng: np.random.Generator) -> list[Edit]:
    """Returns the edits of a run, in order; the first ones are the same whatever `count` is."""
    shares = STREAMS[stream]
    return [_draw_edit(shares, n_tasks, rng) for _ in range(count)]


def _draw_edit(shares: dict[Kind, float], n_tasks: int, rng: np.random.Generator) -> Edit:
    # Every kind uses the same draws, so that edit j does not depend on the kinds before it.
    place, size, width, excess = rng.random(4)
    order = rng.permutation(n_tasks)
    kinds, limits = list(shares), np.cumsum(list(shares.values()))
    kind = kinds[min(int(np.searchsorted(limits, place, side="right")), len(kinds) - 1)]
    none = order[:0]
    if kind is Kind.TRADE:
        count = max(1, round((0.2 + 0.2 * width) * n_tasks))
        gain = 0.05 + 0.10 * size
        return Edit(kind, gain, 0.03 * excess, order[:count], order[count : 2 * count])
    count = max(1, round((0.2 + 0.4 * width) * n_tasks))
    amount = 0.02 + 0.08 * size
    if kind is Kind.BETTER:
        return Edit(kind, amount, 0.0, order[:count], none)
    if kind is Kind.WORSE:
        return Edit(kind, 0.0, amount, none, order[:count])
    return Edit(kind, 0.0, 0.0, none, none)
