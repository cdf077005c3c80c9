"""Bootstrap intervals of a mean over tasks, or over clusters of tasks.

Resampling is portable: draw j = b * n + i of resample b is output j of splitmix64(seed), scaled to an index.
Student's interval (`t_interval`) is the default elsewhere: percentile and BCa under-cover at n <= 12.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from capevolve.stats.distributions import normal_cdf, normal_quantile
from capevolve.stats.intervals import Interval, upper_tail_level
from capevolve.stats.moments import TOLERANCE, cluster_residuals, find_mean
from capevolve.stats.splitmix import scale_draws, splitmix64

RESAMPLES = 10_000
_CHUNK = 1 << 16

Floats = NDArray[np.float64]


def percentile_bootstrap(
    values: Sequence[float],
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Returns the percentile bootstrap interval of the mean.

    Formula: the (1 - level) / 2 and (1 + level) / 2 quantiles (type 7) of the means of B resamples of n units

    Args:
        values: Task means or paired deltas, shape (n,), in any unit.
        seed: Seeds `splitmix64`: unit i of resample b is number ((z >> 32) n) >> 32, z its output b n + i.
        clusters: The cluster of each value, shape (n,); whole clusters are then resampled, and the mean is
            over values.
        level: Two-sided confidence level in (0, 1).
        resamples: Number of resamples B.

    Undefined: None for fewer than two units (values, or clusters), and for constant values.

    Caution: Too narrow with 12 units or fewer; Student's interval is the default for that reason.

    Raises:
        ValueError: The level is not in (0, 1), or a value is NaN or infinite.

    Source: Efron (1979); type-7 quantiles as in Hyndman and Fan (1996).
    """
    tail = upper_tail_level(level)
    if _is_undefined(values, clusters):
        return None
    means = resample_means(values, seed=seed, clusters=clusters, resamples=resamples)
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def bca_bootstrap(
    values: Sequence[float],
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Returns the bias-corrected and accelerated bootstrap interval of the mean (BCa).

    Formula: the quantiles Phi(z0 + (z0 + z) / (1 - a (z0 + z))) of the resample means, z the normal quantiles
        of (1 -+ level) / 2, z0 the normal quantile of the share of resample means below the mean (ties count
        half), a = sum u^3 / (6 (sum u^2)^1.5) with u the residuals of the units

    Args:
        values: Task means or paired deltas, shape (n,), in any unit.
        seed: Seeds `splitmix64`, as in `percentile_bootstrap`.
        clusters: The cluster of each value, shape (n,); whole clusters are then resampled.
        level: Two-sided confidence level in (0, 1).
        resamples: Number of resamples B.

    Undefined: None for fewer than two units (values, or clusters), for constant values, and where the
        correction is not finite.

    Caution: Too narrow with 12 units or fewer, like every bootstrap of the mean.

    Raises:
        ValueError: The level is not in (0, 1), or a value is NaN or infinite.

    Source: Efron (1987); DiCiccio and Efron (1996).
    """
    tail = upper_tail_level(level)
    if _is_undefined(values, clusters):
        return None
    means = resample_means(values, seed=seed, clusters=clusters, resamples=resamples)
    bias = find_bias(means, values)
    if bias is None:
        return None
    speed = find_acceleration(values, clusters)
    ends = []
    for z in (normal_quantile(tail), normal_quantile(1.0 - tail)):
        room = 1.0 - speed * (bias + z)
        if room <= 0.0:
            return None
        ends.append(normal_cdf(bias + (bias + z) / room))
    low, high = np.quantile(means, ends)
    return Interval(float(low), float(high))


def resample_means(
    values: Sequence[float],
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
) -> Floats:
    """Returns the means of the resamples, shape (resamples,); arguments as in `percentile_bootstrap`."""
    groups: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, key in zip(values, clusters or range(len(values)), strict=True):
        groups[key].append(value)
    totals = np.array([math.fsum(group) for group in groups.values()])
    sizes = np.array([float(len(group)) for group in groups.values()])
    n = len(totals)
    means: Floats = np.empty(resamples)
    rows = max(1, _CHUNK // n)
    for first in range(0, resamples, rows):
        count = min(rows, resamples - first)
        picks = scale_draws(splitmix64(seed, first * n, count * n), n).astype(np.intp)
        summed = totals[picks].reshape(count, n).sum(axis=1)
        weight = n if clusters is None else sizes[picks].reshape(count, n).sum(axis=1)
        means[first : first + count] = summed / weight
    return means


def find_bias(means: Floats, values: Sequence[float]) -> float | None:
    """Returns z0, the normal quantile of the share of resample means below the mean; ties count half.

    None when all of them lie on one side.
    """
    mean = find_mean(values)
    if mean is None:
        return None
    margin = TOLERANCE * math.fsum(abs(value) for value in values)
    below = np.count_nonzero(means < mean - margin)
    tied = np.count_nonzero(np.abs(means - mean) <= margin)
    share = float(below + 0.5 * tied) / len(means)
    return normal_quantile(share) if 0.0 < share < 1.0 else None


def find_acceleration(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float:
    """Returns the acceleration a = sum u^3 / (6 (sum u^2)^1.5), u the residual sums of the units.

    For single values it equals the jackknife definition. 0 for constant values.
    """
    residuals = cluster_residuals(values, clusters or range(len(values)))
    scale = max((abs(u) for u in residuals), default=0.0)
    if scale == 0.0:
        return 0.0
    # Relative to the largest, so that no power of a small one underflows; a has no unit.
    units = [u / scale for u in residuals]
    spread = math.fsum(u**2 for u in units)
    return math.fsum(u**3 for u in units) / float(6.0 * spread**1.5)


def _is_undefined(values: Sequence[float], clusters: Sequence[Hashable] | None) -> bool:
    units = len(values) if clusters is None else len(set(clusters))
    return units < 2 or find_mean(values) is None or min(values) == max(values)
