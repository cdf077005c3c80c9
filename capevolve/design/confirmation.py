"""What mode `confirm` lets pass: race and screen, the fresh trials, and all stages together."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from capevolve.design.hurdles import (
    BEYOND,
    Hurdle,
    can_reach,
    cap_effect,
    find_permutation_effect,
    permutation_hurdle,
)
from capevolve.design.passage import Stage, find_passage, find_raced_tasks, find_smallest
from capevolve.design.values import POWER, Effect
from capevolve.gate.confirm.case import count_part
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.stats import planning_se

_HIGHEST = 40.0
"""No effect is looked for beyond so many standard errors."""


def confirm_hurdles(
    profile: ConfirmProfile, n_tasks: int, record_trials: int, look_trials: int, within: float
) -> list[Hurdle]:
    """Returns the hurdles of mode `confirm`, in their order.

    Args:
        n_tasks: Val tasks.
        record_trials: Trials per task of the incumbent's record.
        look_trials: Trials of one unit of a look.
        within: Variance of one trial within a task.

    What passes all stages together has half a step of the screen's delta on top, the continuity correction
    for rewards of 0 and 1: single trials make coarse p-values. With it 76 to 82 % of 300 simulated candidates
    with this effect were accepted (20 and 50 tasks, 1 to 5 trials); without it 51 to 75 %.
    """
    units = sum(profile.looks)
    looking = look_stages(profile, n_tasks)

    def find_screened(n: int, k: int) -> Effect:
        plain = find_permutation_effect(n, k, record_trials, profile.screen_p, within)
        se, n_raced = planning_se(within, k, record_trials, n), count_part(profile.race_frac, n)
        if plain.value is None or not n_raced:
            return plain
        if se:
            return cap_effect(_find_factor(screen_stages(profile, n)) * se)
        changed = _find_seen(profile.race_kill_p, n, n_raced, k, record_trials)
        return Effect(None, _UNRACED) if changed is None else Effect(max(plain.value, changed / n))

    def find_through(n: int, k: int) -> Effect:
        first = find_screened(n, 1)
        second = find_permutation_effect(n, k, k, profile.limits[-1], within)
        if first.value is None or second.value is None:
            return first if first.value is None else second
        if within == 0.0:
            return _find_changed(profile, n, k // units, first.value)
        screen_se, look_se = planning_se(within, 1, record_trials, n), planning_se(within, k, k, n)
        if not screen_se or not look_se:
            return second
        screening, ratio = screen_stages(profile, n), screen_se / look_se
        half_step = (1.0 + 1.0 / record_trials) / (2.0 * n)
        return cap_effect(_find_joint_factor(screening, looking, ratio) * look_se + half_step)

    fresh = look_trials * units
    return [
        Hurdle("screen", n_tasks, 1, record_trials, profile.screen_p, find_screened),
        replace(permutation_hurdle("confirmation", n_tasks, fresh, profile.limits[-1], within), step=units),
        Hurdle("all_stages", n_tasks, fresh, fresh, None, find_through, step=units),
    ]


_UNRACED = "the race can miss every task that changes"
_UNPEEKED = "the peek can miss every task that changes"


def _find_seen(limit: float, n: int, n_part: int, k_candidate: int, k_incumbent: int) -> int | None:
    """How many of n tasks must change for a random part of them to come within a stage's limit."""
    enough = (m for m in range(n + 1) if can_reach(limit, m, k_candidate, k_incumbent))
    return find_raced_tasks(n, n_part, next(enough, n + 1), POWER)


def _find_changed(profile: ConfirmProfile, n: int, look_trials: int, screened: float) -> Effect:
    """Without noise: the smallest share of tasks, no less than `screened`, whose change the looks accept."""
    fewest = round(screened * n)
    n_peeked = count_part(profile.peek_frac, n)
    if n_peeked:
        first = profile.looks[0] * look_trials
        peeked = _find_seen(profile.peek_p, n, n_peeked, first, first)
        if peeked is None:
            return Effect(None, _UNPEEKED)
        fewest = max(fewest, peeked)
    for changed in range(fewest, n + 1):
        trials = 0
        for stage, units in zip(_list_looks(profile), profile.looks, strict=True):
            trials += units * look_trials
            if stage.accept_at is not None and can_reach(stage.accept_at, changed, trials, trials):
                return Effect(changed / n)
            if not can_reach(stage.reject_above, changed, trials, trials):
                break
    return Effect(None, BEYOND)


def screen_stages(profile: ConfirmProfile, n_tasks: int) -> tuple[Stage, ...]:
    """Returns race and screen as looks at one trial per task; without a race, the screen alone."""
    screen = Stage(1.0, None, profile.screen_p)
    if not count_part(profile.race_frac, n_tasks):
        return (screen,)
    return (Stage(profile.race_frac, None, profile.race_kill_p), screen)


def look_stages(profile: ConfirmProfile, n_tasks: int) -> tuple[Stage, ...]:
    """Returns the peek, where there is one on so many val tasks, and the looks of a confirmation."""
    looks = _list_looks(profile)
    if not count_part(profile.peek_frac, n_tasks):
        return looks
    return (Stage(profile.peek_frac * looks[0].share, None, profile.peek_p), *looks)


def _list_looks(profile: ConfirmProfile) -> tuple[Stage, ...]:
    total, units = sum(profile.looks), 0
    stages = []
    for number, (more, limit) in enumerate(zip(profile.looks, profile.limits, strict=True)):
        units += more
        last = number == len(profile.looks) - 1
        stages.append(Stage(units / total, limit, limit if last else profile.look_futility[number]))
    return tuple(stages)


@lru_cache(maxsize=64)
def _find_factor(stages: tuple[Stage, ...]) -> float:
    return find_smallest(lambda effect: find_passage(stages, effect), POWER, _HIGHEST)


@lru_cache(maxsize=256)
def _find_joint_factor(screening: tuple[Stage, ...], looking: tuple[Stage, ...], ratio: float) -> float:
    """The effect, in standard errors of the fresh delta, that passes all; the two parts share no trial."""

    def chance(effect: float) -> float:
        return find_passage(screening, effect / ratio) * find_passage(looking, effect)

    return find_smallest(chance, POWER, _HIGHEST * max(1.0, ratio))
