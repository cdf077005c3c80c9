"""Two candidates compared on the same tasks."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from capevolve.model import Measurement, TaskOutcomes
from capevolve.stats.distributions import t_cdf
from capevolve.stats.intervals import Interval, t_interval, upper_tail_level
from capevolve.stats.moments import (
    TOLERANCE,
    MeanEstimate,
    cluster_key,
    cluster_robust,
    find_mean,
    has_clusters,
    mean_with_stderr,
)


@dataclass(frozen=True, slots=True)
class TaskPair:
    """One task measured on both sides.

    Attributes:
        candidate, incumbent: Rewards of the measured trials, in [0, 1], at least one each.
        delta: Mean of the candidate minus mean of the incumbent, in [-1, 1]; exactly 0 within rounding.
        magnitude: The sum of both means, which is what rounding is relative to.
    """

    task_id: str
    candidate: tuple[float, ...]
    incumbent: tuple[float, ...]
    delta: float
    magnitude: float
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The paired comparison of a candidate with the incumbent.

    Attributes:
        pairs: Tasks valid on both sides, sorted by id.
        dropped: (task id, reason) of every other task, sorted by id.
        n: Number of pairs.
        mean: Mean delta; None for n = 0.
        se: Its standard error over tasks, s / sqrt(n), or CR1 over clusters when any cluster holds more than
            one task; None for fewer than two units.
        df: Degrees of freedom of `se`: units - 1.
        units: Independent units: tasks, or clusters.
        t: mean / se.
        p_t: One-sided p-value of t, "the candidate is better on tasks like these".
        ci: Two-sided t interval of the mean at `level`.
        degenerate: n > 0 but se is undefined or 0 (within rounding); t, p_t and ci are then None.
        improved, worse, same: Pairs by sign of their delta.
    """

    pairs: tuple[TaskPair, ...]
    dropped: tuple[tuple[str, str], ...]
    n: int
    mean: float | None
    se: float | None
    df: int | None
    units: int
    t: float | None
    p_t: float | None
    ci: Interval | None
    level: float
    degenerate: bool
    improved: int
    worse: int
    same: int

    @property
    def deltas(self) -> tuple[float, ...]:
        """The delta of each pair, in [-1, 1], shape (n,)."""
        return tuple(pair.delta for pair in self.pairs)

    @property
    def unit_deltas(self) -> tuple[float, ...]:
        """The values a task-level test flips: deltas, or their sums over clusters; shape (units,)."""
        members: defaultdict[tuple[str, str], list[TaskPair]] = defaultdict(list)
        for pair in self.pairs:
            members[cluster_key(pair.task_id, pair.cluster)].append(pair)
        return tuple(
            _snap(math.fsum(p.delta for p in group), math.fsum(p.magnitude for p in group))
            for group in members.values()
        )

    @property
    def arms(self) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
        """Both arms' rewards of each pair, as `within_task_permutation` takes them."""
        return tuple((pair.candidate, pair.incumbent) for pair in self.pairs)

    @property
    def magnitude(self) -> float:
        """The mean of the pairs' magnitudes: what rounding of `mean` and `se` is relative to."""
        return find_mean([pair.magnitude for pair in self.pairs]) or 0.0


