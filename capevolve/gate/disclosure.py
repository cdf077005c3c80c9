"""What the uncontrolled gate modes cost: how often an edit that changes nothing is accepted."""

from __future__ import annotations

import numpy as np

from capevolve.gate.modes import MODES
from capevolve.gate.settings import GateSettings
from capevolve.stats import normal_cdf


def false_accept_rate(settings: GateSettings) -> float | None:
    """Returns the chance that one look accepts an edit without effect, leaving ties aside.

    0.16 for `paired` with k_se = 1, and for `significant` an upper bound of the same size; 0.5 for `strict`.

    Returns:
        None for `threshold` with a positive margin: its chance depends on the noise of the evaluation.
    """
    bar = MODES[settings.mode].find_noop_bar(settings)
    return None if bar is None else normal_cdf(-bar)


def chance_of_any_false_accept(settings: GateSettings, n_candidates: int) -> float | None:
    """Returns the chance that a run with `n_candidates` edits without effect accepts at least one.

    All are compared with one stored measurement of the incumbent, whose luck they share: with equal noise in
    both arms, P = 1 - E[Phi(Z + sqrt(2) bar)^n], Z standard normal and bar in standard errors of a delta. For
    `paired` with k_se = 1: 0.54 for 10 candidates, 0.65 for 20.

    Args:
        settings: The gate's.
        n_candidates: Edits without effect, at least 0.

    Returns:
        In [0, 1]; None where `false_accept_rate` is.
    """
    bar = MODES[settings.mode].find_noop_bar(settings)
    if bar is None:
        return None
    # Gauss-Hermite quadrature of the standard normal.
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    survived = [normal_cdf(float(z) + 2.0**0.5 * bar) ** n_candidates for z in nodes]
    return float(1.0 - np.dot(weights / weights.sum(), survived))
