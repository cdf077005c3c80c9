"""What a gate refuses, and when it says too little was seen."""

from __future__ import annotations

import math

import pytest

from capevolve.errors import TrainGateError
from capevolve.gate import MODES, GateSettings, judge
from capevolve.model import Decision, Reason

INFRA = Reason.INFRA
ALL_MODES = [GateSettings(mode=mode) for mode in MODES]


def _rows(reward: float, n: int = 10, trials: int = 1) -> dict[str, list[float]]:
    return {f"t{i}": [reward] * trials for i in range(n)}


@pytest.fixture
def better(measure):
    return measure(_rows(1.0))


@pytest.fixture
def base(measure):
    return measure(_rows(0.0))


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
def test_a_clear_gain_is_accepted_in_every_mode(better, base, settings: GateSettings):
    assert judge(better, base, settings).decision is Decision.ACCEPT
    assert judge(base, better, settings).decision is Decision.REJECT


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
@pytest.mark.parametrize("split", ["train", "test"])
def test_any_split_but_val_is_refused_on_either_side(
    measure, better, base, settings: GateSettings, split: str
):
    other = measure(_rows(1.0), split=split)
    with pytest.raises(TrainGateError, match=f"val only, and was given {split}") as caught:
        judge(other, base, settings)
    assert "candidate" in caught.value.where
    with pytest.raises(TrainGateError, match=f"val only, and was given {split}") as caught:
        judge(better, other, settings)
    assert "incumbent" in caught.value.where


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
def test_a_subset_is_refused_on_either_side_in_its_own_words(measure, better, base, settings: GateSettings):
    part = measure(_rows(1.0), subset=True)
    for sides in ((part, base), (better, part)):
        with pytest.raises(TrainGateError, match="a subset of val never gates"):
            judge(*sides, settings)


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
def test_too_little_measured_on_either_side_is_indecisive(measure, better, base, settings: GateSettings):
    # No difference between the arms' errors could be seen: both sides lost the same tasks.
    thin = {f"t{i}": [1.0] if i < 5 else [INFRA] for i in range(10)}
    mirror = {f"t{i}": [0.0] if i < 5 else [INFRA] for i in range(10)}
    verdict = judge(measure(thin), measure(mirror), settings)
    assert (verdict.decision, verdict.rule) == (Decision.INDECISIVE, "coverage")
    assert verdict.reason == "too little was measured: 5 of 10 tasks (50%) of the candidate, 60% is needed"
    for sides in ((measure(thin), base), (better, measure(mirror))):
        assert judge(*sides, settings).rule == "coverage"


def test_coverage_that_equals_the_minimum_is_enough(measure):
    candidate = {f"t{i}": [1.0] if i < 6 else [INFRA] for i in range(10)}
    incumbent = {f"t{i}": [0.0] if i < 6 else [INFRA] for i in range(10)}
    verdict = judge(measure(candidate), measure(incumbent), GateSettings())
    assert verdict.decision is Decision.ACCEPT
    assert (verdict.n, len(verdict.dropped)) == (6, 4)


def test_seventy_percent_of_connection_errors_give_no_verdict(measure):
    rows = {f"t{i}": [1.0] if i < 16 else [INFRA] for i in range(50)}
    verdict = judge(measure(rows), measure(_rows(0.0, 50)), GateSettings())
    assert verdict.decision is Decision.INDECISIVE
    assert "16 of 50 tasks (32%)" in verdict.reason


def test_a_minimum_coverage_of_zero_still_needs_something_measured(measure, base):
    nothing = measure({f"t{i}": [INFRA] for i in range(10)})
    verdict = judge(nothing, base, GateSettings(min_coverage=0.0))
    assert (verdict.decision, verdict.rule) == (Decision.INDECISIVE, "coverage")
    assert verdict.reason == "nothing was measured: 0 of 10 tasks of the candidate"


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
def test_an_empty_split_is_indecisive(measure, settings: GateSettings):
    verdict = judge(measure({}), measure({}), settings)
    assert (verdict.decision, verdict.delta, verdict.n) == (Decision.INDECISIVE, None, 0)


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_a_number_is_indecisive_on_either_side(
    measure, better, base, settings: GateSettings, bad: float
):
    broken = measure({**_rows(1.0), "t3": [bad]})
    for sides, name in (((broken, base), "candidate"), ((better, broken), "incumbent")):
        verdict = judge(*sides, settings)
        assert (verdict.decision, verdict.rule) == (Decision.INDECISIVE, "not_a_number")
        assert verdict.reason == f"task t3 of the {name} has a reward that is not a finite number"


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
def test_fewer_than_two_paired_tasks_are_indecisive(measure, settings: GateSettings):
    candidate = measure({"a": [1.0] * 4, "b": [1.0] * 4, "c": [INFRA]})
    incumbent = measure({"a": [INFRA], "b": [0.0] * 4, "c": [0.0] * 4})
    verdict = judge(candidate, incumbent, settings)
    assert (verdict.decision, verdict.rule, verdict.n) == (Decision.INDECISIVE, "pairs", 1)
    assert verdict.reason == "tasks measured on both sides: 1, needed: 2"
    assert judge(measure(_rows(1.0, 1)), measure(_rows(0.0, 1)), settings).rule == "pairs"


@pytest.mark.parametrize("settings", ALL_MODES, ids=list(MODES))
def test_errors_that_hit_one_arm_more_are_indecisive(measure, settings: GateSettings):
    # 20 trials an arm: 6 errors against 0 has a two-sided Fisher p of .020, 5 against 0 one of .047.
    holes = {f"t{i}": [1.0, INFRA] if i < 6 else [1.0, 1.0] for i in range(10)}
    mirror = {f"t{i}": [0.0, INFRA] if i < 6 else [0.0, 0.0] for i in range(10)}
    for sides in (
        (measure(holes), measure(_rows(0.0, trials=2))),
        (measure(_rows(1.0, trials=2)), measure(mirror)),
    ):
        verdict = judge(*sides, settings)
        assert (verdict.decision, verdict.rule) == (Decision.INDECISIVE, "asymmetric_errors")
        assert "6 of 20" in verdict.reason
        assert "Fisher p 0.020" in verdict.reason


def test_errors_that_hit_both_arms_alike_do_not_stop_a_verdict(measure):
    holes = {f"t{i}": [1.0, INFRA] if i < 6 else [1.0, 1.0] for i in range(10)}
    mirror = {f"t{i}": [0.0, INFRA] if i < 3 else [0.0, 0.0] for i in range(10)}
    assert judge(measure(holes), measure(mirror), GateSettings()).decision is Decision.ACCEPT


def test_an_indecisive_verdict_keeps_what_was_seen(measure):
    holes = {f"t{i}": [1.0, INFRA] if i < 6 else [1.0, 1.0] for i in range(10)}
    verdict = judge(measure(holes), measure(_rows(0.0, trials=2)), GateSettings())
    assert (verdict.delta, verdict.n, verdict.improved) == (1.0, 10, 10)
    assert verdict.bar is None


def test_dropped_tasks_are_named_with_their_reason(measure):
    candidate = measure({**_rows(1.0), "t9": [INFRA]})
    verdict = judge(candidate, measure(_rows(0.0)), GateSettings())
    assert verdict.dropped == (("t9", "no measured trial of the candidate (1 infra)"),)
