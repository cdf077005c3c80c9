"""Distribution functions, the one place that calls `scipy.special`.

`scipy.special` is imported on first use: it costs more than everything else in this package together, and
most commands never need it.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_NORMAL = NormalDist()


def normal_cdf(x: float) -> float:
    """Returns the chance that a standard normal Z is at most x.

    Formula: P(Z <= x) = erfc(-x / sqrt(2)) / 2

    Args:
        x: In standard deviations; infinities have the chances 0 and 1.

    Undefined: never.

    Source: Cody (1969), the error function.
    """
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(q: float) -> float:
    """Returns the point that a standard normal Z does not pass with chance q.

    Formula: x with P(Z <= x) = q

    Args:
        q: In (0, 1).

    Undefined: never, within this range.

    Raises:
        ValueError: `q` is not in (0, 1).

    Source: Wichura (1988), AS 241, by the standard library: right to 1e-15, without the import of scipy.
    """
    _check_chance(q)
    return _NORMAL.inv_cdf(q)


def t_cdf(x: float, df: float) -> float:
    """Returns the chance that Student's t is at most x.

    Formula: P(T <= x), T with df degrees of freedom

    Args:
        x: In standard errors.
        df: Degrees of freedom, above 0.

    Undefined: never, within this range.

    Raises:
        ValueError: `df` is not above 0.

    Source: Student (1908); Cephes `stdtr`, by `scipy.special`.
    """
    _check_freedom(df)
    from scipy.special import stdtr

    return float(stdtr(df, x))


def t_quantile(q: float, df: float) -> float:
    """Returns the point that Student's t does not pass with chance q.

    Formula: x with P(T <= x) = q, T with df degrees of freedom

    Args:
        q: In (0, 1).
        df: Degrees of freedom, above 0.

    Undefined: never, within these ranges.

    Raises:
        ValueError: `q` is not in (0, 1), or `df` not above 0.

    Source: Student (1908); Cephes `stdtrit`, by `scipy.special`.
    """
    _check_chance(q)
    _check_freedom(df)
    from scipy.special import stdtrit

    return float(stdtrit(df, q))


def noncentral_t_cdf(x: float, df: float, nc: float) -> float:
    """Returns P(T <= x) of the noncentral t with `df` degrees of freedom and noncentrality `nc`."""
    from scipy.special import nctdtr

    return float(nctdtr(df, nc, x))


def beta_quantile(q: float, a: float, b: float) -> float:
    """Returns x with P(B <= x) = q of the beta distribution with parameters a, b > 0."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, q))


def binomial_cdf(x: int, n: int, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the chance of at most x successes in n independent trials, at each success rate.

    Formula: P(X <= x) = sum_{j <= x} C(n, j) q^j (1 - q)^(n - j)

    Args:
        x: Successes, 0 to n.
        n: Trials.
        rates: Success rates q in [0, 1], shape (m,).

    Returns:
        Shape (m,).

    Undefined: never, within these ranges.

    Raises:
        ValueError: `x` is not in 0 to n, or a rate not in [0, 1].

    Source: Cephes `bdtr`, by `scipy.special`.
    """
    if not 0 <= x <= n or not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ValueError("successes are 0 to n, and rates 0 to 1")
    from scipy.special import bdtr

    return np.asarray(bdtr(float(x), n, rates), dtype=np.float64)


def _check_chance(q: float) -> None:
    if not 0.0 < q < 1.0:
        raise ValueError(f"a chance lies between 0 and 1, not at {q!r}")


def _check_freedom(df: float) -> None:
    if not df > 0.0:
        raise ValueError(f"degrees of freedom are above 0, not {df!r}")
