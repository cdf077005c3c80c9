"""What mode confirm can be told, and that settings on record read back as they were."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest

from capevolve.canonical import canonical_json
from capevolve.errors import UserError
from capevolve.gate import GateSettings
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.gate.settings import EDITION, parse_settings


def test_the_defaults_are_the_documented_ones():
    assert ConfirmProfile() == ConfirmProfile(
        alpha_run=0.20,
        max_failed_confirmations=8,
        race_frac=0.5,
        race_kill_p=0.70,
        screen_p=0.35,
        looks=(1, 1, 2),
        look_split=(0.30, 0.30, 0.40),
        look_futility=(0.25, 0.12),
        look_trials=None,
        effect=0.10,
    )
    assert PROFILES["default"] == ConfirmProfile()


def test_the_strict_profile_spends_five_percent_over_four_slots_and_is_the_default_otherwise():
    assert PROFILES["strict"] == replace(ConfirmProfile(), alpha_run=0.05, max_failed_confirmations=4)
    assert PROFILES["strict"].alpha == 0.0125
    assert set(PROFILES) == {"default", "strict"}


def test_a_slot_is_tested_at_its_share_of_the_runs_error_and_its_looks_share_that():
    profile = ConfirmProfile()
    assert profile.alpha == pytest.approx(0.025)
    assert profile.limits == pytest.approx((0.0075, 0.0075, 0.01))
    for known in PROFILES.values():
        assert sum(known.limits) <= known.alpha * (1 + 1e-9)
        assert known.alpha * known.max_failed_confirmations <= known.alpha_run * (1 + 1e-9)


def test_looks_may_spend_less_than_their_slot_and_never_more():
    assert sum(ConfirmProfile(look_split=(0.1, 0.1, 0.1)).limits) == pytest.approx(0.0075)
    ConfirmProfile(look_split=(1 / 3, 1 / 3, 1 / 3))
    with pytest.raises(UserError, match="cannot use"):
        ConfirmProfile(look_split=(0.3, 0.3, 0.41))


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("alpha_run", [0.0, 1.0, -0.1, 1.5, NAN, INF]),
        ("effect", [0.0, 1.0, -0.1, NAN]),
        ("race_frac", [0.0, 1.01, -0.5, NAN]),
        ("race_kill_p", [0.0, 1.01, NAN, -INF]),
        ("screen_p", [0.0, 1.01, NAN]),
        ("max_failed_confirmations", [0, -1, NAN]),
        ("looks", [(), (0, 1, 2), (1, 1, -2), (NAN, 1, 2), (1, 1, NAN)]),
        ("look_split", [(), (0.3, 0.3), (0.3, 0.3, 0.2, 0.2), (0.0, 0.3, 0.4), (0.5, 0.5, 0.5)]),
        ("look_split", [(NAN, 0.3, 0.4), (0.3, NAN, 0.4), (0.3, 0.3, NAN), (0.3, -0.1, 0.4)]),
        ("look_futility", [(), (0.25,), (0.25, 0.12, 0.1), (0.0, 0.12), (0.25, 1.01)]),
        ("look_futility", [(NAN, 0.12), (0.25, NAN)]),
        ("look_trials", [0, -1, NAN]),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_key(key: str, values: list[object]):
    for value in values:
        with pytest.raises(UserError) as caught:
            ConfirmProfile(**{key: value})
        assert caught.value.where == f"gate.confirm.{key}", value
        assert caught.value.fix


def test_the_ends_of_the_ranges_are_allowed():
    profile = ConfirmProfile(
        race_frac=1.0, race_kill_p=1.0, screen_p=1.0, max_failed_confirmations=1, look_futility=(1.0, 1.0)
    )
    assert profile.alpha == profile.alpha_run
    single = ConfirmProfile(looks=(1,), look_split=(1.0,), look_futility=(), look_trials=1)
    assert single.limits == (single.alpha,)


def test_a_profile_goes_with_its_mode_and_with_no_other():
    for wrong in ({"mode": "confirm"}, {"mode": "paired", "confirm": ConfirmProfile()}):
        with pytest.raises(UserError, match="goes with mode confirm") as caught:
            GateSettings(**wrong)
        assert caught.value.where == "gate"


@pytest.mark.parametrize(
    "settings",
    [
        GateSettings(),
        GateSettings(mode="threshold", threshold=0.25, min_coverage=0.9, no_regression=True),
        GateSettings(mode="confirm", confirm=ConfirmProfile()),
        GateSettings(mode="confirm", confirm=PROFILES["strict"], no_regression=True),
        GateSettings(mode="confirm", confirm=ConfirmProfile(look_trials="auto", effect=1 / 3)),
        GateSettings(
            mode="confirm",
            confirm=ConfirmProfile(looks=(2,), look_split=(0.9,), look_futility=(), look_trials=5),
        ),
    ],
)
def test_stored_settings_read_back_as_they_were(settings: GateSettings):
    read = parse_settings(canonical_json(asdict(settings)))
    assert read == settings
    assert read.edition == EDITION == 3
    hash(read)  # lists became tuples again


def test_settings_of_a_time_before_editions_are_of_the_first():
    old = {"mode": "paired", "k_se": 2.0, "threshold": 0.0, "min_coverage": 0.6}
    read = parse_settings(json.dumps(old))
    assert (read.edition, read.k_se, read.confirm) == (1, 2.0, None)
    assert read == GateSettings(k_se=2.0, edition=1)


@pytest.mark.parametrize("edition", [0, 4, -1])
def test_an_edition_that_does_not_exist_is_refused(edition: int):
    with pytest.raises(UserError) as caught:
        parse_settings(json.dumps({"edition": edition}))
    assert caught.value.where == "gate.edition"


def test_stored_settings_with_a_knob_that_does_not_exist_are_refused():
    for stored in ({"alpha": 0.1}, {"mode": "confirm", "confirm": {"alpha": 0.1}}):
        with pytest.raises(TypeError, match="alpha"):
            parse_settings(json.dumps(stored))


def test_stored_settings_out_of_range_are_refused_by_their_key():
    stored = {"mode": "confirm", "confirm": {**asdict(ConfirmProfile()), "alpha_run": 1.0}}
    with pytest.raises(UserError) as caught:
        parse_settings(json.dumps(stored))
    assert caught.value.where == "gate.confirm.alpha_run"
