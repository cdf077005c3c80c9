"""The smallest effects of a design: the numbers of the statistics, and what must hold of them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.design import Variance
from capevolve.design.comparison import find_bar
from capevolve.design.confirmation import count_part
from capevolve.design.hurdles import find_permutation_effect
from capevolve.design.standin import list_stages, pose_record, size_look
from capevolve.gate import GateSettings, judge
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.gate.confirm.seeds import RACE
from capevolve.gate.confirm.sizing import find_look_trials
from capevolve.model import Decision
from capevolve.stats import planning_variance, t_minimal_effect

MODES = ["confirm", "paired", "significant", "strict", {"mode": "threshold", "threshold": 0.1}]

# Closed form (z_.95 + z_.8) sqrt(2 v / (3 n)) with v = 0.143, computed with scipy.stats.norm.
ORACLE = [(20, 0.17166883663795113), (50, 0.10857290540945756), (100, 0.07677263766815304)]


@pytest.mark.parametrize(("n", "value"), ORACLE)
def test_the_sealed_test_resolves_what_scipy_says(draw, effect_of, n, value):
    assert effect_of(draw(test=n), "test").effect == pytest.approx(value, rel=1e-12)


def test_the_reference_designs_of_the_statistics_are_reproduced(draw, effect_of):
    """Variance 0.143, one-sided 0.05, 80 % power: the assumption that gives all four rounded numbers."""
    found = [effect_of(draw(test=n), "test").effect for n in (20, 50, 100, 300)]
    assert [round(found[0], 2), round(found[1], 2)] == [0.17, 0.11]
    assert [round(found[2], 3), round(found[3], 3)] == [0.077, 0.044]


def test_the_confirmation_is_planned_on_all_its_fresh_trials_at_the_last_looks_level(draw, effect_of):
    """z_.99 = 2.326347874 and z_.8 = 0.841621234 from scipy; 12 trials per arm; 0.4 * 0.2 / 8 = 0.01."""
    found = effect_of(draw(), "confirmation")
    assert (found.n_tasks, found.candidate_trials, found.incumbent_trials) == (20, 12, 12)
    assert found.level == pytest.approx(0.01)
    assert found.effect == pytest.approx(3.167969108 * math.sqrt(0.143 / 6 / 20), rel=1e-8)


def test_without_a_race_the_screen_is_one_test_of_one_trial_against_the_record(draw, effect_of):
    found = effect_of(draw(val=7), "screen")
    assert (found.candidate_trials, found.incumbent_trials, found.level) == (1, 3, 0.35)
    assert found.effect == pytest.approx(
        (0.385320466 + 0.841621234) * math.sqrt(0.143 * (4 / 3) / 7), rel=1e-8
    )


def test_a_race_makes_the_screen_harder_to_pass(draw, effect_of):
    raced = effect_of(draw(val=8), "screen").effect
    alone = effect_of(draw({"confirm": {"race_frac": 1.0}}, val=8), "screen").effect
    assert alone < raced < 1.2 * alone


def test_all_stages_together_let_less_pass_than_any_of_them(draw, effect_of):
    design = draw()
    whole = effect_of(design, "all_stages").effect
    assert whole > max(effect_of(design, "screen").effect, effect_of(design, "confirmation").effect)


def test_all_stages_together_allow_for_the_coarse_steps_of_single_trials(draw, effect_of):
    """Half a step of one trial against three on 7 tasks is 2 / 21; without noise to speak of only it is left."""
    assert effect_of(draw(val=7, within=1e-12), "all_stages").effect == pytest.approx(2 / 21, abs=1e-4)


def test_the_sealed_test_has_the_trials_of_the_seal(draw, effect_of):
    found = effect_of(draw(seal={"num_trials": 5}), "test")
    assert (found.candidate_trials, found.incumbent_trials) == (5, 5)
    assert found.effect == pytest.approx(ORACLE[0][1] * math.sqrt(3 / 5))


def test_the_paired_gate_is_planned_as_the_t_test_that_it_is(draw, effect_of):
    """At k_se = 1.6449 it is the one-sided 5 % t test; the exact plan is the noncentral t."""
    found = effect_of(draw({"mode": "paired", "k_se": 1.6448536269514722}), "gate").effect
    sd = math.sqrt(0.143 * 2 / 3)
    assert found == pytest.approx(t_minimal_effect(sd, 20), rel=0.01)


def test_a_new_task_claim_has_the_spread_of_effects_on_top(draw, effect_of):
    """O35: n = 20, sd 0.4, one-sided 5 %, 80 %: 0.23076680053534349 (scipy nct and brentq)."""
    spread = 0.16 - 2 * 0.143 / 3
    design = draw(variance=Variance(0.143, "measured", "r1", 0.5, 0.08, spread))
    assert effect_of(design, "test_new_tasks").effect == pytest.approx(0.23076680053534349, abs=1e-6)


def test_a_new_task_claim_without_a_measured_spread_is_unknown_not_zero(draw, effect_of):
    found = effect_of(draw(variance=Variance()), "test_new_tasks")
    assert found.effect is None
    assert "no accepted edit" in found.reason


def test_the_margin_of_a_threshold_is_on_top(draw, effect_of):
    strict = effect_of(draw("strict"), "gate").effect
    assert effect_of(draw(MODES[-1]), "gate").effect == pytest.approx(strict + 0.1)


def test_unpaired_errors_hold_the_difficulty_of_tasks_too(draw, effect_of):
    assert effect_of(draw("significant"), "gate").effect > effect_of(draw("paired"), "gate").effect


@pytest.mark.parametrize(
    ("n", "k", "smallest"), [(4, 1, 1 / 16), (1, 1, 0.5), (1, 2, 1 / 6)]
)  # C(2k, k)^-n is above 0.05
def test_a_sealed_test_that_cannot_reach_its_level_certifies_nothing(draw, effect_of, n, k, smallest):
    found = effect_of(draw(test=n, evaluation={"num_trials": k}), "test")
    assert smallest > 0.05
    assert found.effect is None
    assert "cannot give a p-value" in found.reason


def test_an_empty_test_split_certifies_nothing(draw, effect_of):
    design = draw(test=0)
    assert effect_of(design, "test").effect is None
    assert effect_of(design, "test_new_tasks").effect is None


def test_an_effect_beyond_the_scale_is_none(draw, effect_of):
    found = effect_of(draw("paired", val=2, evaluation={"num_trials": 1}, within=0.25), "gate")
    assert found.effect is None
    assert "even the largest gain" in found.reason


@pytest.mark.parametrize("mode", MODES)
def test_one_val_task_leaves_no_effect_to_find(draw, mode):
    assert [e.effect for e in draw(mode, val=1).effects if e.name in ("gate", "all_stages")] == [None] or (
        mode == "confirm"
    )


def test_without_noise_the_effect_is_a_number_of_tasks_that_change():
    assert find_permutation_effect(20, 3, 3, 0.05, 0.0).value == 1 / 20  # C(6, 3)^-1 = 0.05, within the level
    assert find_permutation_effect(20, 12, 12, 0.01, 0.0).value == 1 / 20
    assert find_permutation_effect(20, 1, 1, 0.05, 0.0).value == 5 / 20  # 2^-5 is the first within 0.05


@pytest.mark.parametrize("mode", ["paired", "strict", {"mode": "threshold", "threshold": 0.12}])
@pytest.mark.parametrize("n", [2, 3, 4, 9, 20])
def test_without_noise_the_gate_accepts_exactly_from_the_planned_number_of_tasks_on(
    draw, effect_of, measure, mode, n
):
    """Each number of tasks that go from 0 to 1 is put before the gate itself."""
    design = draw(mode, val=n, within=0.0)
    gate = GateSettings(**({"mode": mode} if isinstance(mode, str) else mode))
    incumbent = measure({f"{i:02d}": [0.0] * 3 for i in range(n)})
    accepted = [
        judge(measure({f"{i:02d}": [float(i < m)] * 3 for i in range(n)}), incumbent, gate).decision
        is Decision.ACCEPT
        for m in range(n + 1)
    ]
    found = effect_of(design, "gate").effect
    if found is None:
        assert not any(accepted)
    else:
        assert accepted == [m >= round(found * n) for m in range(n + 1)]


def test_the_bar_is_the_one_that_verdicts_have(measure):
    settings_ = GateSettings(k_se=1.3)
    one = {"a": [1.0], "b": [0.0], "c": [1.0], "d": [1.0], "e": [0.0]}
    two = {"a": [0.0], "b": [0.0], "c": [1.0], "d": [0.0], "e": [1.0]}
    verdict = judge(measure(one), measure(two), settings_)
    assert verdict.bar / verdict.se == pytest.approx(find_bar(settings_, 5))


@given(n=st.integers(1, 60), frac=st.floats(0.01, 1.0))
def test_a_race_is_counted_as_the_gate_draws_it(n, frac):
    profile = ConfirmProfile(race_frac=frac)
    first = list_stages(profile, n, 1)[0]
    assert count_part(profile.race_frac, n) == (len(first.task_ids) if first.stage == RACE else 0)


@given(st.integers(1, 40), st.floats(0.0, 0.5))
def test_a_posed_record_has_the_noise_that_was_asked_for(n, within):
    posed = planning_variance(pose_record(n, within))
    assert posed.source == "measured"
    assert posed.value == pytest.approx(within, abs=1e-12)


def test_auto_looks_are_sized_as_a_run_with_that_record_sizes_them(measure):
    profile = ConfirmProfile(look_trials="auto", effect=0.08)
    record = measure({f"{i:02d}": [1.0, 0.0, float(i % 2)] for i in range(30)}, num_trials=3)
    within = planning_variance(record).value
    assert size_look(profile, 3, 30, within) == find_look_trials(profile, 3, record) > 3


def test_auto_looks_without_a_measurement_are_sized_by_the_bound(draw):
    assert draw({"confirm": {"look_trials": "auto"}}, variance=Variance()).look_trials == 7  # ceil(25.1 / 4)


@settings(max_examples=25, deadline=None)
@given(
    mode=st.sampled_from(range(len(MODES))),
    n=st.integers(8, 200),
    more=st.integers(1, 100),
    k=st.integers(1, 8),
    within=st.floats(0.02, 0.25),
)
def test_more_tasks_more_trials_and_less_noise_find_smaller_effects(draw, mode, n, more, k, within):
    def values(val, trials, noise):
        design = draw(MODES[mode], val=val, test=val, within=noise, evaluation={"num_trials": trials})
        return [math.inf if effect.effect is None else effect.effect for effect in design.effects]

    base = values(n, k, within)
    for better in (values(n + more, k, within), values(n, k + 1, within), values(n, k, within / 2)):
        assert all(a <= b + 1e-6 for a, b in zip(better, base, strict=True))


def test_every_effect_is_within_the_scale_or_none(draw):
    for mode, val, k in itertools.product(MODES, (2, 3, 8, 40), (1, 4)):
        for effect in draw(mode, val=val, test=val, evaluation={"num_trials": k}).effects:
            assert (effect.effect is None) == bool(effect.reason)
            assert effect.effect is None or 0.0 <= effect.effect <= 1.0
