"""Gates that can never accept are refused; gates that could are not."""

from __future__ import annotations

import itertools

import pytest

from capevolve.design import find_hopeless, refuse_hopeless_gate
from capevolve.design.cautions import ONE_TRIAL, WASTED_TRIALS
from capevolve.errors import UserError
from capevolve.gate import GateSettings, judge
from capevolve.model import Decision

MODES = ["paired", "significant", "strict", {"mode": "threshold", "threshold": 0.5}, "confirm"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_val_tasks_are_hopeless_in_every_mode(make_spec, mode, n):
    with pytest.raises(UserError) as refusal:
        refuse_hopeless_gate(make_spec(mode), n)
    assert refusal.value.exit_code == 2
    assert "can never accept" in refusal.value.what
    assert "--allow-hopeless-gate" in refusal.value.fix


@pytest.mark.parametrize("mode", MODES)
def test_two_val_tasks_are_not(make_spec, mode):
    refuse_hopeless_gate(make_spec(mode), 2)


def test_without_iterations_no_gate_is_needed(make_spec):
    refuse_hopeless_gate(make_spec(search={"max_iterations": 0}), 0)


@pytest.mark.parametrize("mode", ["paired", "significant"])
def test_val_tasks_of_one_cluster_are_hopeless_where_the_error_decides(make_spec, mode):
    assert "one cluster" in find_hopeless(make_spec(mode), 6, val_units=1).what
    assert find_hopeless(make_spec(mode), 6, val_units=2) is None
    assert find_hopeless(make_spec("strict"), 6, val_units=1) is None
    assert find_hopeless(make_spec("confirm"), 6, val_units=1) is None


def test_a_confirmation_that_cannot_reach_its_level_is_hopeless(make_spec):
    """Two tasks x 2 trials: C(4, 2)^-2 = 0.028, above 0.4 * 0.2 / 8 = 0.01."""
    few = {"confirm": {"looks": [1, 1], "look_split": [0.6, 0.4], "look_futility": [0.25], "look_trials": 1}}
    found = find_hopeless(make_spec(few), 2)
    assert "0.028" in found.what
    assert found.where == "gate.confirm"
    assert find_hopeless(make_spec(few), 3) is None


def test_auto_looks_are_made_large_enough_to_accept(make_spec):
    few = {"confirm": {"looks": [1], "look_split": [0.4], "look_futility": [], "look_trials": "auto"}}
    assert find_hopeless(make_spec(few), 2) is None


def test_a_race_of_one_task_is_always_indecisive(make_spec):
    found = find_hopeless(make_spec({"confirm": {"race_frac": 0.1}}), 10)
    assert found.where == "gate.confirm.race_frac"
    assert find_hopeless(make_spec({"confirm": {"race_frac": 0.11}}), 10) is None
    assert find_hopeless(make_spec({"confirm": {"race_frac": 0.1}}), 7) is None  # too few tasks to race


def test_a_screen_stricter_than_single_trials_can_be_is_hopeless(make_spec):
    """Two tasks, 1 trial against 3: 4^-2 = 0.0625."""
    assert find_hopeless(make_spec({"confirm": {"screen_p": 0.06}}), 2).where == "gate.confirm.screen_p"
    assert find_hopeless(make_spec({"confirm": {"screen_p": 0.0625}}), 2) is None


def test_a_race_stricter_than_its_tasks_can_be_is_hopeless(make_spec):
    """Two of ten race, 1 trial against 3: 0.0625."""
    strict = {"confirm": {"race_frac": 0.2, "race_kill_p": 0.06}}
    assert find_hopeless(make_spec(strict), 10).where == "gate.confirm.race_kill_p"


def test_a_peek_stricter_than_its_tasks_can_be_is_hopeless(make_spec):
    """Two of ten are peeked at, 1 trial an arm: 2^-2 = 0.25."""
    strict = {"confirm": {"peek_frac": 0.2, "peek_p": 0.24, "look_trials": 1}}
    assert find_hopeless(make_spec(strict), 10).where == "gate.confirm.peek_p"
    strict["confirm"]["peek_p"] = 0.25
    assert find_hopeless(make_spec(strict), 10) is None
    strict["confirm"].update(peek_p=0.24, peek_frac=0.1)  # one task gives no p-value, so the look decides
    assert find_hopeless(make_spec(strict), 10) is None


def test_a_look_that_stops_everyone_is_hopeless(make_spec):
    """Two tasks x 1 trial: the first look sees 0.25 at best."""
    harsh = {"confirm": {"look_futility": [0.2, 0.12], "look_trials": 1}}
    found = find_hopeless(make_spec(harsh), 2)
    assert "look 1" in found.what
    assert found.where == "gate.confirm.look_futility"
    assert find_hopeless(make_spec({"confirm": {"look_trials": 1}}), 2) is None


def test_a_setting_out_of_range_is_refused_by_its_name(make_spec):
    with pytest.raises(UserError) as refusal:
        refuse_hopeless_gate(make_spec({"mode": "threshold", "threshold": 1.0}), 20)
    assert refusal.value.where == "gate.threshold"


@pytest.mark.parametrize("multiplier", ["t", "normal"])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)])
@pytest.mark.parametrize("k_se", [0.0, 1.0, 2.0, 3.0])
def test_the_pass_fail_caution_says_what_every_possible_outcome_says(draw, measure, n, k, k_se, multiplier):
    """Every number of passes of every task in both arms is put before the gate itself."""
    gate = {"mode": "paired", "k_se": k_se, "multiplier": multiplier}
    design = draw(gate, val=n, evaluation={"num_trials": k})
    warned = any("only 0 or 1" in caution for caution in design.cautions)
    settings = GateSettings(**gate)

    def pose(passes):
        return measure({str(i): [1.0] * p + [0.0] * (k - p) for i, p in enumerate(passes)})

    outcomes = [pose(passes) for passes in itertools.product(range(k + 1), repeat=n)]
    accepts = any(
        judge(mine, theirs, settings).decision is Decision.ACCEPT for mine in outcomes for theirs in outcomes
    )
    assert warned == (not accepts)


