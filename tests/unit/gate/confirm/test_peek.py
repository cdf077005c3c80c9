"""The peek: half of the first look's tasks, which can end a confirmation and never accept."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from capevolve.canonical import canonical_json
from capevolve.gate.confirm.judge import used_slot
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.gate.settings import GateSettings, date_settings, parse_settings
from capevolve.ledger.proposals import parse_verdict
from capevolve.model import Decision, Reason, TaskOutcomes, Unmeasured
from capevolve.stats import within_task_permutation

PROFILE = replace(ConfirmProfile(), race_kill_p=1.0, screen_p=1.0)
BETTER, SAME, WORSE = 1.0, 0.5, 0.0


def test_a_candidate_that_is_no_better_at_the_peek_is_rejected_there_and_uses_its_slot(make_bench):
    bench = make_bench(profile=PROFILE, failures=2)
    verdict = bench.judge({"race": BETTER, "screen": BETTER, "peek": WORSE})
    assert (verdict.decision, verdict.rule) == (Decision.REJECT, "confirm")
    assert "not confirmed in its peek: p 1 is above 0.6" in verdict.reason
    assert "slot 3 of 8 at alpha 0.025" in verdict.reason
    assert verdict.n == 10, "half of the tasks"
    assert used_slot(verdict)
    assert [ask.stage for ask in bench.asks] == ["race", "screen", "peek"]


def test_a_peek_can_never_accept(make_bench):
    profile = replace(PROFILE, peek_frac=0.9)
    verdict = make_bench(profile=profile).judge(
        {"race": BETTER, "screen": BETTER, "peek": (1.0, 0.0), "look-1": (0.0, 1.0)}
    )
    peek = verdict.stages[2]
    assert peek.stage == "peek"
    assert peek.p_value < profile.limits[0], "an acceptance, if a peek could accept"
    assert peek.accept_at is None
    assert verdict.stages[-1].stage.startswith("look-")


def test_the_first_look_judges_the_peeks_trials_and_its_own_together(make_bench):
    bench = make_bench(profile=PROFILE)
    verdict = bench.judge({"race": BETTER, "screen": BETTER, "peek": BETTER, "look-1": BETTER})
    assert verdict.decision is Decision.ACCEPT
    peek, look = verdict.stages[2:]
    assert verdict.n == 20
    assert verdict.delta == pytest.approx(0.5)
    whole = [([1.0] * 3, [float(number % 2)] * 3) for number in range(20)]
    assert look.p_value == pytest.approx(within_task_permutation(whole).value)
    assert look.p_value < peek.p_value
    assert (peek.reject_above, look.accept_at) == (0.6, PROFILE.limits[0])


def test_the_tasks_of_peek_and_first_look_are_on_record_and_together_all(make_bench):
    bench = make_bench(profile=PROFILE)
    verdict = bench.judge({"race": BETTER, "screen": BETTER, "peek": BETTER, "look-1": BETTER})
    race, screen, peek, look = verdict.stages
    assert race.task_ids is None
    assert screen.task_ids is None
    assert sorted((*peek.task_ids, *look.task_ids)) == list(bench.ids)
    assert [stage.slot for stage in verdict.stages] == [None, None, 1, 1]
    assert parse_verdict(canonical_json(asdict(verdict))) == verdict


def test_a_peek_that_says_nothing_lets_the_look_decide(make_bench):
    """Half of the trials are lost in an outage: the peek alone is not enough to judge on, nor to give up."""
    bench = make_bench(profile=PROFILE)

    def lost(ids):
        lost_trials = (Unmeasured(Reason.INFRA),) * 3
        return tuple(
            TaskOutcomes(i, (1.0,) * 3, ()) if n < 2 else TaskOutcomes(i, (), lost_trials)
            for n, i in enumerate(ids)
        )

    answer = bench._answer

    def answer_with_outage(ask, value, evaluation_id):
        found = answer(ask, value, evaluation_id)
        return replace(found, tasks=lost(ask.task_ids)) if ask.stage == "peek" else found

    bench._answer = answer_with_outage
    verdict = bench.judge(
        {"race": BETTER, "screen": BETTER, "peek": BETTER, "look-1": BETTER, "look-2": BETTER}
    )
    assert verdict.stages[2].p_value is None
    assert verdict.stages[3].p_value is not None
    assert verdict.decision is Decision.ACCEPT


def test_both_profiles_peek():
    assert [(profile.peek_frac, profile.peek_p) for profile in PROFILES.values()] == [(0.5, 0.6)] * 2


def test_a_verdict_of_before_there_were_peeks_is_judged_again_without_one():
    settings = GateSettings(mode="confirm", confirm=ConfirmProfile())
    stored = asdict(settings)
    assert parse_settings(json.dumps(stored)) == settings
    del stored["confirm"]["peek_frac"], stored["confirm"]["peek_p"]
    for edition in (1, 2):
        read = parse_settings(json.dumps({**stored, "edition": edition}))
        assert read.confirm.peek_frac == 1.0
        assert read == date_settings(settings, edition)
