"""Distribution functions, the one place that calls `scipy.special`.

`scipy.special` is imported on first use: it costs more than everything else in this package together, and
most commands never need it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def normal_cdf(x: float) -> float:
    """Returns P(Z <= x) of a standard normal Z."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(q: float) -> float:
    """Returns x with P(Z <= x) = q, for q in (0, 1)."""
    from scipy.special import ndtri

    return float(ndtri(q))


def t_cdf(x: float, df: float) -> float:
    """Returns P(T <= x) of Student's t with `df` > 0 degrees of freedom."""
    from scipy.special import stdtr

    return float(stdtr(df, x))


def t_quantile(q: float, df: float) -> float:
    """Returns x with P(T <= x) = q of Student's t, for q in (0, 1)."""
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
    """Returns P(X <= x) of a binomial X of `n` trials, at each success rate in [0, 1]."""
    from scipy.special import bdtr

    return np.asarray(bdtr(float(x), n, rates), dtype=np.float64)
