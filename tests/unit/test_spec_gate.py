"""How a project asks for mode confirm and the A/A control, and what it is told of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from capevolve.errors import SpecError, UserError
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.settings import GateSettings
from capevolve.spec import GateSpec, load_spec
from capevolve.spec.resume import parse_spec, spec_json

CONFIRM = GateSettings(mode="confirm", confirm=ConfirmProfile())
STRICT = GateSettings(mode="confirm", confirm=PROFILES["strict"])


@pytest.fixture
def load(tmp_path: Path):
    """Loads a spec with these lines after its name, which is line 1; returns the spec."""

    def read(text: str):
        (tmp_path / "capevolve.yaml").write_text(f"name: demo\n{text}")
        return load_spec(tmp_path).spec

    return read


@pytest.fixture
def refusal(load):
    def message(text: str, line: int, key: str) -> str:
        with pytest.raises(SpecError) as caught:
            load(text)
        said = str(caught.value)
        assert f"{key} " in said
        assert f"line {line}" in said
        return said

    return message


# --- ways to ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("gate: confirm\n", CONFIRM),
        ("gate:\n  mode: confirm\n", CONFIRM),
        ("gate:\n  mode: confirm\n  confirm:\n", CONFIRM),
        ("gate:\n  confirm: default\n", CONFIRM),
        ("gate:\n  confirm: {}\n", CONFIRM),
        ("gate:\n  confirm: strict\n", STRICT),
        ("gate:\n  mode: confirm\n  confirm: strict\n", STRICT),
        ("gate:\n  confirm:\n    profile: strict\n", STRICT),
        ("gate_mode: confirm\n", CONFIRM),
        ("gate: strict\n", GateSettings(mode="strict")),
        ("gate: paired\n", GateSettings()),
        ("gate:\n", GateSettings()),
        ("", GateSettings()),
    ],
)
def test_a_gate_can_be_asked_for_in_short_and_in_full(load, text: str, settings: GateSettings):
    assert gate_settings(load(text).gate) == settings


def test_a_knob_of_confirm_is_enough_to_ask_for_the_mode(load):
    spec = load("gate: {confirm: {alpha_run: .1}}\n")
    assert spec.gate.mode == "confirm"
    assert gate_settings(spec.gate).confirm == ConfirmProfile(alpha_run=0.1)


def test_other_keys_of_the_gate_stay_beside_confirm(load):
    gate = load("gate:\n  min_coverage: 0.9\n  no_regression: true\n  confirm: strict\n").gate
    settings = gate_settings(gate)
    assert (settings.min_coverage, settings.no_regression) == (0.9, True)
    assert settings.confirm == PROFILES["strict"]


def test_a_profile_is_the_base_of_the_knobs_that_are_set(load):
    text = (
        "gate:\n  confirm:\n    profile: strict\n    looks: [2, 3]\n    look_split: [0.5, 0.5]\n"
        "    look_futility: [0.3]\n    look_trials: auto\n    effect: 0.2\n    race_frac: 0.25\n"
    )
    assert gate_settings(load(text).gate).confirm == ConfirmProfile(
        alpha_run=0.05,
        max_failed_confirmations=4,
        looks=(2, 3),
        look_split=(0.5, 0.5),
        look_futility=(0.3,),
        look_trials="auto",
        effect=0.2,
        race_frac=0.25,
    )


def test_look_trials_can_be_a_number(load):
    assert gate_settings(load("gate: {confirm: {look_trials: 5}}\n").gate).confirm == ConfirmProfile(
        look_trials=5
    )


def test_the_control_is_off_unless_it_is_asked_for(load):
    assert load("gate: confirm\n").gate.aa_control is False
    gate = load("gate:\n  aa_control: true\n").gate
    assert (gate.aa_control, gate.mode) == (True, "paired")
    assert load("gate: {aa_control: true, confirm: strict}\n").gate.aa_control is True


@pytest.mark.parametrize("text", ["gate: confirm\n", "gate:\n  aa_control: true\n  confirm: {effect: .2}\n"])
def test_a_stored_spec_reads_back_with_the_same_gate(load, text: str):
    spec = load(text)
    assert parse_spec(spec_json(spec)).gate == spec.gate


def test_a_spec_that_was_stored_before_there_was_confirm_has_the_old_gate():
    gate = GateSpec.model_validate_json('{"mode": "strict", "k_se": 1.0}')
    assert (gate.mode, gate.confirm, gate.aa_control) == ("strict", None, False)


# --- mistakes -------------------------------------------------------------------------------------


def test_a_mode_or_a_profile_that_does_not_exist_is_refused_with_the_ones_that_do(refusal):
    assert "confirm" in refusal("gate: bayes\n", 2, "gate.mode")
    assert "strict" in refusal("gate:\n  confirm: strickt\n", 3, "gate.confirm.profile")


def test_an_unknown_knob_is_refused_with_its_line_and_the_known_ones(refusal):
    said = refusal("gate:\n  confirm:\n    screen_p: 0.3\n    alpha: 0.1\n", 5, "gate.confirm.alpha")
    assert "is not a known key" in said
    assert "alpha_run" in said


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('alpha_run: "0.1"', "must be a number"),
        ("alpha_run: true", "must be a number"),
        ("alpha_run: .nan", "finite"),
        ("alpha_run: 1.5", "at most 1"),
        ("race_kill_p: -0.1", "at least 0"),
        ("max_failed_confirmations: 0", "at least 1"),
        ("max_failed_confirmations: 2.5", "whole number"),
        ("looks: 3", "must be a list"),
        ("look_split: 0.3", "must be a list"),
    ],
)
def test_a_mistyped_knob_is_refused_with_its_line(refusal, line: str, wanted: str):
    key = f"gate.confirm.{line.partition(':')[0]}"
    assert wanted in refusal(f"gate:\n  confirm:\n    effect: 0.2\n    {line}\n", 5, key)


def test_the_members_of_a_list_are_checked_one_by_one(refusal):
    refusal("gate:\n  confirm:\n    looks: [1, 0]\n", 4, "gate.confirm.looks[1]")
    refusal("gate:\n  confirm:\n    look_split: [0.3, '0.3']\n", 4, "gate.confirm.look_split[1]")


def test_look_trials_that_are_neither_a_number_nor_auto_are_refused_in_plain_words(refusal):
    said = refusal("gate:\n  confirm:\n    look_trials: many\n", 4, "gate.confirm.look_trials")
    assert "auto" in said
    assert "constrained" not in said, "pydantic's name of a type"


@pytest.mark.parametrize("value", ["[strict]", "true", "3"])
def test_confirm_is_a_profile_or_a_mapping(refusal, value: str):
    assert "must be a mapping" in refusal(f"gate:\n  confirm: {value}\n", 3, "gate.confirm")


@pytest.mark.parametrize("mode", ["paired", "significant", "threshold", "strict"])
def test_confirm_beside_another_mode_is_refused(refusal, mode: str):
    said = refusal(f"gate:\n  mode: {mode}\n  confirm: strict\n", 2, "gate.confirm")
    assert f"mode is {mode}" in said


def test_a_refusal_names_its_key_once(refusal):
    assert "gate gate" not in refusal("gate:\n  mode: paired\n  confirm: strict\n", 2, "gate.confirm")


BAD = [
    {"confirm": {"alpha_run": 0.0}},
    {"confirm": {"looks": [1, 2]}},
    {"confirm": {"look_split": [0.5, 0.5, 0.5]}},
    {"confirm": {"race_frac": 0}},
]


@pytest.mark.parametrize("gate", BAD)
def test_knobs_that_do_not_go_together_are_refused_by_the_key(gate):
    with pytest.raises(UserError) as caught:
        gate_settings(GateSpec.model_validate(gate))
    assert (caught.value.where or "").startswith("gate.confirm.")


@pytest.mark.parametrize("gate", [BAD[1], {"mode": "threshold", "threshold": 2.0}])
def test_a_gate_that_cannot_be_used_is_refused_before_the_target_is_called(make_project, search_only, gate):
    project = make_project(spec={"gate": gate})
    with pytest.raises(UserError):
        search_only(project)
    assert project.calls() == []
