"""The gate's settings as the spec has them: each key arrives, and no other default takes its place."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest

from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.settings import EDITION, GateSettings
from capevolve.spec import ConfirmSpec, GateSpec


def test_the_defaults_of_the_spec_are_those_of_the_gate():
    assert gate_settings(GateSpec()) == GateSettings()
    assert gate_settings(GateSpec(mode="confirm")) == GateSettings(mode="confirm", confirm=ConfirmProfile())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mode", "significant"),
        ("k_se", 2.5),
        ("threshold", 0.25),
        ("min_coverage", 0.75),
        ("multiplier", "normal"),
        ("no_regression", True),
    ],
)
def test_every_key_of_the_gate_arrives(key: str, value: object):
    assert gate_settings(GateSpec(**{key: value})) == GateSettings(**{key: value})


KNOBS = {
    "alpha_run": 0.11,
    "max_failed_confirmations": 3,
    "race_frac": 0.4,
    "race_kill_p": 0.6,
    "screen_p": 0.3,
    "peek_frac": 0.3,
    "peek_p": 0.7,
    "looks": (2, 1, 1),
    "look_split": (0.2, 0.2, 0.2),
    "look_futility": (0.5, 0.4),
    "look_trials": 9,
    "effect": 0.3,
}


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize("key", list(KNOBS))
def test_every_knob_of_confirm_arrives_and_leaves_the_others_to_the_profile(profile: str, key: str):
    spec = GateSpec(mode="confirm", confirm=ConfirmSpec(profile=profile, **{key: KNOBS[key]}))
    found = asdict(gate_settings(spec).confirm)
    assert found == {**asdict(PROFILES[profile]), key: KNOBS[key]}


def test_the_spec_has_every_knob_of_the_profile():
    assert set(ConfirmSpec.model_fields) - {"profile"} == {field.name for field in fields(ConfirmProfile)}
    assert set(KNOBS) == {field.name for field in fields(ConfirmProfile)}


@pytest.mark.parametrize("mode", ["paired", "significant", "threshold", "strict"])
def test_the_other_modes_have_no_profile(mode: str):
    assert gate_settings(GateSpec(mode=mode)).confirm is None


def test_new_verdicts_follow_the_newest_edition():
    assert gate_settings(GateSpec()).edition == EDITION
