"""From two val measurements to a verdict."""

from __future__ import annotations

from capevolve.gate.evidence import (
    Doubt,
    find_asymmetry,
    find_shortage,
    find_unusable,
    gather,
    refuse_unfit,
)
from capevolve.gate.modes import MODES
from capevolve.gate.regression import apply_veto, find_regressions
from capevolve.gate.settings import GateSettings
from capevolve.model import Decision, Measurement, Verdict
from capevolve.stats import Comparison

__all__ = ["MODES", "GateSettings", "judge"]


def judge(candidate: Measurement, incumbent: Measurement, settings: GateSettings) -> Verdict:
    """Returns the verdict on a candidate.

    Args:
        candidate, incumbent: Full val measurements. The order of tasks and trials is irrelevant.
        settings: The gate's mode and knobs.

    Returns:
        Accept or reject by the mode's rule. Indecisive, which says nothing of the edit, when a reward is not
        a number, when fewer than `min_coverage` of either side's tasks were measured, when errors hit one
        arm more than the other, or when fewer than two tasks were measured on both sides.

    Raises:
        TrainGateError: A measurement is not of val, or of a subset of it.
    """
    refuse_unfit(candidate, "candidate")
    refuse_unfit(incumbent, "incumbent")
    doubt = find_unusable(candidate, "candidate", settings.min_coverage) or find_unusable(
        incumbent, "incumbent", settings.min_coverage
    )
    if doubt is not None:
        return _abstain(doubt, None)
    evidence = gather(candidate, incumbent)
    doubt = find_asymmetry(candidate, incumbent) or find_shortage(evidence)
    if doubt is not None:
        return _abstain(doubt, evidence.comparison)
    verdict = MODES[settings.mode].decide(evidence, settings)
    if settings.no_regression:
        verdict = apply_veto(verdict, find_regressions(evidence.comparison))
    return verdict


def _abstain(doubt: Doubt, found: Comparison | None) -> Verdict:
    return Verdict(
        decision=Decision.INDECISIVE,
        rule=doubt.rule,
        reason=doubt.reason,
        delta=None if found is None else found.mean,
        se=None if found is None else found.se,
        bar=None,
        p_value=None,
        n=0 if found is None else found.n,
        improved=0 if found is None else found.improved,
        worse=0 if found is None else found.worse,
        same=0 if found is None else found.same,
        dropped=() if found is None else found.dropped,
    )
