"""Permutation tests of "the candidate is better": exact wherever the rewards allow it.

Both are one-sided, count ties, and give p in (0, 1]. Monte Carlo with a passed seed is left for rewards off
a lattice on more tasks than can be enumerated; the result says which it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from capevolve.stats.convolution import Term, upper_tail
from capevolve.stats.moments import TOLERANCE
from capevolve.stats.splitmix import scale_draws, splitmix64

DRAWS = 20_000
MAX_LABELLINGS = 5_000

Arms = tuple[Sequence[float], Sequence[float]]
"""The rewards of one task's measured trials: the candidate's, the incumbent's."""


@dataclass(frozen=True, slots=True)
class PValue:
    """A one-sided p-value in (0, 1].

    Attributes:
        value: The p-value.
        exact: False when it was estimated by Monte Carlo, (1 + hits) / (1 + draws).
    """

    value: float
    exact: bool


def sign_flip(deltas: Sequence[float], *, seed: int = 0, draws: int = DRAWS) -> PValue | None:
    """Returns the sign-flip p-value: the share of all 2^n sign patterns whose sum reaches the observed one.

    The task-level test of "better on tasks like these". For 0/1 rewards and one trial it is exact McNemar.

    Args:
        deltas: Paired deltas of independent units, shape (n,): tasks, or sums over clusters of tasks.
        seed: Seeds Monte Carlo, where that is needed: unit i of the units sorted by size takes outputs
            i * draws to (i + 1) * draws - 1 of splitmix64.
        draws: Monte Carlo draws.

    Returns:
        None for no deltas; 1 when all are 0.

    Raises:
        ValueError: A delta is NaN or infinite.

    Source: Fisher (1935); exact by convolution, Pagano and Tritchler (1983).
    """
    _check_finite(deltas)
    if not deltas:
        return None
    sizes = sorted(abs(delta) for delta in deltas if delta != 0.0)
    # The sum is 2 * (sum of the positive part) - constant, so the positive part is the statistic.
    observed = math.fsum(delta for delta in deltas if delta > 0.0)
    p = upper_tail([Term((0.0, size), (0.5, 0.5)) for size in sizes], observed)
    if p is not None:
        return PValue(p, exact=True)
    sums = np.zeros(draws)
    for index, size in enumerate(sizes):
        sums += size * (splitmix64(seed, index * draws, draws) >> np.uint64(63))
    return _monte_carlo(sums, observed, math.fsum(sizes))


def within_task_permutation(tasks: Sequence[Arms], *, seed: int = 0, draws: int = DRAWS) -> PValue | None:
    """Returns the p-value of relabelling trials at random within each task.

    The statistic is the sum over tasks of mean(candidate) - mean(incumbent). For 0/1 rewards and equal trial
    counts this is the exact conditional Cochran-Mantel-Haenszel test. It claims "better on these tasks";
    `sign_flip` carries the claim to new tasks.

    Args:
        tasks: Both arms' rewards, task by task. Tasks with an empty arm are ignored.
        seed: Seeds Monte Carlo, where that is needed.
        draws: Monte Carlo draws.

    Returns:
        None when no task has both arms; 1 when no relabelling changes anything.

    Raises:
        ValueError: A reward is NaN or infinite.

    Source: Mantel and Haenszel (1959); Good (2005), stratified permutation.
    """
    _check_finite([reward for mine, theirs in tasks for reward in (*mine, *theirs)])
    # In a canonical order, so that neither tasks nor trials given in another order change a Monte Carlo draw.
    paired = sorted((sorted(mine), sorted(theirs)) for mine, theirs in tasks if mine and theirs)
    if not paired:
        return None
    moving = [_weigh(mine, theirs) for mine, theirs in paired if len({*mine, *theirs}) > 1]
    observed = math.fsum(value for mine, _ in moving for value in mine)
    known: dict[tuple[int, tuple[float, ...]], Term | None] = {}
    terms = []
    for mine, theirs in moving:
        key = (len(mine), tuple(sorted((*mine, *theirs))))
        if key not in known:
            known[key] = _relabel(*key)
        term = known[key]
        if term is not None:
            terms.append(term)
    p = upper_tail(terms, observed) if len(terms) == len(moving) else None
    if p is not None:
        return PValue(p, exact=True)
    return _draw_labels(moving, observed, seed, draws)


def _weigh(mine: Sequence[float], theirs: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns rewards scaled so that the sum of the candidate's is the task's statistic, up to a constant.

    mean_c - mean_i = x_c (1/k_c + 1/k_i) - total / k_i, x_c the candidate's sum. Rewards are counted from
    the lowest of the pool, which changes the constant only and keeps the lattice small.
    """
    weight = (len(mine) + len(theirs)) / (len(mine) * len(theirs))
    lowest = min(*mine, *theirs)
    return [(r - lowest) * weight for r in mine], [(r - lowest) * weight for r in theirs]


def _relabel(chosen: int, pool: tuple[float, ...]) -> Term | None:
    """Returns the distribution of the sum of `chosen` values drawn from the pool without replacement.

    None when the pool is graded and has too many labellings to list.
    """
    total = math.comb(len(pool), chosen)
    distinct = sorted(set(pool))
    if len(distinct) == 2:
        # Two values, the lower one 0: hypergeometric.
        high = pool.count(distinct[1])
        low = len(pool) - high
        counts = range(max(0, chosen - low), min(high, chosen) + 1)
        ways = [math.comb(high, x) * math.comb(low, chosen - x) for x in counts]
        return Term(tuple(x * distinct[1] for x in counts), tuple(way / total for way in ways))
    if total > MAX_LABELLINGS:
        return None
    shares: dict[float, int] = {}
    for labels in combinations(pool, chosen):
        value = math.fsum(labels)
        shares[value] = shares.get(value, 0) + 1
    return Term(tuple(shares), tuple(way / total for way in shares.values()))


def _draw_labels(
    moving: Sequence[tuple[list[float], list[float]]], observed: float, seed: int, draws: int
) -> PValue:
    """Estimates the p-value by choosing each task's candidate trials one after the other.

    A trial is chosen with probability (still to choose) / (still to come), which makes every labelling
    equally likely; the j-th trial overall takes outputs j * draws to (j + 1) * draws - 1.
    """
    sums = np.zeros(draws)
    start = 0
    for mine, theirs in moving:
        pool = sorted((*mine, *theirs))
        needed = np.full(draws, len(mine), dtype=np.uint64)
        for seen, value in enumerate(pool):
            picked = scale_draws(splitmix64(seed, start, draws), len(pool) - seen) < needed
            needed -= picked
            sums += value * picked
            start += draws
    top = math.fsum(value for mine, theirs in moving for value in (*mine, *theirs))
    return _monte_carlo(sums, observed, top)


def _monte_carlo(sums: np.ndarray[tuple[int], np.dtype[np.float64]], observed: float, top: float) -> PValue:
    hits = int(np.count_nonzero(sums >= observed - TOLERANCE * top))
    return PValue((1 + hits) / (1 + len(sums)), exact=False)


def _check_finite(values: Sequence[float]) -> None:
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"not a finite number: {value!r}")
