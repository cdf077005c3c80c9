"""From measurements to means with their errors, and to the matrix of tasks by candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from capevolve.model import PASS_REWARD, Measurement, TaskOutcomes
from capevolve.report.measured import Cell, Matrix, MatrixColumn, MatrixRow, MeanFacts, TaskScore
from capevolve.report.wording import clean_line
from capevolve.result import TestScore
from capevolve.stats import Interval, MeanEstimate, estimate_mean, t_interval, task_stats, wilson

_NO_SPREAD = 1e-12
"""A standard error at or below this is rounding around 0."""


def describe_mean(measurement: Measurement) -> MeanFacts:
    """Returns a measurement's mean with its error, n and coverage."""
    estimate = estimate_mean(measurement)
    return _describe(measurement, estimate, estimate.df)


def describe_test(stored: TestScore, measurement: Measurement, df: int | None) -> MeanFacts:
    """Returns a stored test score with an interval.

    Args:
        stored: The score in the result; its mean and error are shown as they are.
        measurement: The same trials, without the clusters, which stay behind the seal.
        df: Degrees of freedom of the clustered comparison; used where the stored error shows clusters.
    """
    plain = estimate_mean(measurement)
    clustered = stored.stderr is not None and not _is_equal(stored.stderr, plain.se)
    estimate = MeanEstimate(stored.reward, stored.stderr, None, 0 if clustered else plain.units)
    return _describe(measurement, estimate, df if clustered else plain.df)


def _is_equal(a: float, b: float | None) -> bool:
    return b is not None and math.isclose(a, b, rel_tol=1e-9, abs_tol=_NO_SPREAD)


def _describe(measurement: Measurement, estimate: MeanEstimate, df: int | None) -> MeanFacts:
    scored = [task for task in measurement.tasks if task.rewards]
    planned = len(measurement.tasks)
    se = estimate.se if estimate.se is not None and estimate.se > _NO_SPREAD else None
    spread = _clip(t_interval(estimate.mean, se, df))
    unanimous = _unanimous_interval(scored) if spread is None and estimate.units == len(scored) else None
    missing = Counter(trial.reason.value for task in measurement.tasks for trial in task.unmeasured)
    return MeanFacts(
        mean=estimate.mean,
        se=se,
        interval=spread or unanimous,
        interval_kind="t" if spread is not None else "wilson" if unanimous is not None else None,
        n_scored=len(scored),
        n_tasks=planned,
        coverage=len(scored) / planned if planned else None,
        num_trials=measurement.num_trials,
        n_trials=sum(len(task.rewards) for task in scored),
        n_missing=sum(missing.values()),
        missing=tuple(sorted(missing.items())),
    )


def _clip(interval: Interval | None) -> Interval | None:
    """Rewards lie in [0, 1], so the part of an interval beyond it covers nothing."""
    return None if interval is None else Interval(max(0.0, interval.low), min(1.0, interval.high))


def _unanimous_interval(scored: Sequence[TaskOutcomes]) -> Interval | None:
    """Wilson's interval over tasks that all passed or all failed; None for anything else."""
    rewards = [reward for task in scored for reward in task.rewards]
    if rewards and all(reward >= PASS_REWARD for reward in rewards):
        return wilson(len(scored), len(scored))
    if rewards and all(reward == 0.0 for reward in rewards):
        return wilson(0, len(scored))
    return None


def build_matrix(columns: Sequence[MatrixColumn], measurements: Sequence[Measurement]) -> Matrix:
    """Returns the matrix of val tasks by candidates.

    Args:
        columns: The candidates.
        measurements: Their measurements, over the same tasks in the same order.
    """
    if not measurements:
        return Matrix((), ())
    rows = zip(*(measurement.tasks for measurement in measurements), strict=True)
    return Matrix(
        tuple(columns),
        tuple(MatrixRow(clean_line(tasks[0].task_id), tuple(map(describe_cell, tasks))) for tasks in rows),
    )


def describe_cell(task: TaskOutcomes) -> Cell:
    """Returns a candidate's value on a task, or why there is none."""
    if not task.rewards:
        return Cell(None, 0, _explain(task) or "no trial was run")
    mean = math.fsum(task.rewards) / len(task.rewards)
    return Cell(mean, len(task.rewards), _explain(task))


def describe_task(task: TaskOutcomes) -> TaskScore:
    """Returns a candidate's value on a task with its error."""
    cell = describe_cell(task)
    return TaskScore(cell.mean, task_stats(task.rewards).se, cell.n_trials, cell.note)


def _explain(task: TaskOutcomes) -> str:
    if not task.unmeasured:
        return ""
    reasons = Counter(trial.reason.value for trial in task.unmeasured)
    return "without a reward: " + ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
