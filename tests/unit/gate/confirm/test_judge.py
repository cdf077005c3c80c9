"""The stages of a confirmation: what each asks, what it may decide, and what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from capevolve.errors import TrainGateError
from capevolve.gate.confirm.case import Ask, StageEvidence
from capevolve.gate.confirm.judge import advance, used_slot
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.model import Decision, Reason
from capevolve.stats import within_task_permutation

ACCEPT, REJECT, INDECISIVE = Decision.ACCEPT, Decision.REJECT, Decision.INDECISIVE
BETTER, SAME, WORSE = 1.0, 0.5, 0.0
INFRA = Reason.INFRA


def test_a_clear_improvement_is_confirmed_in_the_first_look(make_bench):
    bench = make_bench()
    verdict = bench.judge({"race": BETTER, "screen": BETTER, "look-1": BETTER})
    assert (verdict.decision, verdict.rule) == (ACCEPT, "confirm")
    assert verdict.delta == pytest.approx(0.5)
    assert [stage.stage for stage in verdict.stages] == ["race", "screen", "look-1"]
    assert "confirmed in look-1" in verdict.reason
    assert "slot 1 of 8 at alpha 0.025" in verdict.reason
    assert not used_slot(verdict)


def test_the_race_asks_one_trial_on_half_of_the_tasks_and_the_screen_the_rest(make_bench):
    bench = make_bench(n=21)
    bench.judge({"race": BETTER, "screen": BETTER, "look-1": BETTER})
    race, screen, look = bench.asks
    assert (race.num_trials, screen.num_trials) == (1, 1)
    assert (race.both, screen.both, look.both) == (False, False, True)
    assert len(race.task_ids) == 11
    assert sorted(race.task_ids + screen.task_ids) == list(bench.ids)
    assert look.task_ids is None


@pytest.mark.parametrize(("n", "stages"), [(7, ["screen", "look-1"]), (8, ["race", "screen", "look-1"])])
def test_fewer_than_eight_tasks_are_not_raced(make_bench, n: int, stages: list[str]):
    bench = make_bench(n=n)
    bench.judge({"race": BETTER, "screen": BETTER, "look-1": BETTER})
    assert [ask.stage for ask in bench.asks] == stages


def test_a_lost_race_is_rejected_before_anything_else_is_asked(make_bench):
    bench = make_bench()
    verdict = bench.judge({"race": WORSE})
    assert (verdict.decision, verdict.rule) == (REJECT, "race")
    assert [ask.stage for ask in bench.asks] == ["race"]
    assert not used_slot(verdict)
    assert verdict.p_value > 0.7


def test_a_lost_screen_is_rejected_and_spends_no_slot(make_bench):
    verdict = make_bench().judge({"race": BETTER, "screen": WORSE})
    assert (verdict.decision, verdict.rule) == (REJECT, "screen")
    assert [stage.slot for stage in verdict.stages] == [None, None]
    assert not used_slot(verdict)


def test_screening_can_never_accept(make_bench):
    profile = replace(ConfirmProfile(peek_frac=1.0), race_kill_p=1.0, screen_p=1.0)
    verdict = make_bench(profile=profile).judge({"race": BETTER, "screen": BETTER, "look-1": SAME})
    assert verdict.decision is REJECT
    assert all(stage.accept_at is None for stage in verdict.stages if stage.slot is None)


def test_a_look_judges_fresh_trials_only(make_bench):
    """Perfect luck in race and screen, nothing in the look: what selected a candidate does not count."""
    verdict = make_bench().judge({"race": BETTER, "screen": BETTER, "look-1": (SAME, SAME)})
    assert (verdict.decision, verdict.rule) == (REJECT, "confirm")
    assert verdict.delta == 0.0
    assert used_slot(verdict)


def test_a_look_compares_with_the_incumbents_fresh_trials_and_not_with_its_record(make_bench):
    """The record says .5, the session makes everything pass: drift of the world is not an improvement."""
    verdict = make_bench().judge({"race": BETTER, "screen": BETTER, "look-1": (0.99, 0.99)})
    assert verdict.decision is INDECISIVE
    verdict = make_bench().judge(
        {"race": BETTER, "screen": BETTER, "look-1": (lambda i: float(i > 1), lambda i: float(i > 1))}
    )
    assert (verdict.decision, verdict.delta) == (REJECT, 0.0)


def _some(count: int):
    """Better on the first `count` even tasks, like the incumbent on all others."""
    return lambda number: 1.0 if number % 2 or number < 2 * count else 0.0


def test_looks_take_k_k_and_2k_trials_and_pool_them(make_bench):
    profile = replace(ConfirmProfile(peek_frac=1.0), look_split=(1e-9, 1e-9, 0.4), look_futility=(1.0, 1.0))
    bench = make_bench(profile=profile, k=2)
    answers = {f"look-{j}": _some(2) for j in (1, 2, 3)}
    verdict = bench.judge({"race": BETTER, "screen": BETTER, **answers})
    looks = [ask for ask in bench.asks if ask.both]
    assert [ask.num_trials for ask in looks] == [2, 2, 4]
    assert verdict.decision is ACCEPT
    arms = [([1.0] * 8, [0.0] * 8)] * 2 + [([1.0] * 8, [1.0] * 8)] * 10 + [([0.0] * 8, [0.0] * 8)] * 8
    assert verdict.p_value == within_task_permutation(arms).value
    assert "8 fresh trials each" in verdict.reason


def test_every_look_has_seeds_of_its_own_that_both_arms_share(make_bench):
    profile = replace(ConfirmProfile(peek_frac=1.0), look_futility=(1.0, 1.0))
    seeds = {}
    for subject in ("c1", "c2"):
        bench = make_bench(profile=profile, subject=subject)
        bench.judge({"race": BETTER, "screen": BETTER, "look-1": SAME, "look-2": SAME, "look-3": SAME})
        for ask in bench.asks:
            if ask.both:
                seeds[subject, ask.stage] = range(ask.base_seed, ask.base_seed + ask.num_trials)
            else:
                assert ask.base_seed == 0, "race and screen share the record's seeds"
    used = [seed for taken in seeds.values() for seed in taken]
    assert len(seeds) == 6
    assert len(set(used)) == len(used)
    assert not set(used) & set(range(100))
    assert max(used) < 2**31


@pytest.mark.parametrize("stage", ["look-1", "look-2"])
def test_a_hopeless_look_ends_the_confirmation_early(make_bench, stage: str):
    profile = replace(ConfirmProfile(peek_frac=1.0), look_futility=(0.25 if stage == "look-1" else 1.0, 0.12))
    bench = make_bench(profile=profile)
    verdict = bench.judge({"race": BETTER, "screen": BETTER, "look-1": SAME, "look-2": SAME})
    assert (verdict.decision, bench.asks[-1].stage) == (REJECT, stage)
    assert "too far off to go on" in verdict.reason
    assert used_slot(verdict)


def test_the_last_look_rejects_what_is_not_within_its_limit(make_bench):
    profile = replace(ConfirmProfile(peek_frac=1.0), look_futility=(1.0, 1.0))
    answers = {f"look-{j}": SAME for j in (1, 2, 3)}
    verdict = make_bench(profile=profile).judge({"race": BETTER, "screen": BETTER, **answers})
    assert (verdict.decision, verdict.stages[-1].stage) == (REJECT, "look-3")
    assert verdict.stages[-1].reject_above == verdict.stages[-1].accept_at


def test_a_p_value_equal_to_its_limit_is_accepted(make_bench):
    p = within_task_permutation([([1.0] * 3, [0.0] * 3)] * 3).value
    fits = replace(ConfirmProfile(peek_frac=1.0), alpha_run=p / 0.3, max_failed_confirmations=1)
    just_not = replace(fits, alpha_run=fits.alpha_run * (1 - 1e-6), look_futility=(1e-9, 1e-9))
    answers = {"race": BETTER, "screen": BETTER, "look-1": _some(3)}
    assert make_bench(profile=fits).judge(answers).decision is ACCEPT
    assert make_bench(profile=just_not).judge(answers).decision is REJECT


def test_without_a_slot_left_everything_is_rejected_and_nothing_is_asked(make_bench):
    bench = make_bench(failures=8)
    verdict = bench.judge({})
    assert (verdict.decision, verdict.rule) == (REJECT, "budget")
    assert verdict.reason == "confirmation budget exhausted: 8 of 8 slots are used up"
    assert (verdict.delta, verdict.se, verdict.p_value, verdict.n) == (None, None, None, 0)
    assert bench.asks == []
    assert make_bench(failures=7).judge({"race": WORSE}).rule == "race"


def test_the_slot_and_its_level_are_on_record(make_bench):
    verdict = make_bench(profile=replace(PROFILES["strict"], peek_frac=1.0), failures=2).judge(
        {"race": BETTER, "screen": BETTER, "look-1": BETTER}
    )
    look = verdict.stages[-1]
    assert (look.slot, look.alpha, look.accept_at) == (3, 0.0125, pytest.approx(0.3 * 0.0125))
    assert (look.num_trials, look.candidate_evaluation, look.incumbent_evaluation) == (3, "7", "8")
    assert look.p_value == verdict.p_value


def _missing(bench, ids, share: float, k: int = 3):
    lost = math.ceil(share * len(ids))
    return {i: [INFRA] * k if n < lost else [1.0] * k for n, i in enumerate(ids)}


def test_an_indecisive_first_look_keeps_its_slot(make_bench):
    bench = make_bench()
    both = _missing(bench, bench.ids, 0.5)
    verdict = bench.judge({"race": BETTER, "screen": BETTER, "look-1": (both, both)})
    assert (verdict.decision, verdict.rule) == (INDECISIVE, "coverage")
    assert verdict.stages[-1].p_value is None
    assert not used_slot(verdict)


def test_an_indecisive_look_after_a_p_value_uses_its_slot_up(make_bench):
    profile = replace(ConfirmProfile(peek_frac=1.0), look_futility=(1.0, 1.0), look_split=(1e-9, 0.3, 0.4))
    bench = make_bench(profile=profile)
    asymmetric = ({i: [INFRA] * 3 for i in bench.ids}, bench.rows(SAME, k=3))
    verdict = bench.judge({"race": BETTER, "screen": BETTER, "look-1": _some(2), "look-2": asymmetric})
    assert (verdict.decision, verdict.rule) == (INDECISIVE, "asymmetric_errors")
    assert [stage.p_value is None for stage in verdict.stages] == [False, False, False, True]
    assert used_slot(verdict)


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (lambda bench, ids: {i: [INFRA] for i in ids}, "coverage"),
        (lambda bench, ids: {**{i: [1.0] for i in ids}, ids[0]: [math.nan]}, "not_a_number"),
    ],
)
def test_a_race_that_says_too_little_is_indecisive(make_bench, rows, rule: str):
    bench = make_bench()
    ids = advance(bench.case(), bench.settings).task_ids
    verdict = bench.judge({"race": rows(bench, ids)})
    assert (verdict.decision, verdict.rule) == (INDECISIVE, rule)


@pytest.mark.parametrize("reward", [0.0, 0.4, 1.0])
def test_a_val_without_any_variation_is_indecisive(make_bench, reward: float):
    verdict = make_bench(base=reward).judge({"race": reward})
    assert (verdict.decision, verdict.rule, verdict.delta) == (INDECISIVE, "no_variation", None)


@pytest.mark.parametrize("n", [0, 1])
def test_a_val_of_fewer_than_two_tasks_is_indecisive(make_bench, n: int):
    bench = make_bench(n=n)
    verdict = bench.judge({"screen": BETTER})
    assert verdict.decision is INDECISIVE
    assert verdict.rule == ("coverage" if n == 0 else "pairs")


def test_only_val_is_judged_on(make_bench, measure):
    bench = make_bench()
    with pytest.raises(TrainGateError, match="val only"):
        advance(bench.case(measure(bench.rows(SAME), split="train")), bench.settings)
    case = bench.case()
    ids = advance(case, bench.settings).task_ids
    race = StageEvidence("race", measure(bench.rows(BETTER, ids), split="test"))
    with pytest.raises(TrainGateError, match="was given test"):
        advance(replace(case, evidence=(race,)), bench.settings)


def test_a_veto_turns_an_acceptance_into_a_failure(make_bench):
    """Task 1, which the incumbent always passed, now always fails."""
    profile = replace(ConfirmProfile(peek_frac=1.0), alpha_run=0.9, max_failed_confirmations=1)
    broken = lambda number: 0.0 if number == 1 else 1.0  # noqa: E731
    answers = {"race": BETTER, "screen": BETTER, "look-1": broken}
    assert make_bench(profile=profile, k=6).judge(answers).decision is ACCEPT
    verdict = make_bench(profile=profile, k=6, no_regression=True).judge(answers)
    assert (verdict.decision, verdict.rule) == (REJECT, "no_regression")
    assert used_slot(verdict)


def test_evidence_is_asked_for_again_when_a_stage_of_it_is_lost(make_bench):
    bench = make_bench()
    step = advance(bench.case(), bench.settings)
    assert isinstance(step, Ask)
    assert step == advance(bench.case(), bench.settings)
