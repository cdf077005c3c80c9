"""The exact tail of the within-task permutation statistic when every reward is 0 or 1.

Only counts matter then: relabelling a task's trials makes the candidate's passes hypergeometric. All sums are
of integers, so ties are exact, and tasks of the same trial and pass counts are one term raised to a power.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capevolve.stats.convolution import MAX_ADDITIONS, add_sparse, clip_p, self_convolve

Floats = NDArray[np.float64]
Arms = tuple[Sequence[float], Sequence[float]]
"""The rewards of one task's measured trials: the candidate's, the incumbent's."""

_BINARY = frozenset((0.0, 1.0))


@dataclass(slots=True)
class _Design:
    """The tasks with one pair of trial counts."""

    passed: int
    """Passes of the candidate over all of them."""
    tasks: dict[int, int]
    """Number of tasks by passes of both arms together."""


def binary_tail(tasks: Sequence[Arms]) -> float | None:
    """Returns P(statistic >= observed) over all relabellings within tasks, ties included.

    Formula: the statistic is sum_t (x_t / k_c - y_t / k_i), x and y the passes of the arms. Given the passes
        of both together, x_t is hypergeometric and the statistic sum_t x_t (1/k_c + 1/k_i) up to a constant.

    Args:
        tasks: Both arms' rewards, task by task. Tasks with an empty arm are ignored.

    Undefined: None when a reward is neither 0 nor 1, when no task has both arms, and when trial counts differ
        so much between tasks that the lattice of sums is too wide.
    """
    designs = _count_passes(tasks)
    if not designs:
        return None
    steps = _find_steps(list(designs))
    # In order of the trial counts, so that the order of tasks does not change the last digit.
    ordered = sorted(designs)
    margin = 0
    terms: list[tuple[int, Floats]] = []
    for key in ordered:
        lowest, chances = _sum_passes(*key, designs[key].tasks)
        margin += steps[key] * (designs[key].passed - lowest)
        terms.append((steps[key], chances))
    return _find_tail(terms, margin)


def _count_passes(tasks: Sequence[Arms]) -> dict[tuple[int, int], _Design] | None:
    designs: dict[tuple[int, int], _Design] = {}
    is_binary = _BINARY.issuperset
    for mine, theirs in tasks:
        if not is_binary(mine) or not is_binary(theirs):
            return None
        if not mine or not theirs:
            continue
        key = (len(mine), len(theirs))
        design = designs.get(key)
        if design is None:
            design = designs[key] = _Design(0, defaultdict(int))
        passed = int(sum(mine))
        design.passed += passed
        design.tasks[passed + int(sum(theirs))] += 1
    return designs


def _find_steps(keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Returns what one pass of the candidate weighs at each pair of trial counts, in whole steps."""
    if len(keys) == 1:
        return {keys[0]: 1}
    whole = math.lcm(*(k_c * k_i for k_c, k_i in keys))
    weights = {(k_c, k_i): (k_c + k_i) * (whole // (k_c * k_i)) for k_c, k_i in keys}
    unit = math.gcd(*weights.values())
    return {key: weight // unit for key, weight in weights.items()}


def _sum_passes(k_c: int, k_i: int, tasks: Mapping[int, int]) -> tuple[int, Floats]:
    """Returns the least sum of the candidate's passes over tasks, and the chances from there on."""
    lowest = 0
    chances: Floats = np.ones(1)
    for passes in sorted(tasks):
        count = tasks[passes]
        first, kernel = relabel_passes(k_c, k_i, passes)
        lowest += first * count
        if len(kernel) > 1:
            chances = np.convolve(chances, self_convolve(kernel, count))
    return lowest, chances


@lru_cache(maxsize=4096)
def relabel_passes(k_c: int, k_i: int, passes: int) -> tuple[int, Floats]:
    """Returns the least number of passes that k_c of k_c + k_i trials can have, and all their chances."""
    trials = k_c + k_i
    first = max(0, passes - k_i)
    total = math.comb(trials, k_c)
    ways = [
        math.comb(passes, x) * math.comb(trials - passes, k_c - x) for x in range(first, min(passes, k_c) + 1)
    ]
    chances: Floats = np.array([way / total for way in ways])
    chances.setflags(write=False)
    return first, chances


def _find_tail(terms: Sequence[tuple[int, Floats]], margin: int) -> float | None:
    """Returns P(sum of step * index over the terms >= margin), None when that is too much work."""
    *others, (step, longest) = sorted(terms, key=lambda term: len(term[1]))
    cells, additions = 1, 0
    for stride, chances in others:
        additions += cells * len(chances)
        cells += stride * (len(chances) - 1)
    if additions > MAX_ADDITIONS:
        return None
    sums: Floats = np.ones(1)
    for stride, chances in others:
        sums = add_sparse(sums, range(0, stride * len(chances), stride), chances)
    if not others:
        return clip_p(float(np.sum(longest[margin:])))
    # above[i]: the chance of index i of the longest term or a larger one; nothing is above the last.
    above = np.append(np.cumsum(longest[::-1])[::-1], 0.0)
    needed = np.clip(-((np.arange(len(sums)) - margin) // step), 0, len(longest))
    return clip_p(float(np.sum(sums * above[needed])))
