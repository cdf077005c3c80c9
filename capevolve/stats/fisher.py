"""Fisher's exact test of a 2 x 2 table."""

from __future__ import annotations

import math
import sys

_TIE = 1e-7
"""Tables whose chance is within this share of the observed one's count as equally likely."""


def fisher_exact(a: int, b: int, c: int, d: int) -> float | None:
    """Returns the two-sided p-value of "both rows of [[a, b], [c, d]] have the same share".

    The gate asks it whether infrastructure errors hit one arm more than the other.

    Formula: the sum of the hypergeometric chances of all tables with these margins that are at most as likely
        as the observed one

    Args:
        a, b: Counts of the first row, for example measured and unmeasured trials of one arm.
        c, d: Counts of the second row.

    Returns:
        In (0, 1].

    Undefined: None when a row is empty, so that there is nothing to compare.

    Caution: Trials that fail together, as in one outage, are not independent, and the p-value is then too
        small. A large p-value does not show that the shares are equal.

    Raises:
        ValueError: A count is negative.

    Source: Fisher (1922).
    """
    if min(a, b, c, d) < 0:
        raise ValueError("counts cannot be negative")
    first, second, column = a + b, c + d, a + c
    if first == 0 or second == 0:
        return None
    lowest = max(0, column - second)
    chances = [
        math.exp(_log_ways(first, x) + _log_ways(second, column - x) - _log_ways(first + second, column))
        for x in range(lowest, min(first, column) + 1)
    ]
    limit = chances[a - lowest] * (1.0 + _TIE)
    p = math.fsum(chance for chance in chances if chance <= limit)
    return min(1.0, max(p, sys.float_info.min))


def _log_ways(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
