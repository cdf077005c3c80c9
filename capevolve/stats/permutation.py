"""Permutation tests of "the candidate is better": exact wherever the rewards allow it.

Both are one-sided, count ties, and give p in (0, 1]. Monte Carlo with a passed seed is left for rewards off
a lattice on more tasks than can be enumerated; the result says which it was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from capevolve.stats.convolution import Term, upper_tail
from capevolve.stats.hypergeometric import Arms, binary_tail
from capevolve.stats.moments import TOLERANCE
from capevolve.stats.splitmix import scale_draws, splitmix64

DRAWS = 20_000
MAX_SUMS = 5_000
"""Different sums of one task's relabellings that are listed."""
FEW_LABELLINGS = 252
"""Up to this many it is faster to go through them than to count them."""


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
    """Returns the sign-flip p-value of "better on tasks like these".

    For 0/1 rewards and one trial it is the exact McNemar test; j tasks better and none worse give 2^-j.

    Formula: the share of all 2^n sign patterns e with sum e_i |d_i| >= sum d_i, ties included

    Args:
        deltas: Paired deltas d_i of independent units, shape (n,): tasks, or sums over clusters of tasks.
        seed: Seeds Monte Carlo, where that is needed: unit i of the units sorted by size takes outputs
            i * draws to (i + 1) * draws - 1 of splitmix64.
        draws: Monte Carlo draws B; the p-value is then (1 + hits) / (1 + B), which is valid too.

    Returns:
        In (0, 1]; 1 when all deltas are 0.

    Undefined: None for no deltas.

    Caution: It carries the claim to new tasks only if these tasks are drawn like the new ones. It assumes
        that without an effect a delta is as likely to be d as -d. With j tasks that differ, p is never below
        2^-j.

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
    """Returns the p-value of "better on these tasks", by relabelling trials at random within each task.

    For 0/1 rewards and equal trial counts it is the exact conditional Cochran-Mantel-Haenszel test, for one
    task Fisher's. From three trials per task on it is the strongest exact test of an improvement.

    Formula: the share of all relabellings with S >= the observed S, ties included;
        S = sum over tasks of mean(candidate) - mean(incumbent)

    Args:
        tasks: Both arms' rewards in [0, 1], task by task: shapes (k_c,) and (k_i,), which may differ between
            tasks. Tasks with an empty arm are ignored.
        seed: Seeds Monte Carlo, where that is needed.
        draws: Monte Carlo draws B; the p-value is then (1 + hits) / (1 + B), which is valid too.

    Returns:
        In (0, 1]; 1 when no relabelling changes anything. `smallest_p` says how small it can get.

    Undefined: None when no task has both arms.

    Caution: It says nothing about new tasks; `sign_flip` does. It needs trials that are independent of each
        other and fresh in both arms: trials that selected the candidate make it too small, and so do arms
        that were run on different days.

    Raises:
        ValueError: A reward is NaN or infinite.

    Source: Cochran (1954); Mantel and Haenszel (1959); Good (2005), stratified permutation.
    """
    counted = binary_tail(tasks)
    if counted is not None:
        return PValue(counted, exact=True)
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

    None when there are too many different sums to list.
    """
    labellings = math.comb(len(pool), chosen)
    if labellings <= FEW_LABELLINGS:
        ways: Mapping[float, int] | None = Counter(map(math.fsum, combinations(pool, chosen)))
    else:
        ways = _count_sums(chosen, pool)
    if ways is None:
        return None
    return Term(tuple(ways), tuple(count / labellings for count in ways.values()))


def _count_sums(chosen: int, pool: tuple[float, ...]) -> dict[float, int] | None:
    """Returns in how many ways each sum of `chosen` values arises, None when the sums are too many.

    Equal values are counted and not told apart, so rewards on a few grades stay short however many trials
    there are.
    """
    left = len(pool)
    ways = {(0, 0.0): 1}
    for value, copies in sorted(Counter(pool).items()):
        left -= copies
        grown: dict[tuple[int, float], int] = {}
        for (taken, total), count in ways.items():
            missing = chosen - taken
            for more in range(max(0, missing - left), min(copies, missing) + 1):
                key = (taken + more, total + more * value)
                grown[key] = grown.get(key, 0) + count * math.comb(copies, more)
        if len(grown) > MAX_SUMS:
            return None
        ways = grown
    return {total: count for (_, total), count in ways.items()}


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
    if not all(map(math.isfinite, values)):
        bad = next(value for value in values if not math.isfinite(value))
        raise ValueError(f"not a finite number: {bad!r}")