def compare(candidate: Measurement, incumbent: Measurement, level: float = 0.95) -> Comparison:
    """Returns the paired comparison of two measurements, over the tasks with a measured trial on both sides.

    The exact p-values are `sign_flip(comparison.unit_deltas)` and `within_task_permutation(comparison.arms)`.

    Formula: d_i = mean_cand,i - mean_inc,i; delta = sum d_i / n; se = s_d / sqrt(n), or CR1 over clusters;
        t = delta / se; p = P(T_df >= t); ci = delta -+ t_df se

    Args:
        candidate: Measurement of the one side.
        incumbent: Measurement of the other, on the same split. Trial counts may differ.
        level: Two-sided confidence level of `ci`, in (0, 1).

    Undefined: Without a task valid on both sides all are None. With one pair (or one cluster), and where se
        is 0 within rounding, t, p and ci are None and `degenerate` is set.

    Caution: s_d^2 already holds the noise of trials, so nothing is added for it. With few tasks or few
        differing ones t is rough: the exact tests are not. p is about new tasks like these, and about one
        comparison only, not the best of many.

    Raises:
        ValueError: A task id occurs twice in one measurement, or a reward is not finite.

    Source: Student (1908); CR1 as in `cluster_robust`.
    """
    upper_tail_level(level)
    pairs, dropped = _pair_tasks(candidate, incumbent)
    deltas = [pair.delta for pair in pairs]
    estimate = _estimate(pairs, deltas)
    magnitude = find_mean([pair.magnitude for pair in pairs]) or 0.0
    mean = None if estimate.mean is None else _snap(estimate.mean, magnitude)
    se = None if estimate.se is None else _snap(estimate.se, magnitude)
    df = estimate.df
    t = mean / se if mean is not None and se else None
    return Comparison(
        pairs=tuple(pairs),
        dropped=tuple(dropped),
        n=len(pairs),
        mean=mean,
        se=se,
        df=df,
        units=estimate.units,
        t=t,
        p_t=None if t is None or df is None else t_cdf(-t, df),
        ci=t_interval(mean, se, df, level),
        level=level,
        degenerate=bool(pairs) and not se,
        improved=sum(delta > 0.0 for delta in deltas),
        worse=sum(delta < 0.0 for delta in deltas),
        same=sum(delta == 0.0 for delta in deltas),
    )


def _estimate(pairs: list[TaskPair], deltas: list[float]) -> MeanEstimate:
    keys = [cluster_key(pair.task_id, pair.cluster) for pair in pairs]
    if has_clusters(keys):
        return cluster_robust(deltas, keys)
    plain = mean_with_stderr(deltas)
    return MeanEstimate(plain.value, plain.se, None if plain.se is None else len(pairs) - 1, len(pairs))


def _pair_tasks(
    candidate: Measurement, incumbent: Measurement
) -> tuple[list[TaskPair], list[tuple[str, str]]]:
    mine, theirs = _by_id(candidate), _by_id(incumbent)
    pairs, dropped = [], []
    for task_id in sorted(mine.keys() | theirs.keys()):
        ours, other = mine.get(task_id), theirs.get(task_id)
        problems = [_explain("candidate", ours), _explain("incumbent", other)]
        if ours is None or other is None or any(problems):
            dropped.append((task_id, "; ".join(problem for problem in problems if problem)))
        else:
            pairs.append(_pair(ours, other))
    return pairs, dropped


def _by_id(measurement: Measurement) -> dict[str, TaskOutcomes]:
    found = {task.task_id: task for task in measurement.tasks}
    if len(found) < len(measurement.tasks):
        raise ValueError(f"a task id occurs twice in evaluation {measurement.evaluation_id}")
    return found


def _pair(ours: TaskOutcomes, other: TaskOutcomes) -> TaskPair:
    left, right = find_mean(ours.rewards) or 0.0, find_mean(other.rewards) or 0.0
    magnitude = abs(left) + abs(right)
    delta = _snap(left - right, magnitude)
    cluster = ours.cluster or other.cluster
    return TaskPair(ours.task_id, ours.rewards, other.rewards, delta, magnitude, cluster)


def _snap(value: float, magnitude: float) -> float:
    """Returns exactly 0 for what only rounding keeps from it."""
    return 0.0 if abs(value) <= TOLERANCE * magnitude else value


def _explain(side: str, task: TaskOutcomes | None) -> str | None:
    """Returns why a side has no value for the task, None when it has one."""
    if task is None:
        return f"not in the {side}'s evaluation"
    if task.rewards:
        return None
    if not task.unmeasured:
        return f"no trial of the {side} was run"
    reasons = Counter(trial.reason.value for trial in task.unmeasured)
    words = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return f"no measured trial of the {side} ({words})"
