"""Stratified splitting: every stratum spread over the splits in the same shares, as evenly as sizes allow."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Literal

from capevolve.model import SPLITS, Split
from capevolve.splits.partition import FAVOURED, is_filled, rank

Unit = Sequence[str]
"""Ids that stay together."""

_Column = Literal["train", "val", "test", "unused"]
_COLUMNS: tuple[_Column, ...] = (*FAVOURED, "unused")


def share_out(sizes: Sequence[int], targets: Sequence[int]) -> list[list[int]]:
    """Returns how many tasks of each stratum go into each column.

    Largest remainders inside each stratum, then the cheapest moves that make the columns exact: rows add up
    to their sizes, columns to their targets, no cell is a whole task away from its ideal share
    `size * target / n`, and the squared deviations are the least possible. Ties are settled by the order of
    strata and columns.

    Source: controlled rounding of a two-way table (Cox 1987), here as a minimum-cost flow.

    Args:
        sizes: Tasks per stratum.
        targets: Tasks per column; together as many as the strata have.
    """
    return _Rounding(sizes, targets).settle()


class _Rounding:
    """Whole numbers for shares: each cell is rounded down, or up where it is `raised`."""

    def __init__(self, sizes: Sequence[int], targets: Sequence[int]) -> None:
        n, columns = max(1, sum(sizes)), range(len(targets))
        self.floors = [[size * target // n for target in targets] for size in sizes]
        self.rests = [[size * target % n for target in targets] for size in sizes]
        self.raised = [[False for _ in columns] for _ in sizes]
        for row, size in enumerate(sizes):
            lacking = size - sum(self.floors[row])
            for column in sorted(columns, key=lambda c: -self.rests[row][c])[:lacking]:
                self.raised[row][column] = True
        cells = self._cells()
        self.lacks = [target - sum(row[c] for row in cells) for c, target in enumerate(targets)]
        self.paths = [path for length in columns[1:] for path in permutations(columns, length + 1)]
        # For each pair of columns the rows that can move a task from one to the other, cheapest first; a row
        # that meanwhile cannot is dropped when it is met.
        self.moves: dict[tuple[int, int], list[tuple[int, int]]] = {p: [] for p in permutations(columns, 2)}
        for row, pair in ((row, pair) for row in range(len(sizes)) for pair in self.moves):
            self._offer(row, pair)

    def settle(self) -> list[list[int]]:
        while any(self.lacks):
            # There is one: the exact shares are a fractional solution, so a whole one exists.
            _, _, path = min(found for path in self.paths if (found := self._price(path)) is not None)
            for pair in pairwise(path):
                self._move(pair)
            self.lacks[path[0]] += 1
            self.lacks[path[-1]] -= 1
        return self._cells()

    def _price(self, path: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]] | None:
        """What it costs to move a task along a path from a full column to a lacking one."""
        if self.lacks[path[0]] >= 0 or self.lacks[path[-1]] <= 0:
            return None
        steps = [self._cheapest(pair) for pair in pairwise(path)]
        costs = [step[0] for step in steps if step is not None]
        return (sum(costs), len(path), path) if len(costs) == len(steps) else None

    def _cheapest(self, pair: tuple[int, int]) -> tuple[int, int] | None:
        moves = self.moves[pair]
        while moves and not self._can_move(moves[0][1], pair):
            heapq.heappop(moves)
        return moves[0] if moves else None

    def _can_move(self, row: int, pair: tuple[int, int]) -> bool:
        source, goal = pair
        raised = self.raised[row]
        return raised[source] and not raised[goal] and self.rests[row][goal] > 0

    def _offer(self, row: int, pair: tuple[int, int]) -> None:
        if self._can_move(row, pair):
            cost = self.rests[row][pair[0]] - self.rests[row][pair[1]]
            heapq.heappush(self.moves[pair], (cost, row))

    def _move(self, pair: tuple[int, int]) -> None:
        self._cheapest(pair)  # An earlier step of the path may have left what cannot move on top.
        _, row = heapq.heappop(self.moves[pair])
        source, goal = pair
        self.raised[row][source], self.raised[row][goal] = False, True
        for other in self.moves:
            if other[0] == goal or other[1] == source:
                self._offer(row, other)

    def _cells(self) -> list[list[int]]:
        return [
            [floor + up for floor, up in zip(floors, raised, strict=True)]
            for floors, raised in zip(self.floors, self.raised, strict=True)
        ]


def fill_evenly(
    units: Sequence[Unit], strata: Mapping[str, str | None], targets: Mapping[Split, int], seed: int
) -> dict[Split, list[str]]:
    """Gives each unit to a split so that strata are spread alike; what is beyond the targets goes nowhere.

    A unit counts with all its ids as the stratum that most of them have. Units of one id meet the shares of
    `share_out` exactly. Larger ones are given, in order, to the split that lacks most of their stratum, and
    what a stratum got too much or too little of is made good in the next; a split may then miss its target
    as it may without strata.

    Args:
        units: In the order of the seed.
        strata: The stratum of each id; None is a stratum too.
    """
    parts = _fill_in_order(units, strata, targets, seed)
    if is_filled(parts, targets):
        return parts
    return _fill_in_order(sorted(units, key=len, reverse=True), strata, targets, seed)


def _fill_in_order(
    units: Iterable[Unit], strata: Mapping[str, str | None], targets: Mapping[Split, int], seed: int
) -> dict[Split, list[str]]:
    by_stratum: dict[str | None, list[Unit]] = {}
    for unit in units:
        by_stratum.setdefault(_majority(unit, strata), []).append(unit)
    names = sorted(by_stratum, key=lambda name: rank(seed, name))
    sizes = [sum(map(len, by_stratum[name])) for name in names]
    wanted = [*(targets[split] for split in FAVOURED), sum(sizes) - sum(targets.values())]
    shares = dict(zip(names, share_out(sizes, wanted), strict=True))
    given: dict[_Column, list[Unit]] = {column: [] for column in _COLUMNS}
    carried = [0 for _ in _COLUMNS]
    # Strata of small units come last: they make good what large units could not.
    for name in sorted(names, key=lambda name: max(map(len, by_stratum[name])), reverse=True):
        carried = [lack + share for lack, share in zip(carried, shares[name], strict=True)]
        for unit in by_stratum[name]:
            lacking = max(range(len(_COLUMNS)), key=carried.__getitem__)
            given[_COLUMNS[lacking]].append(unit)
            carried[lacking] -= len(unit)
    return _top_up(given, targets)


def _top_up(given: Mapping[_Column, Iterable[Unit]], targets: Mapping[Split, int]) -> dict[Split, list[str]]:
    """Gives unused units to splits that are still short of their targets."""
    parts = {split: [name for unit in given[split] for name in unit] for split in SPLITS}
    for unit in given["unused"]:
        lacking = max(FAVOURED, key=lambda split: targets[split] - len(parts[split]))
        if len(parts[lacking]) < targets[lacking]:
            parts[lacking].extend(unit)
    return parts


def _majority(unit: Unit, strata: Mapping[str, str | None]) -> str | None:
    """The stratum that most ids have; of several, the first by name, with none at all before any name."""
    counted = Counter(strata[name] for name in unit)
    return min(counted, key=lambda name: (-counted[name], name is not None, name or ""))
