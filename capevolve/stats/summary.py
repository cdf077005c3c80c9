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
    """Returns what a measurement says about a split: mean, errors, coverage, pass rates.

    Formula: mean and se as in `estimate_mean`; fixed_se as in `fixed_stderr`; coverage = tasks with a
        measured trial / tasks planned; pass^k and pass@k: the mean over the tasks with k trials, with its
        (clustered) se

    Args:
        measurement: Per-task values of one candidate on one split.
        ks: Which pass^k and pass@k to give; None is every k from 1 to the most trials measured on a task.
        pass_reward: A trial passes when its reward is at least this; 1 - 1e-9 unless told otherwise.

    Undefined: What is undefined is None; an empty split has no coverage. A k that no task has trials for is
        absent.

    Caution: Missing trials are left out. If the hard tasks are the ones that crash, the mean of the rest
        flatters: read it with the coverage.

    Raises:
        ValueError: A reward is NaN or infinite.

    Source: Miller (2024); `pass_hat_k` and `pass_at_k`.
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
    """Returns the mean reward of a split with its standard error for new tasks and new trials.

    Formula: the unweighted mean of the task means; se is `combined_stderr`, or `cluster_robust` when any
        cluster holds more than one task

    Args:
        measurement: Per-task values of one candidate on one split; rewards in [0, 1].

    Undefined: The mean is None when nothing was measured; se and df are None for fewer than two tasks (or
        clusters) with a measured trial.

    Caution: Every task weighs the same, however many of its trials were measured. The mean of a candidate
        that was selected for it is biased upward.

    Raises:
        ValueError: A reward is NaN or infinite.

    Source: Miller (2024); see `combined_stderr` and `cluster_robust`.
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
