"""What the gate can be told."""

from __future__ import annotations

import math
from typing import get_args

import pytest

from capevolve.errors import UserError
from capevolve.gate import MODES, GateSettings, Mode


def test_the_defaults_are_the_documented_ones():
    assert GateSettings() == GateSettings(
        mode="paired", k_se=1.0, threshold=0.0, min_coverage=0.6, multiplier="t", no_regression=False
    )


def test_an_unknown_mode_is_refused_with_the_names_of_all_modes():
    with pytest.raises(UserError) as caught:
        GateSettings(mode="bayes")
    assert caught.value.where == "gate.mode"
    for mode in MODES:
        assert mode in str(caught.value)


def test_the_registry_and_the_type_name_the_same_modes():
    assert (*MODES, "confirm") == get_args(Mode)
    assert all(rule.summary for rule in MODES.values())


def test_an_unknown_multiplier_is_refused():
    with pytest.raises(UserError, match="normal"):
        GateSettings(multiplier="z")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("k_se", -0.1),
        ("k_se", math.nan),
        ("k_se", math.inf),
        ("k_se", 11.0),
        ("threshold", -0.1),
        ("threshold", 1.0),
        ("threshold", math.nan),
        ("min_coverage", 1.1),
        ("min_coverage", -0.1),
        ("min_coverage", math.nan),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_key(key: str, value: float):
    with pytest.raises(UserError) as caught:
        GateSettings(**{key: value})
    assert caught.value.where == f"gate.{key}"
