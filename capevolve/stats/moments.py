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

    When one task of n improves and no other changes, the mean delta equals its standard error for every n and
    every gain; which of the two floats is larger is an accident, and here it is a tie.

    Formula: value - bar > 1e-12 * magnitude

    Args:
        value: Left side.
        bar: Right side, in the same unit.
        magnitude: The size of the numbers that `value` and `bar` were computed from, in the same unit.

    Undefined: never.

    Caution: A real difference smaller than that share of the magnitude counts as a tie. Rewards on a lattice
        of up to a million steps differ by far more.

    Source: Higham (2002), error bounds of summation.
    """
    return value - bar > TOLERANCE * magnitude


def find_mean(values: Sequence[float]) -> float | None:
    """Returns the arithmetic mean, None for no values.

    Args:
        values: Shape (n,), finite.

    Raises:
        ValueError: A value is NaN or infinite.
    """
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"not a finite number: {value!r}")
    return math.fsum(values) / len(values) if values else None


def sample_variance(values: Sequence[float]) -> float | None:
    """Returns the sample variance sum (x - mean)^2 / (n - 1), None for fewer than two values."""
    mean = find_mean(values)
    if mean is None or len(values) < 2:
        return None
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def mean_with_stderr(values: Sequence[float]) -> Estimate:
    """Returns the mean of independent values and its standard error.

    Formula: m = sum x / n; se = s / sqrt(n) with s^2 = sum (x - m)^2 / (n - 1)

    Args:
        values: Shape (n,), finite, in any unit; both results are in that unit.

    Undefined: The mean is None for n = 0, the standard error for n < 2.

    Caution: Values that depend on each other, such as tasks made from one template, make the true error
        larger: use `cluster_robust`. An se of 0 says that the values agree, not that the mean is certain.

    Raises:
        ValueError: A value is NaN or infinite.

    Source: Student (1908).
    """
    variance = sample_variance(values)
    se = None if variance is None else math.sqrt(variance / len(values))
    return Estimate(find_mean(values), se)


def task_stats(rewards: Sequence[float]) -> Estimate:
    """Returns the mean reward of one task and its standard error over trials.

    Formula: m = sum r / k; se = sqrt(sum (r - m)^2 / (k - 1) / k)

    Args:
        rewards: Rewards of the k measured trials, in [0, 1], shape (k,). Unmeasured trials are left out; they
            are never 0.

    Undefined: Both are None for k = 0. The standard error is None for k = 1: one trial says nothing about how
        the next one would differ.

    Caution: With few trials se is itself a rough guess, and 0 whenever the trials happen to agree.

    Raises:
        ValueError: A reward is NaN or infinite.

    Source: Student (1908).
    """
    return mean_with_stderr(rewards)


def combined_stderr(
    means: Sequence[float],
    ses: Sequence[float | None],
    between: Literal["component", "raw"] = "component",
) -> float | None:
    """Returns the standard error of the mean of task means, for new tasks and new trials.

    Formula: sqrt(B / n + W / n), W the mean of the known se_i^2, B the `between_variance`

    Args:
        means: Observed task means, in [0, 1], shape (n,).
        ses: Their standard errors over trials, shape (n,); None where a task has fewer than two trials.
        between: `"raw"` takes B = s^2, the sample variance of the means, which counts trial noise twice: at
            k trials it equals the true error at k / 2. cap-evolve publishes it; kept to reproduce that.

    Undefined: None for n < 2.

    Caution: It is about tasks like these, drawn at random; tasks chosen by hand, or in clusters, are not.
        Where no task has two trials the within part is unmeasured: s / sqrt(n) still covers new tasks, but
        nobody knows how much of it is trial noise that more trials would remove.

    Raises:
        ValueError: There is not one standard error (or None) per mean.

    Source: Searle, Casella and McCulloch (1992), variance components; Miller (2024).
    """
    component = between_variance(means, ses)
    spread = sample_variance(means) if between == "raw" else component
    return None if spread is None else math.sqrt((spread + _mean_square(ses)) / len(means))


def between_variance(means: Sequence[float], ses: Sequence[float | None]) -> float | None:
    """Returns how much tasks truly differ in difficulty: the between-task variance component.

    The sample variance s^2 of the task means already holds trial noise, E[s^2] = tau^2 + mean(sigma_i^2 /
    k_i); what is left without it estimates tau^2.

    Formula: max(0, s^2 - W), W the mean of the known se_i^2

    Args:
        means: Observed task means, in [0, 1], shape (n,).
        ses: Their standard errors over trials, shape (n,); None where a task has fewer than two trials.

    Undefined: None for n < 2.

    Caution: 0 is common by chance when tasks are few. With one trial per task nothing is taken away and the
        value is s^2.

    Raises:
        ValueError: There is not one standard error (or None) per mean.

    Source: Searle, Casella and McCulloch (1992), analysis-of-variance estimator.
    """
    if len(means) != len(ses):
        raise ValueError("one standard error (or None) per mean is needed")
    total = sample_variance(means)
    return None if total is None else max(0.0, total - _mean_square(ses))


def _mean_square(ses: Sequence[float | None]) -> float:
    return find_mean([se**2 for se in ses if se is not None]) or 0.0


def fixed_stderr(ses: Sequence[float | None]) -> float | None:
    """Returns the standard error of the mean of task means for these tasks only: new trials, the same tasks.

    Formula: sqrt(sum se_i^2) / n

    Args:
        ses: Standard errors of the task means over trials, shape (n,).

    Undefined: None for n = 0, and when any task has no standard error: with one trial per task the noise of
        trials is unmeasured.

    Caution: It says nothing about other tasks; for them `combined_stderr` is the larger, honest figure.

    Source: Cochran (1977), stratified sampling.
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
    """Returns the mean with its cluster-robust standard error (CR1), for values that hang together in groups.

    With one value in each cluster it is s / sqrt(n).

    Formula: sqrt(G / (G - 1) * sum_g (sum_{i in g} e_i)^2) / n with e_i = x_i - mean; df = G - 1

    Args:
        values: Task means or deltas, shape (n,).
        clusters: The cluster of each value, shape (n,); G of them differ.

    Undefined: The mean is None for n = 0; se and df are None for G < 2.

    Caution: With fewer than about ten clusters, or one that holds most tasks, it is too small. Clusters must
        be independent of each other.

    Raises:
        ValueError: There is not one cluster per value, or a value is NaN or infinite.

    Source: Liang and Zeger (1986); CR1 as in MacKinnon and White (1985). Miller (2024) has CR0, smaller by
        sqrt((G - 1) / G).
    """
    sums = cluster_residuals(values, clusters)
    count = len(sums)
    if count < 2:
        return MeanEstimate(find_mean(values), None, None, count)
    scale = count / (count - 1)
    se = math.sqrt(scale * math.fsum(total**2 for total in sums)) / len(values)
    return MeanEstimate(find_mean(values), se, count - 1, count)


def cluster_residuals(values: Sequence[float], clusters: Sequence[Hashable]) -> list[float]:
    """Returns the residual sum_{i in g} (x_i - mean) of each cluster g, in order of first appearance.

    Args:
        values: Shape (n,).
        clusters: The cluster of each value, shape (n,).

    Raises:
        ValueError: There is not one cluster per value, or a value is NaN or infinite.
    """
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
