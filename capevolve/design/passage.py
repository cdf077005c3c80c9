"""The chance to pass stages that look again and again at a growing sum of trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from capevolve.stats import normal_cdf, normal_quantile

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_FAR = 6.0
"""Standard deviations beyond which nothing happens."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One look at all trials so far.

    Attributes:
        share: Of all the trials of these stages, those made by its end, in (0, 1].
        accept_at: The one-sided p-value that passes them all; None for a stage that only rejects.
        reject_above: A larger p-value ends in rejection.
    """

    share: float
    accept_at: float | None
    reject_above: float


def find_passage(stages: Sequence[Stage], effect: float) -> float:
    """Returns the chance that a candidate passes a sequence of stages.

    Formula: recursive integration over the sum S(t) of the trials so far, Brownian motion with drift
        `effect`, seen at the shares t with Z = S(t) / sqrt(t)

    Args:
        stages: With growing shares, the last one 1; the last one accepts what it does not reject.
        effect: True improvement in standard errors of the delta over all trials.

    Returns:
        In [0, 1].

    Undefined: never.

    Caution: A normal approximation, as of `stats.minimal_effect`: permutation tests on few tasks are coarser.

    Source: Armitage, McPherson and Rowe (1969).
    """
    passed, before = 0.0, 0.0
    nodes, mass = np.zeros(1), np.ones(1)
    for number, stage in enumerate(stages):
        drift, sd = effect * (stage.share - before), math.sqrt(stage.share - before)
        before = stage.share
        scale = math.sqrt(stage.share)
        last = number == len(stages) - 1
        low = _find_bar(stage.reject_above) * scale
        accept_at = stage.reject_above if last and stage.accept_at is None else stage.accept_at
        high = math.inf if accept_at is None else _find_bar(accept_at) * scale
        if accept_at is not None:
            reached = [normal_cdf((float(node) + drift - high) / sd) for node in nodes]
            passed += float(np.dot(mass, reached))
        low = max(low, effect * stage.share - _FAR * scale)
        high = min(high, effect * stage.share + _FAR * scale)
        if last or low >= high:
            return passed
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        following = middle + half * _NODES
        steps = (following[:, None] - nodes[None, :] - drift) / sd
        density = np.exp(-0.5 * steps**2) / (sd * math.sqrt(2.0 * math.pi))
        nodes, mass = following, half * _WEIGHTS * (density @ mass)
    return passed


def _find_bar(p: float) -> float:
    """The quantile that a standard normal exceeds with chance p; p = 1 stops nobody."""
    return -math.inf if p >= 1.0 else normal_quantile(1.0 - p)


def find_smallest(chance: Callable[[float], float], power: float, high: float) -> float:
    """Returns the smallest x in [0, high] whose chance, which grows with x, is at least `power`.

    Returns:
        Within 1e-6 of `high`, from above; `high` itself where even its chance is less.
    """
    low, top = 0.0, high
    while top - low > 1e-6 * high:
        middle = 0.5 * (low + top)
        low, top = (low, middle) if chance(middle) >= power else (middle, top)
    return top


def find_raced_tasks(n_tasks: int, n_raced: int, fewest: int, power: float) -> int | None:
    """Returns how many of the tasks must change so that enough of them race with a chance of `power`.

    Args:
        n_tasks: Tasks, of which `n_raced` are drawn at random to race.
        n_raced: Tasks of the race.
        fewest: Changed tasks that the race must hold.
        power: In (0, 1).

    Undefined: None when not even changing all of them is enough.
    """
    draws = _log_choose(n_tasks, n_raced)
    for changed in range(fewest, n_tasks + 1):
        missed = sum(
            math.exp(_log_choose(changed, held) + _log_choose(n_tasks - changed, n_raced - held) - draws)
            for held in range(max(0, n_raced - n_tasks + changed), min(fewest, changed + 1, n_raced + 1))
        )
        if 1.0 - missed >= power:
            return changed
    return None


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
