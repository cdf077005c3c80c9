"""From two val measurements to a verdict."""

from __future__ import annotations

from capevolve.errors import UserError
from capevolve.gate.evidence import (
    find_asymmetry,
    find_flat,
    find_shortage,
    find_unusable,
    gather,
    refuse_unfit,
)
from capevolve.gate.modes import MODES
from capevolve.gate.regression import apply_veto, find_regressions
from capevolve.gate.settings import GateSettings
from capevolve.gate.verdicts import abstain
from capevolve.model import Measurement, Verdict

__all__ = ["MODES", "GateSettings", "judge"]


def judge(candidate: Measurement, incumbent: Measurement, settings: GateSettings) -> Verdict:
    """Returns the verdict on a candidate.

    Args:
        candidate, incumbent: Full val measurements. The order of tasks and trials is irrelevant.
        settings: The gate's mode and knobs.

    Returns:
        Accept or reject by the mode's rule. Indecisive, which says nothing of the edit, when a reward is not
        a number, when fewer than `min_coverage` of either side's tasks were measured, when errors hit one
        arm more than the other, when fewer than two tasks were measured on both sides, or when every trial
        of both sides has the same reward.

    Raises:
        TrainGateError: A measurement is not of val, or of a subset of it.
        UserError: The mode is `confirm`, which judges stage by stage: see `gate.confirm.judge`.
    """
    rule = MODES.get(settings.mode)
    if rule is None:
        raise UserError(f"mode {settings.mode} does not judge two stored measurements", where="gate.mode")
    refuse_unfit(candidate, "candidate")
    refuse_unfit(incumbent, "incumbent")
    doubt = find_unusable(candidate, "candidate", settings.min_coverage) or find_unusable(
        incumbent, "incumbent", settings.min_coverage
    )
    if doubt is not None:
        return abstain(doubt, None)
    evidence = gather(candidate, incumbent)
    doubt = (
        find_asymmetry(candidate, incumbent)
        or find_shortage(evidence.comparison)
        or (find_flat(candidate, incumbent) if settings.edition >= 2 else None)
    )
    if doubt is not None:
        return abstain(doubt, evidence.comparison)
    verdict = rule.decide(evidence, settings)
    if settings.no_regression:
        verdict = apply_veto(verdict, find_regressions(evidence.comparison))
    return verdict
