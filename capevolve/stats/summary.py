"""What one measurement says about a split."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capevolve.model import PASS_REWARD, Estimate, Measurement, Summary, TaskOutcomes
from capevolve.stats.moments import (
    MeanEstimate,
    cluster_key,
    cluster_robust,
    combined_stderr,
    find_mean,
    fixed_stderr,
    has_clusters,
    task_stats,
)
from capevolve.stats.passk import pass_at_k, pass_hat_k


def summarize(
    measurement: Measurement, ks: Sequence[int] | None = None, pass_reward: float = PASS_REWARD
) -> Summary:
    """Returns the summary of a measurement.

    Args:
        measurement: Per-task values of one candidate on one split.
        ks: Which pass^k and pass@k to give; None is every k from 1 to the most trials measured on a task.
        pass_reward: A trial passes when its reward is at least this.

    Returns:
        Values that are undefined are None; a k that no task has trials for is absent.
    """
    scored = _scored(measurement)
    ses = [task_stats(task.rewards).se for task in scored]
    planned = len(measurement.tasks)
    overall = estimate_mean(measurement)
    most = max((len(task.rewards) for task in scored), default=0)
    wanted = range(1, most + 1) if ks is None else ks
    return Summary(
        mean=overall.mean,
        se=overall.se,
        fixed_se=fixed_stderr(ses),
        n_tasks=planned,
        n_scored=len(scored),
        coverage=len(scored) / planned if planned else None,
        n_trials=sum(len(task.rewards) for task in scored),
        n_missing=sum(len(task.unmeasured) for task in measurement.tasks),
        pass_k=_pass_curve(scored, wanted, pass_reward, pass_hat_k),
        pass_at_k=_pass_curve(scored, wanted, pass_reward, pass_at_k),
    )


def estimate_mean(measurement: Measurement) -> MeanEstimate:
    """Returns the mean of task means over tasks with a measured trial, unweighted, with its error.

    The error is for new tasks and new trials: `combined_stderr`, or the cluster-robust one when any cluster
    holds more than one task.
    """
    scored = _scored(measurement)
    stats = [task_stats(task.rewards) for task in scored]
    means = [stat.value for stat in stats if stat.value is not None]
    keys = [cluster_key(task.task_id, task.cluster) for task in scored]
    if has_clusters(keys):
        return cluster_robust(means, keys)
    se = combined_stderr(means, [stat.se for stat in stats])
    return MeanEstimate(find_mean(means), se, None if se is None else len(means) - 1, len(means))


def _scored(measurement: Measurement) -> list[TaskOutcomes]:
    return [task for task in measurement.tasks if task.rewards]


def _pass_curve(
    scored: Sequence[TaskOutcomes],
    ks: Sequence[int],
    pass_reward: float,
    rate: Callable[[int, int, int], float | None],
) -> dict[int, Estimate]:
    """Returns the mean over the tasks that have at least k trials, for each k that any task has."""
    keys = [cluster_key(task.task_id, task.cluster) for task in scored]
    counts = [(sum(r >= pass_reward for r in task.rewards), len(task.rewards)) for task in scored]
    curve = {}
    for k in ks:
        values = []
        groups = []
        for key, (passed, trials) in zip(keys, counts, strict=True):
            value = rate(passed, trials, k)
            if value is not None:
                values.append(value)
                groups.append(key)
        if values:
            estimate = cluster_robust(values, groups)
            curve[k] = Estimate(estimate.mean, estimate.se)
    return curve