def test_one_trial_is_said_once(draw):
    for gate in ("paired", "confirm"):
        cautions = draw(gate, evaluation={"num_trials": 1}).cautions
        assert cautions.count(ONE_TRIAL) == 1
        assert ONE_TRIAL not in draw(gate).cautions


@pytest.mark.parametrize(("trials", "seal"), [(1, None), (3, None), (1, 3)])
def test_a_declared_deterministic_target_needs_one_trial_and_no_more(draw, trials, seal):
    parts = {"evaluation": {"num_trials": trials, "deterministic": True}, "seal": {"num_trials": seal}}
    cautions = draw("paired", **parts).cautions
    assert ONE_TRIAL not in cautions
    assert (WASTED_TRIALS in cautions) == (max(trials, seal or 0) > 1)


def test_a_bar_above_what_is_left_to_gain_is_a_caution(draw):
    from capevolve.design import Variance

    high = Variance(0.05, "measured", "r7", mean=0.95, between=0.01)
    (caution,) = draw("paired", variance=high).cautions
    assert "0.950 on run r7" in caution
    assert "the gate and the sealed test" in caution


def test_a_cap_below_the_first_verdict_is_a_caution(draw):
    """60 baseline + 60 candidate + 120 test."""
    assert draw("paired", budget={"max_calls": 240}, needs_evidence=False).cautions == ()
    (caution,) = draw("paired", budget={"max_calls": 239}, needs_evidence=False).cautions
    assert "max_calls 239" in caution


def test_a_seed_that_always_scores_alike_is_a_caution(draw):
    from capevolve.design import Variance

    (caution,) = draw("paired", variance=Variance(0.0, "bound", "r1", 0.0)).cautions
    assert "no room for noise" in caution
