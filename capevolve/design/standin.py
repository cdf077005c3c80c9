"""A record that stands in for the incumbent's while there is none, so that the gate's own code can plan."""

from __future__ import annotations

import math

from capevolve.gate.confirm.case import Ask, Case, plan_stages
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.gate.confirm.sizing import find_look_trials
from capevolve.model import Measurement, TaskOutcomes


def pose_record(n_tasks: int, within: float) -> Measurement:
    """Returns a val measurement of so many tasks, each with the sample variance `within` over two trials.

    Args:
        n_tasks: Val tasks.
        within: Variance of one trial within a task, in [0, 0.5].
    """
    apart = math.sqrt(within / 2.0)
    rewards = (0.5 - apart, 0.5 + apart)
    return Measurement(
        evaluation_id="",
        candidate_id="",
        split="val",
        num_trials=2,
        base_seed=0,
        tasks=tuple(TaskOutcomes(f"{number:06d}", rewards) for number in range(n_tasks)),
    )


def size_look(profile: ConfirmProfile, num_trials: int, n_val: int, within: float) -> int:
    """Returns the trials per task and arm of one unit of a look, as a run with this noise would size it."""
    return find_look_trials(profile, num_trials, pose_record(n_val, within))


def list_stages(profile: ConfirmProfile, n_val: int, look_trials: int) -> tuple[Ask, ...]:
    """Returns the stages of a confirmation on so many val tasks."""
    return plan_stages(
        Case(
            subject="",
            run_seed=0,
            record=pose_record(n_val, 0.0),
            profile=profile,
            look_trials=look_trials,
            failures=0,
        )
    )


def count_rollouts(ask: Ask, n_val: int) -> int:
    """Returns the rollouts that a stage takes, both arms together."""
    tasks = n_val if ask.task_ids is None else len(ask.task_ids)
    return tasks * ask.num_trials * (2 if ask.both else 1)
