"""The smallest effect that each hurdle of a design lets pass, and what a wanted effect would take.

Rewards are compared on the same tasks, so what the tasks have in common cancels and the noise within tasks
is left. Where that noise is 0 an effect is a number of tasks whose reward changes outright.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from capevolve.design.values import FINAL_LEVEL, POWER, Effect, HurdleName, Need, Resolution, Variance
from capevolve.stats import exceeds, minimal_effect, planning_se, smallest_p, t_minimal_effect

MOST = 1 << 16
"""More trials or tasks than this are no answer."""

_ENOUGH = 500
"""So many trials of one task reach any level that is ever asked for, and more of them are slow to count."""

NOTHING = "there is nothing to compare"
BEYOND = "even the largest gain could be missed too often"
UNKNOWN_SPREAD = "no accepted edit shows how effects differ from task to task"
UNDEFINED_T = "a t test needs two tasks whose deltas differ"


@dataclass(frozen=True, slots=True)
class Hurdle:
    """What a candidate has to pass, and the smallest effect it passes with.

    Attributes:
        n_tasks: Tasks.
        trials: Trials per task of the candidate.
        incumbent_trials: Of the incumbent.
        level: The one-sided p-value to reach; None where something else is to be exceeded.
        find: The smallest effect for so many tasks, and trials in each arm.
        step: Trials come in multiples of this many: the units of a confirmation's looks; None: one by one.
    """

    name: HurdleName
    n_tasks: int
    trials: int
    incumbent_trials: int
    level: float | None
    find: Callable[[int, int], Effect]
    step: int | None = None

    def resolve(self) -> Resolution:
        """Returns the smallest effect with what it rests on."""
        found = self.find(self.n_tasks, self.trials)
        return Resolution(
            self.name,
            self.n_tasks,
            self.trials,
            self.incumbent_trials,
            self.level,
            found.value,
            found.reason,
        )

    def need(self, wanted: float) -> Need:
        """Returns the trials, or the tasks, with which the smallest effect is at most `wanted`."""
        step = self.step or 1
        steps = _find_fewest(lambda count: self.find(self.n_tasks, count * step), wanted)
        tasks = _find_fewest(lambda count: self.find(count, self.trials), wanted)
        return Need(
            name=self.name,
            trials=None if steps is None else steps * step,
            tasks=tasks,
            unit=None if self.step is None else steps,
            reason="" if steps or tasks else self.find(self.n_tasks, self.trials).reason,
        )


def _find_fewest(find: Callable[[int], Effect], wanted: float) -> int | None:
    """Doubles until the wanted effect is found, then halves the gap; None beyond `MOST`."""

    def is_enough(count: int) -> bool:
        value = find(count).value
        return value is not None and not exceeds(value, wanted, wanted)

    high = 1
    while not is_enough(high):
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def permutation_hurdle(name: HurdleName, n_tasks: int, trials: int, level: float, within: float) -> Hurdle:
    """A within-task permutation test of two arms with equal trials: a confirmation, the sealed test."""

    def find(n: int, k: int) -> Effect:
        return find_permutation_effect(n, k, k, level, within)

    return Hurdle(name, n_tasks, trials, trials, level, find)


def find_permutation_effect(n: int, k: int, k_incumbent: int, level: float, within: float) -> Effect:
    """Returns the smallest effect on n tasks that the within-task permutation test finds at a level.

    `minimal_effect` of `planning_se`; none where the design cannot give a p-value that small.

    Args:
        n: Tasks.
        k, k_incumbent: Trials per task of each arm.
        level: One-sided.
        within: Variance of one trial within a task; at 0 the effect is the fewest tasks that must change.

    Caution: A normal approximation without a correction for the steps of 0/1 rewards, and with one variance
        for both arms. The exact test found the effect named for 20 tasks x 3 trials (v = 0.143, +0.17) with a
        chance of 0.62 to 0.67, that for 100 x 3 with 0.71.
    """
    se = planning_se(within, k, k_incumbent, n)
    if se is None:
        return Effect(None, NOTHING)
    if not can_reach(level, n, k, k_incumbent):
        return Effect(None, f"{count(n, 'task')} x {count(k, 'trial')} cannot give a p-value of {level:.2g}")
    if within == 0.0:
        return Effect(next(m for m in range(1, n + 1) if can_reach(level, m, k, k_incumbent)) / n)
    return cap_effect(minimal_effect(se, level, POWER))


def can_reach(level: float, n: int, k: int, k_incumbent: int) -> bool:
    """Returns whether n tasks that all change outright give a p-value within a level."""
    smallest = smallest_p(n, min(k, _ENOUGH), min(k_incumbent, _ENOUGH))
    return not exceeds(smallest, level, level)


def new_tasks_hurdle(n_tasks: int, n_units: int, trials: int, variance: Variance) -> Hurdle:
    """The paired t test of the sealed test over its tasks: the claim for tasks like them."""

    def find(n: int, k: int) -> Effect:
        units = n if n_units == n_tasks else max(1, n * n_units // n_tasks)
        se = planning_se(variance.within, k, k, n)
        if se is None:
            return Effect(None, NOTHING)
        if variance.spread is None:
            return Effect(None, UNKNOWN_SPREAD)
        sd = math.sqrt(variance.spread + units * se**2)
        value = t_minimal_effect(sd, units, FINAL_LEVEL, POWER)
        return Effect(None, UNDEFINED_T) if value is None else cap_effect(value)

    return Hurdle("test_new_tasks", n_tasks, trials, trials, FINAL_LEVEL, find)


def cap_effect(value: float) -> Effect:
    """An effect below 0 passes a hurdle that lets most copies of the incumbent pass."""
    return Effect(max(0.0, value)) if value <= 1.0 else Effect(None, BEYOND)


def count(number: int, noun: str) -> str:
    """Returns "1 task", "20 tasks"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
