"""Old and new scores of the same rollouts side by side: pure functions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from capevolve.evaluate.rescore import AGENT_FAILED, Rescored
from capevolve.model import Scored

_SAME = 1e-9
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Mean:
    """The unweighted mean of the task means; None when no task has a reward.

    Attributes:
        n_tasks, n_trials: Tasks with a reward, and their trials.
    """

    value: float | None
    n_tasks: int
    n_trials: int


@dataclass(frozen=True, slots=True)
class Left:
    """Rollouts without a new score for one reason; `named` are the first few, as `task trial`."""

    reason: str
    count: int
    named: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RescoreComparison:
    """What a changed scorer changes in one evaluation.

    Attributes:
        old, new: Means over all trials that have the one or the other.
        old_shared, new_shared: Both over the trials that have both.
        higher, lower, same: Tasks by how their mean over those trials moved.
        agent_failures: Trials in both that the agent failed: 0 without the scorer.
        left: What a new score was not had for.
    """

    rescored: Rescored
    old: Mean
    new: Mean
    old_shared: Mean
    new_shared: Mean
    higher: int
    lower: int
    same: int
    agent_failures: int
    left: tuple[Left, ...]


def compare(rescored: Rescored) -> RescoreComparison:
    """Compares the recorded rewards of an evaluation with those of the current scorer."""
    old = {
        (row.task_id, row.trial): row.outcome.reward
        for row in rescored.trials
        if isinstance(row.outcome, Scored)
    }
    new = {key: row.reward for key, row in rescored.again.items() if row.reward is not None}
    shared = old.keys() & new.keys()
    before, after = ({key: scores[key] for key in shared} for scores in (old, new))
    means = _task_means(before)
    moves = Counter(_sign(mean - means[task_id]) for task_id, mean in _task_means(after).items())
    left: dict[str, list[str]] = defaultdict(list)
    for key, row in sorted(rescored.again.items()):
        if row.reason is not None:
            left[row.reason].append(f"{key[0]} trial {key[1]}")
    return RescoreComparison(
        rescored,
        old=_mean(old),
        new=_mean(new),
        old_shared=_mean(before),
        new_shared=_mean(after),
        higher=moves[1],
        lower=moves[-1],
        same=moves[0],
        agent_failures=sum(row.detail == AGENT_FAILED for row in rescored.again.values()),
        left=tuple(Left(reason, len(n), tuple(n[:_NAMED])) for reason, n in sorted(left.items())),
    )


def _sign(move: float) -> int:
    return 0 if abs(move) <= _SAME else 1 if move > 0 else -1


def _task_means(rewards: Mapping[tuple[str, int], float]) -> dict[str, float]:
    by_task: dict[str, list[float]] = defaultdict(list)
    for (task_id, _), reward in sorted(rewards.items()):
        by_task[task_id].append(reward)
    return {task_id: math.fsum(values) / len(values) for task_id, values in by_task.items()}


def _mean(rewards: Mapping[tuple[str, int], float]) -> Mean:
    means = _task_means(rewards)
    value = math.fsum(means.values()) / len(means) if means else None
    return Mean(value, len(means), len(rewards))
