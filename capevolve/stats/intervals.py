"""Confidence intervals of a mean and of one proportion."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capevolve.stats.distributions import beta_quantile, normal_quantile, t_quantile


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval: [low, high], in the unit of the value."""

    low: float
    high: float


def t_interval(
    mean: float | None, se: float | None, df: float | None, level: float = 0.95
) -> Interval | None:
    """Returns Student's confidence interval of a mean, the default wherever an interval is shown.

    Formula: mean - t se to mean + t se, t the (1 + level) / 2 quantile with df degrees of freedom

    Args:
        mean: The estimate, in any unit.
        se: Its standard error, in the same unit.
        df: Degrees of freedom of the standard error.
        level: Two-sided confidence level in (0, 1).

    Undefined: None when an argument is None, and when se or df is 0: values that happen to agree say nothing
        of the error of their mean. For one proportion use `wilson` or `clopper_pearson` then.

    Caution: With fewer than 8 tasks, or rewards that are nearly all 0 or all 1, it is indicative only. It can
        reach beyond [0, 1], where nothing lies.

    Raises:
        ValueError: The level is not in (0, 1).

    Source: Student (1908).
    """
    tail = upper_tail_level(level)
    if mean is None or not se or not df:
        return None
    reach = t_quantile(1.0 - tail, df) * se
    return Interval(mean - reach, mean + reach)


def wilson(passed: int, n: int, level: float = 0.95) -> Interval | None:
    """Returns Wilson's score interval of a proportion, for display. Its width is never 0.

    Formula: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), p = passed / n, z the normal quantile

    Args:
        passed: Successes, 0 to n.
        n: Independent trials.
        level: Two-sided confidence level in (0, 1).

    Returns:
        Within [0, 1].

    Undefined: None for n = 0.

    Caution: Its coverage is the level on average, and a few points below it for some true rates; for a
        guarantee use `clopper_pearson`. Several trials of one task are not independent trials.

    Raises:
        ValueError: `passed` is not in 0 to n, or the level not in (0, 1).

    Source: Wilson (1927); Brown, Cai and DasGupta (2001).
    """
    tail = upper_tail_level(level)
    _check_count(passed, n)
    if n == 0:
        return None
    z2 = normal_quantile(1.0 - tail) ** 2
    share = passed / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # At 0 and n the bound is exactly 0 and 1; only rounding says otherwise.
    low = 0.0 if passed == 0 else max(0.0, centre - reach)
    high = 1.0 if passed == n else min(1.0, centre + reach)
    return Interval(low, high)


def clopper_pearson(passed: int, n: int, level: float = 0.95) -> Interval | None:
    """Returns the exact interval of a proportion: its coverage is at least `level` for every true value.

    Each end is a one-sided bound at 1 - a, a = (1 - level) / 2; for 0 of n the upper one is 1 - a^(1/n).

    Formula: the a quantile of Beta(x, n - x + 1) to the 1 - a quantile of Beta(x + 1, n - x), x = passed

    Args:
        passed: Successes, 0 to n.
        n: Independent trials.
        level: Two-sided confidence level in (0, 1).

    Returns:
        Within [0, 1].

    Undefined: None for n = 0.

    Caution: Wider than it would have to be on average. Several trials of one task are not independent trials.

    Raises:
        ValueError: `passed` is not in 0 to n, or the level not in (0, 1).

    Source: Clopper and Pearson (1934).
    """
    tail = upper_tail_level(level)
    _check_count(passed, n)
    if n == 0:
        return None
    low = 0.0 if passed == 0 else beta_quantile(tail, passed, n - passed + 1)
    high = 1.0 if passed == n else beta_quantile(1.0 - tail, passed + 1, n - passed)
    return Interval(low, high)


def upper_tail_level(level: float) -> float:
    """Returns the chance left above a two-sided interval of the given level.

    Raises:
        ValueError: The level is not in (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"a confidence level lies between 0 and 1, not at {level!r}")
    return (1.0 - level) / 2.0


def _check_count(passed: int, n: int) -> None:
    if not 0 <= passed <= n:
        raise ValueError(f"{passed} of {n} is not a proportion")
