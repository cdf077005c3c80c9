"""Confidence intervals of a mean and of one proportion."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capevolve.stats.distributions import beta_quantile, normal_quantile, t_quantile


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval."""

    low: float
    high: float


def t_interval(
    mean: float | None, se: float | None, df: float | None, level: float = 0.95
) -> Interval | None:
    """Returns mean +- t_df * se, Student's interval.

    Args:
        mean, se, df: As estimated; None where undefined.
        level: Two-sided confidence level in (0, 1).

    Returns:
        None when any argument is None, and when se or df is 0: values that happen to agree say nothing of
        the error of their mean. For one proportion use `wilson` or `clopper_pearson` instead.
    """
    tail = upper_tail_level(level)
    if mean is None or not se or not df:
        return None
    reach = t_quantile(1.0 - tail, df) * se
    return Interval(mean - reach, mean + reach)


def wilson(passed: int, n: int, level: float = 0.95) -> Interval | None:
    """Returns Wilson's score interval of a proportion, for display. It is never of width 0.

    Args:
        passed: Successes, 0 to n.
        n: Independent trials; None is returned for 0.
        level: Two-sided confidence level in (0, 1).

    Source: Wilson (1927).
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

    With `level = 1 - 2a` each end is a one-sided 1 - a bound; for 0 of n the upper one is 1 - a^(1/n).

    Args:
        passed: Successes, 0 to n.
        n: Independent trials; None is returned for 0.
        level: Two-sided confidence level in (0, 1).

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
