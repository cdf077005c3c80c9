"""The gate's settings as the spec has them."""

from __future__ import annotations

from dataclasses import replace

from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.gate.settings import GateSettings
from capevolve.spec import ConfirmSpec, GateSpec


def gate_settings(spec: GateSpec) -> GateSettings:
    """Returns the gate's settings."""
    return GateSettings(
        mode=spec.mode,
        k_se=spec.k_se,
        threshold=spec.threshold,
        min_coverage=spec.min_coverage,
        multiplier=spec.multiplier,
        no_regression=spec.no_regression,
        confirm=_read_profile(spec.confirm or ConfirmSpec()) if spec.mode == "confirm" else None,
    )


def _read_profile(spec: ConfirmSpec) -> ConfirmProfile:
    """The named profile with the knobs that the spec sets."""
    given = {key: value for key, value in spec if key != "profile" and value is not None}
    return replace(PROFILES[spec.profile], **given)
