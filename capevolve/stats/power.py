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
        value: In the unit of a squared reward.
        source: `measured` on tasks with two or more trials, or `bound`: x (1 - x), the most that rewards in
            [0, 1] of mean x can vary, a cautious guess.
    """

    value: float
    source: Literal["measured", "bound"]


def planning_variance(measurement: Measurement | None = None) -> PlanningVariance:
    """Returns the within-task variance of one trial to plan with, or its bound where that is unknown.

    Formula: v = the mean over tasks of sum (r - m)^2 / (k - 1); the bound: x (1 - x), x the mean reward

    Args:
        measurement: A measurement of the same target, if there is one; rewards in [0, 1].

    Returns:
        In [0, 0.5], with its source. Without a measured trial the bound is that of x = 0.5, which is 0.25.

    Undefined: never: where no task has two trials the bound is given, and labelled.

    Caution: The bound asks for more trials than are needed whenever tasks differ in difficulty. A measured
        value from few tasks is rough, and another target has another one.

    Source: Bhatia and Davis (2000), the bound; Cochran (1977), the mean within-stratum variance.
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
    """Returns the standard error to expect of a paired delta on these tasks.

    Formula: sqrt(v (1 / k_c + 1 / k_i) / n)

    Args:
        variance: Mean within-task variance v of one trial.
        k_candidate: Trials per task k_c of the candidate.
        k_incumbent: Trials per task k_i of the incumbent.
        n_tasks: Tasks n.

    Undefined: None when a count is below 1.

    Caution: For these tasks only. For new tasks the spread of the true deltas between tasks comes on top; see
        `t_power`.

    Source: Cochran (1977), stratified sampling.
    """
    if min(k_candidate, k_incumbent, n_tasks) < 1:
        return None
    return math.sqrt(variance * (1 / k_candidate + 1 / k_incumbent) / n_tasks)


def minimal_effect(se: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Returns the smallest true improvement that a test with this standard error finds (MDE).

    Formula: (z_{1-alpha} + z_power) se, z the normal quantiles

    Args:
        se: Standard error of the delta, in rewards; see `planning_se`.
        alpha: One-sided level of the test, in (0, 1).
        power: The chance to find it, in (0, 1).

    Undefined: never, within these ranges.

    Caution: A normal approximation: too small with fewer than about ten tasks, or rewards nearly all alike.

    Source: Cohen (1988).
    """
    return (normal_quantile(1.0 - alpha) + normal_quantile(power)) * se


def trials_needed(
    effect: float, variance: float, n_tasks: int, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Returns the trials per task and arm for which the MDE is `effect`; round up.

    Formula: 2 v (z_{1-alpha} + z_power)^2 / (n effect^2)

    Args:
        effect: The true improvement to find, in rewards.
        variance: Mean within-task variance v of one trial.
        n_tasks: Tasks n.
        alpha: One-sided level of the test, in (0, 1).
        power: The chance to find it, in (0, 1).

    Undefined: None when the effect is not positive or n is below 1.

    Caution: As of `minimal_effect`. No number of trials makes up for tasks that are unlike the ones you mean.

    Source: Cohen (1988).
    """
    if effect <= 0.0 or n_tasks < 1:
        return None
    return 2.0 * variance * minimal_effect(1.0, alpha, power) ** 2 / (n_tasks * effect**2)


def t_power(delta: float, sd: float, n: int, alpha: float = 0.05) -> float | None:
    """Returns the chance that the one-sided paired t test over tasks finds a true improvement.

    Formula: P(T >= t_{1-alpha, n-1}), T noncentral t with n - 1 degrees of freedom and noncentrality
        delta sqrt(n) / sd

    Args:
        delta: True mean delta over tasks like these.
        sd: True standard deviation of the observed deltas between tasks, noise of trials included.
        n: Tasks (or clusters).
        alpha: One-sided level of the test, in (0, 1).

    Returns:
        In [0, 1]; alpha for delta = 0.

    Undefined: None for n < 2 and for sd = 0.

    Caution: Deltas of few trials are far from normal; with fewer than about ten tasks it is a guide only.

    Source: Owen (1968), noncentral t.
    """
    if n < 2 or sd <= 0.0:
        return None
    return 1.0 - noncentral_t_cdf(t_quantile(1.0 - alpha, n - 1), n - 1, delta * math.sqrt(n) / sd)


def t_minimal_effect(sd: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Returns the smallest true mean delta that the one-sided paired t test over tasks finds.

    Formula: delta with t_power(delta, sd, n, alpha) = power, by bisection

    Args:
        sd: True standard deviation of the observed deltas between tasks, noise of trials included.
        n: Tasks (or clusters).
        alpha: One-sided level of the test, in (0, 1).
        power: The chance to find it, above alpha and below 1.

    Undefined: None for n < 2 and for sd = 0.

    Caution: As of `t_power`.

    Raises:
        ValueError: The power is not between alpha and 1.

    Source: Owen (1968), noncentral t.
    """
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
