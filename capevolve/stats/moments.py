"""Means and standard errors of one task and of one split.

Undefined is None, never 0 and never NaN. Sums use `math.fsum`, so the order of values is irrelevant.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from capevolve.model import Estimate

TOLERANCE = 1e-12
"""Two sums are equal when they differ by at most this share of the sum of magnitudes that made them.

Rewards on a lattice of up to a million steps differ by far more than this; rounding differs by far less.
"""


def exceeds(value: float, bar: float, magnitude: float) -> bool:
    """Returns whether `value` is above `bar` by more than rounding. A tie is not exceedance.

    Args:
        value: Left side.
        bar: Right side.
        magnitude: The size of the numbers that `value` and `bar` were computed from.
    """
    return value - bar > TOLERANCE * magnitude


def find_mean(values: Sequence[float]) -> float | None:
    """Returns the mean, None for no values.

    Raises:
        ValueError: A value is NaN or infinite.
    """
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"not a finite number: {value!r}")
    return math.fsum(values) / len(values) if values else None


def sample_variance(values: Sequence[float]) -> float | None:
    """Returns sum (x - mean)^2 / (n - 1), None for fewer than two values."""
    mean = find_mean(values)
    if mean is None or len(values) < 2:
        return None
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def mean_with_stderr(values: Sequence[float]) -> Estimate:
    """Returns the mean and its standard error s / sqrt(n) over independent values.

    The mean is None for no values, the standard error for fewer than two.
    """
    variance = sample_variance(values)
    se = None if variance is None else math.sqrt(variance / len(values))
    return Estimate(find_mean(values), se)


def task_stats(rewards: Sequence[float]) -> Estimate:
    """Returns the mean reward of one task and its standard error over trials.

    With k measured trials of mean m, se = sqrt(sum (r - m)^2 / (k - 1) / k).

    Args:
        rewards: Rewards of the measured trials, in [0, 1]. Unmeasured trials are left out, never 0.

    Returns:
        Both None for k = 0; se None for k = 1, where trial noise is unmeasured.
    """
    return mean_with_stderr(rewards)


def combined_stderr(
    means: Sequence[float],
    ses: Sequence[float | None],
    between: Literal["component", "raw"] = "component",
) -> float | None:
    """Returns the standard error of the mean of task means, for new tasks and new trials.

    SE = sqrt(B / n + W / n), W the mean of se_i^2 over the tasks that have one and B the `between_variance`.

    Args:
        means: Observed task means, shape (n,).
        ses: Their standard errors over trials, shape (n,); None where a task has fewer than two trials.
            Where no task has one, the within part is unmeasured and SE = s / sqrt(n).
        between: `"raw"` uses B = s^2, the sample variance of the means, which counts trial noise twice: at
            k trials it equals the true SE at k / 2. It is what cap-evolve publishes, kept to reproduce that.

    Returns:
        None for n < 2.
    """
    component = between_variance(means, ses)
    spread = sample_variance(means) if between == "raw" else component
    return None if spread is None else math.sqrt((spread + _mean_square(ses)) / len(means))


def between_variance(means: Sequence[float], ses: Sequence[float | None]) -> float | None:
    """Returns the between-task variance component: max(0, s^2 - W), W the mean of the known se_i^2.

    s^2, the sample variance of the task means, already holds trial noise: E[s^2] = tau^2 +
    mean(sigma_i^2 / k_i). What is left estimates tau^2. None for fewer than two tasks.
    """
    if len(means) != len(ses):
        raise ValueError("one standard error (or None) per mean is needed")
    total = sample_variance(means)
    return None if total is None else max(0.0, total - _mean_square(ses))


def _mean_square(ses: Sequence[float | None]) -> float:
    return find_mean([se**2 for se in ses if se is not None]) or 0.0


def fixed_stderr(ses: Sequence[float | None]) -> float | None:
    """Returns sqrt(sum se_i^2) / n: the standard error for these tasks only, new trials.

    Returns:
        None for n = 0, and when any task has no standard error (fewer than two trials).
    """
    known = [se for se in ses if se is not None]
    if not known or len(known) < len(ses):
        return None
    return math.sqrt(math.fsum(se**2 for se in known)) / len(ses)


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean with its standard error and the degrees of freedom of that error.

    Attributes:
        mean: None for no values.
        se: None for fewer than two independent units.
        df: Independent units minus 1, None where `se` is.
        units: Independent units: values, or clusters of values.
    """

    mean: float | None
    se: float | None
    df: int | None
    units: int


def cluster_robust(values: Sequence[float], clusters: Sequence[Hashable]) -> MeanEstimate:
    """Returns the mean with its cluster-robust standard error (CR1).

    With e_i = x_i - mean, SE = sqrt(G / (G - 1) * sum_g (sum_{i in g} e_i)^2) / n and df = G - 1. With one
    value in each cluster it is s / sqrt(n). The CR0 version of Miller (2024, "Adding error bars to evals")
    is smaller by sqrt((G - 1) / G).

    Args:
        values: Shape (n,).
        clusters: The cluster of each value, shape (n,).

    Returns:
        se and df None for fewer than two clusters.
    """
    sums = cluster_residuals(values, clusters)
    count = len(sums)
    if count < 2:
        return MeanEstimate(find_mean(values), None, None, count)
    scale = count / (count - 1)
    se = math.sqrt(scale * math.fsum(total**2 for total in sums)) / len(values)
    return MeanEstimate(find_mean(values), se, count - 1, count)


def cluster_residuals(values: Sequence[float], clusters: Sequence[Hashable]) -> list[float]:
    """Returns sum_{i in g} (x_i - mean) of each cluster g, in order of first appearance."""
    if len(values) != len(clusters):
        raise ValueError("one cluster per value is needed")
    mean = find_mean(values)
    members: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        members[cluster].append(value)
    # A cluster's residual is its sum minus its share of the mean, in one exactly rounded sum.
    return [math.fsum([*group, *([-mean] * len(group))]) for group in members.values() if mean is not None]


def cluster_key(task_id: str, cluster: str | None) -> tuple[str, str]:
    """Returns the cluster that a task belongs to: the one it names, else itself."""
    return ("task", task_id) if cluster is None else ("cluster", cluster)


def has_clusters(keys: Sequence[Hashable]) -> bool:
    """Returns whether any cluster holds more than one task."""
    return len(set(keys)) < len(keys)
