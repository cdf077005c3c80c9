"""What a design can resolve, before anything is spent on it.

All tests are one-sided at level `alpha`. MDE is the minimal detectable effect: the true improvement that is
found with the wanted power.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from capevolve.model import Measurement
from capevolve.stats.distributions import noncentral_t_cdf, normal_quantile, t_quantile
from capevolve.stats.moments import find_mean, sample_variance


@dataclass(frozen=True, slots=True)
class PlanningVariance:
    """The within-task variance of one trial that a plan rests on.

    Attributes:
        value: In [0, 0.25].
        source: `measured` on tasks with two or more trials, or `bound`: x (1 - x), the most that rewards in
            [0, 1] of mean x can vary, a cautious guess.
    """

    value: float
    source: Literal["measured", "bound"]


def planning_variance(measurement: Measurement | None = None) -> PlanningVariance:
    """Returns the mean within-task variance of a measurement, or its bound where that is unknown.

    Args:
        measurement: A measurement of the same target, if there is one. With no trial measured the bound is
            that of x = 0.5, which is 0.25.
    """
    tasks = () if measurement is None else measurement.tasks
    known = [v for task in tasks if (v := sample_variance(task.rewards)) is not None]
    value = find_mean(known)
    if value is not None:
        return PlanningVariance(value, "measured")
    means = [m for task in tasks if (m := find_mean(task.rewards)) is not None]
    x = find_mean(means)
    return PlanningVariance(0.25 if x is None else x * (1.0 - x), "bound")


def planning_se(variance: float, k_candidate: int, k_incumbent: int, n_tasks: int) -> float | None:
    """Returns the standard error to expect of a paired delta on these tasks: sqrt(v (1/k_c + 1/k_i) / n).

    Args:
        variance: Mean within-task variance v of one trial.
        k_candidate, k_incumbent: Trials per task of each arm.
        n_tasks: Tasks n.

    Returns:
        None when a count is below 1.
    """
    if min(k_candidate, k_incumbent, n_tasks) < 1:
        return None
    return math.sqrt(variance * (1 / k_candidate + 1 / k_incumbent) / n_tasks)


def minimal_effect(se: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Returns the MDE of a normal test with known standard error: (z_{1-alpha} + z_power) se."""
    return (normal_quantile(1.0 - alpha) + normal_quantile(power)) * se


def trials_needed(
    effect: float, variance: float, n_tasks: int, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Returns the trials per task and arm for which the MDE is `effect`; round up.

    k = 2 v (z_{1-alpha} + z_power)^2 / (n effect^2). None when the effect is not positive or n is 0.
    """
    if effect <= 0.0 or n_tasks < 1:
        return None
    return 2.0 * variance * minimal_effect(1.0, alpha, power) ** 2 / (n_tasks * effect**2)


def t_power(delta: float, sd: float, n: int, alpha: float = 0.05) -> float | None:
    """Returns the power of the one-sided paired t test, by the noncentral t distribution.

    Args:
        delta: True mean delta over tasks like these.
        sd: True standard deviation of the deltas between tasks.
        n: Tasks (or clusters).
        alpha: Level of the test.

    Returns:
        None for n < 2 or sd = 0.
    """
    if n < 2 or sd <= 0.0:
        return None
    return 1.0 - noncentral_t_cdf(t_quantile(1.0 - alpha, n - 1), n - 1, delta * math.sqrt(n) / sd)


def t_minimal_effect(sd: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Returns the MDE of the one-sided paired t test; None for n < 2 or sd = 0. Needs power > alpha."""
    if n < 2 or sd <= 0.0:
        return None
    if not alpha < power < 1.0:
        raise ValueError("power must lie between alpha and 1")
    low, high = 0.0, sd
    while (reached := t_power(high, sd, n, alpha)) is not None and reached < power:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        reached = t_power(middle, sd, n, alpha)
        if reached is not None and reached < power:
            low = middle
        else:
            high = middle
    return high
