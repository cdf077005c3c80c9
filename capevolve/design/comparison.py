"""What the modes other than `confirm` let pass: full val evaluations of both arms, compared once."""

from __future__ import annotations

import math

from capevolve.design.hurdles import NOTHING, Hurdle, cap_effect
from capevolve.design.values import POWER, Effect, Variance
from capevolve.gate.evidence import FEWEST_PAIRS
from capevolve.gate.modes import find_level
from capevolve.gate.settings import GateSettings
from capevolve.stats import exceeds, normal_quantile, planning_se, t_quantile


def gate_hurdle(
    settings: GateSettings, n_tasks: int, n_units: int, trials: int, variance: Variance
) -> Hurdle:
    """The comparison of the modes other than `confirm`: full val evaluations of both arms.

    Formula: threshold + bar SE_bar + z_power SE, with bar the multiple of standard errors that the mode asks
        for (0 for `threshold` and `strict`) and SE_bar the error it compares with: for `paired` SE itself,
        for `significant` that of two independent means.
    """

    def find(n: int, k: int) -> Effect:
        units = n if n_units == n_tasks else max(1, n * n_units // n_tasks)
        uses_error = settings.mode in ("paired", "significant")
        if n < FEWEST_PAIRS or (uses_error and units < FEWEST_PAIRS):
            return Effect(None, "every verdict is indecisive on so few tasks")
        bar = find_bar(settings, units) if uses_error else 0.0
        if variance.within == 0.0:
            return _find_flips(settings, n, bar, variance)
        se = planning_se(variance.within, k, k, n)
        if se is None:
            return Effect(None, NOTHING)
        unpaired = settings.mode == "significant"
        bar_se = _find_unpaired_se(variance, n, k) if unpaired else se
        margin = settings.threshold if settings.mode == "threshold" else 0.0
        return cap_effect(margin + bar * bar_se + normal_quantile(POWER) * se)

    return Hurdle("gate", n_tasks, trials, trials, None, find)


def find_bar(settings: GateSettings, units: int) -> float:
    """Returns the standard errors to exceed on so many units, as the gate has them."""
    if settings.multiplier == "normal":
        return settings.k_se
    df = units - 1 if settings.mode == "paired" else 2 * (units - 1)
    return max(settings.k_se, -t_quantile(find_level(settings), df))


def _find_unpaired_se(variance: Variance, n: int, k: int) -> float:
    """Returns the error of a difference of two independent means; with a bound, the bound for both parts."""
    between = variance.between
    one = variance.within if between is None else between + variance.within / k
    return math.sqrt(2.0 * one / n)


def _find_flips(settings: GateSettings, n: int, bar: float, variance: Variance) -> Effect:
    """Returns the smallest share of tasks that must change outright for a gate without noise to accept."""
    if settings.mode in ("strict", "threshold"):
        margin = settings.threshold if settings.mode == "threshold" else 0.0
        return Effect((math.floor(margin * n + 1e-9) + 1) / n)
    level = find_level(settings)
    passing = (m for m in range(1, n) if exceeds(math.sqrt(m * (n - 1) / (n - m)), bar, bar))
    fewest = next(passing, n)
    if fewest == n and 0.5**n > level:
        return Effect(None, f"{n} tasks that all change outright are still too few for k_se")
    if settings.mode == "significant":
        fewest = max(fewest, math.floor(bar * _find_unpaired_se(variance, n, 1) * n + 1e-9) + 1)
    return cap_effect(fewest / n)
