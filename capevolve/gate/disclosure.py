"""What a gate costs: how often an edit that changes nothing is accepted.

For the uncontrolled modes an estimate; for mode `confirm` a bound that holds whatever the edits do.
"""

from __future__ import annotations

import numpy as np

from capevolve.gate.error_table import ErrorCell, read_error_table
from capevolve.gate.modes import MODES
from capevolve.gate.settings import GateSettings, Mode
from capevolve.stats import normal_cdf


def false_accept_rate(settings: GateSettings) -> float | None:
    """Returns the chance that one look accepts an edit without effect, leaving ties aside.

    0.16 for `paired` with k_se = 1, and for `significant` an upper bound of the same size; 0.5 for `strict`.

    Returns:
        None for `threshold` with a positive margin: its chance depends on the noise of the evaluation. None
        for `confirm`, which bounds the whole run and not one look.
    """
    bar = _find_bar(settings)
    return None if bar is None else normal_cdf(-bar)


def _find_bar(settings: GateSettings) -> float | None:
    rule = MODES.get(settings.mode)
    return None if rule is None else rule.find_noop_bar(settings)


def chance_of_any_false_accept(
    settings: GateSettings, n_candidates: int, n_tasks: int | None = None, num_trials: int | None = None
) -> float | None:
    """Returns the chance that a run with `n_candidates` edits without effect accepts at least one.

    For `confirm` that is `alpha_run`, a bound and not an estimate: it holds for any number of candidates.

    With k_se = 1, and with any gain, it was simulated (`error_table.json`): the cell nearest in n_tasks, then
    in num_trials, both on a logarithmic scale, interpolated over candidates, likewise. For more candidates
    than the table knows, the chance to accept none falls on as in the approximation.

    Otherwise, and without `n_tasks` and `num_trials`, it is approximated. All candidates are compared with
    one stored measurement of the incumbent, whose luck they share: with equal noise in both arms, P = 1 -
    E[Phi(Z + sqrt(2) bar)^n], Z standard normal and bar in standard errors of a delta. For `paired` with
    k_se = 1: 0.54 for 10 candidates, 0.65 for 20.

    Args:
        settings: The gate's.
        n_candidates: Edits without effect, at least 0.
        n_tasks, num_trials: Val tasks, and trials per task; None or 0 where they are not known.

    Returns:
        In [0, 1]; None where the chance depends on the noise: `threshold` with a positive margin.

    Caution: Simulated and approximated without session effects: if what was stored of the incumbent was made
        on a bad day, the chance is larger. A veto (`no_regression`) makes it smaller.
    """
    if settings.confirm is not None:
        return settings.confirm.alpha_run
    cell = _find_cell(settings, n_tasks, num_trials)
    if cell is None:
        return _approximate(settings, n_candidates)
    largest = cell.candidates[-1]
    chance = cell.interpolate(n_candidates)
    if n_candidates <= largest:
        return chance
    known, wanted = _approximate(settings, largest), _approximate(settings, n_candidates)
    if known is None or wanted is None:
        return chance
    return 1.0 - (1.0 - chance) * (1.0 - wanted) / (1.0 - known)


def _find_cell(settings: GateSettings, n_tasks: int | None, num_trials: int | None) -> ErrorCell | None:
    """Returns the cell of the simulation that fits; None where the approximation has to do."""
    if not n_tasks or not num_trials:
        return None
    mode = _find_simulated(settings)
    if mode is None:
        return None
    return read_error_table().find_nearest(mode, n_tasks, num_trials)


def _find_simulated(settings: GateSettings) -> Mode | None:
    """Returns the simulated mode that judges like these settings."""
    if settings.mode == "strict" or (settings.mode == "threshold" and settings.threshold == 0.0):
        return "strict"
    if settings.k_se == read_error_table().k_se and settings.multiplier == "t":
        return settings.mode
    return None


def _approximate(settings: GateSettings, n_candidates: int) -> float | None:
    bar = _find_bar(settings)
    if bar is None:
        return None
    # Gauss-Hermite quadrature of the standard normal.
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    survived = [normal_cdf(float(z) + 2.0**0.5 * bar) ** n_candidates for z in nodes]
    return float(1.0 - np.dot(weights / weights.sum(), survived))


def describe_error(settings: GateSettings, n_candidates: int, n_tasks: int, num_trials: int) -> str:
    """Returns what the gate costs in one sentence, for the start of a run.

    Args:
        settings: The gate's.
        n_candidates: The most edits that the run may judge, at least 1.
        n_tasks: Val tasks, at least 1.
        num_trials: Trials per task, at least 1.
    """
    name = f"gate {settings.mode}"
    if settings.confirm is not None:
        slots = settings.confirm.max_failed_confirmations
        return (
            f"{name}: the chance that any edit that changes nothing is accepted is at most "
            f"{_percent(settings.confirm.alpha_run)} over the whole run "
            f"({slots} failed confirmation{'' if slots == 1 else 's'})"
        )
    chance = chance_of_any_false_accept(settings, n_candidates, n_tasks, num_trials)
    if chance is None:
        return f"{name}: how often an edit that changes nothing is accepted depends on the noise of val"
    cell = _find_cell(settings, n_tasks, num_trials)
    basis = "approximated" if cell is None else f"simulated at {_count(cell)}"
    edits = "the one edit changed nothing, it" if n_candidates == 1 else _all_edits(n_candidates)
    rounded = "more than 99 %" if chance > 0.995 else _percent(round(chance, 2))
    return f"{name}: if {edits} would still be accepted with a chance of {rounded} ({basis})"


def _all_edits(count: int) -> str:
    return f"all {count} edits changed nothing, one"


def _count(cell: ErrorCell) -> str:
    return f"{cell.n_tasks} tasks x {cell.num_trials} trial{'' if cell.num_trials == 1 else 's'}"


def _percent(chance: float) -> str:
    return f"{100.0 * chance:.3g} %"
