"""The winner's curse: what a selected maximum is worth once its selection is accounted for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capevolve.stats.moments import find_mean, sample_variance

FEWEST = 4


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """Values pulled towards their mean.

    Attributes:
        weight: w in [0, 1]: the share of the spread that is not noise.
        mean: The mean they are pulled towards.
        values: mean + w (value - mean), in the order given.
    """

    weight: float
    mean: float
    values: tuple[float, ...]


def james_stein(values: Sequence[float], variances: Sequence[float]) -> Shrinkage | None:
    """Returns the candidates' val means with the luck of the selected maximum taken out (empirical Bayes).

    The best of several noisy means is biased upward, more so with more candidates and more noise.

    Formula: y' = ybar + w (y - ybar), w = tau^2 / (tau^2 + v), tau^2 = max(0, s^2 - v), v the mean variance

    Args:
        values: Full-split val means of the candidates, in [0, 1], shape (m,).
        variances: The squared standard error of each, shape (m,).

    Undefined: None for fewer than four values, and when neither spread nor noise was seen (w is 0 / 0).

    Caution: It removes the winner's curse on average over candidates, not for each. Candidates measured on
        the same tasks share their luck with the tasks, which this cannot see; the sealed test can.

    Raises:
        ValueError: There is not one variance per value.

    Source: James and Stein (1961); Efron and Morris (1975).
    """
    if len(values) != len(variances):
        raise ValueError("one variance per value is needed")
    mean, total, noise = find_mean(values), sample_variance(values), find_mean(variances)
    if len(values) < FEWEST or mean is None or total is None or noise is None:
        return None
    signal = max(0.0, total - noise)
    if math.isclose(signal + noise, 0.0, abs_tol=1e-24):
        return None
    weight = signal / (signal + noise)
    return Shrinkage(weight, mean, tuple(mean + weight * (value - mean) for value in values))
