"""The simulation of the gates: it counts what it should, and does not depend on how it is run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.gate_error import open_workers, play_runs, summarise
from benchmarks.gate_simulation import (
    GATES,
    Confirmation,
    Outcome,
    Setup,
    Step,
    Target,
    run_confirm,
    run_uncontrolled,
    simulate_run,
)
from benchmarks.gate_streams import STREAMS, Edit, Kind, draw_edits, draw_seed_rates
from capevolve.gate import GateSettings
from capevolve.gate.confirm.case import Ask, Case
from capevolve.gate.confirm.judge import advance
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.model import Measurement

EVERY = np.arange(10)
NONE = EVERY[:0]
FAIL, PASS = np.zeros(10), np.ones(10)
REPAIR = Edit(Kind.BETTER, 1.0, 0.0, EVERY, NONE)
BREAK = Edit(Kind.WORSE, 0.0, 1.0, NONE, EVERY)
NOTHING = Edit(Kind.NOOP, 0.0, 0.0, NONE, NONE)
PATIENT = ConfirmProfile(race_kill_p=1.0, screen_p=1.0, peek_p=1.0, max_failed_confirmations=1)


def target(drift: float = 0.0) -> Target:
    return Target(np.random.default_rng(1), np.random.default_rng(2), drift)


def confirm(rates: np.ndarray, *edits: Edit, profile: ConfirmProfile = PROFILES["default"]) -> Outcome:
    settings = GateSettings(mode="confirm", confirm=profile)
    return run_confirm(settings, rates, edits, 2, target(), run_seed=1)


@pytest.mark.parametrize("mode", ["paired", "confirm"])
def test_the_result_is_the_same_with_one_worker_and_with_two(mode: str):
    setup = Setup("mixed", n_tasks=10, num_trials=1, candidates=3, drift=0.04)
    alone = play_runs(setup, GATES[mode], 15, None)
    with open_workers(2) as pool:
        assert play_runs(setup, GATES[mode], 15, pool) == alone
    assert len({outcome.steps for outcome in alone}) > 1


@pytest.mark.parametrize("mode", GATES)
def test_a_null_run_gains_nothing_and_any_accept_in_it_is_false(mode: str):
    setup = Setup("null", n_tasks=10, num_trials=2, candidates=10)
    outcomes = [simulate_run(setup, GATES[mode], number) for number in range(12)]
    for outcome in outcomes:
        assert outcome.gain == 0.0
        assert all(step.effect == 0.0 for step in outcome.steps)
        assert outcome.false_bank == any(step.accepted for step in outcome.steps)
    cell = summarise(outcomes)
    assert (cell.gain.value, cell.per_thousand.value) == (0.0, 0.0)
    if mode in ("paired", "strict"):
        assert cell.false_bank.value > 0.0


@pytest.mark.parametrize("mode", ["paired", "significant", "threshold", "strict"])
def test_an_uncontrolled_run_pays_the_seed_and_every_candidate_in_full(mode: str):
    outcome = run_uncontrolled(GATES[mode], FAIL, (REPAIR, BREAK, NOTHING), 2, target())
    assert [(step.accepted, step.rollouts) for step in outcome.steps] == [
        (True, 20),
        (False, 20),
        (False, 20),
    ]
    assert (outcome.gain, outcome.rollouts, outcome.false_bank) == (1.0, 80, False)


def test_a_confirmed_run_pays_for_the_stages_that_were_looked_at():
    # Race 5 tasks, screen the other 5, a look of 2 trials in both arms on 10; a broken candidate races only.
    outcome = confirm(FAIL, REPAIR, BREAK)
    assert [(s.accepted, s.ended, s.rollouts) for s in outcome.steps] == [
        (True, "look-1", 5 + 5 + 2 * 10 * 2),
        (False, "race", 5),
    ]
    assert (outcome.gain, outcome.rollouts) == (1.0, 20 + 50 + 5)


def test_without_a_slot_nothing_is_paid():
    outcome = confirm(np.full(10, 0.5), NOTHING, NOTHING, NOTHING, profile=PATIENT)
    assert [step.accepted for step in outcome.steps] == [False] * 3
    assert outcome.steps[0].rollouts >= 50
    assert [(step.ended, step.rollouts) for step in outcome.steps[1:]] == [("budget", 0)] * 2


def test_the_record_is_the_confirming_trials_and_what_later_looks_add(monkeypatch: pytest.MonkeyPatch):
    records: list[Measurement] = []

    class Spy(Confirmation):
        def __init__(self, case: Case, *rest: Any) -> None:
            records.append(case.record)
            super().__init__(case, *rest)

    monkeypatch.setattr("benchmarks.gate_simulation.Confirmation", Spy)
    open_ended = replace(PATIENT, max_failed_confirmations=8, look_futility=(1.0, 1.0))
    confirm(FAIL, REPAIR, NOTHING)
    assert [(r.candidate_id, r.num_trials) for r in records] == [("seed", 2), ("c0", 2)]
    assert {task.rewards for task in records[1].tasks} == {(1.0, 1.0)}
    records.clear()
    confirm(np.full(10, 0.5), NOTHING, NOTHING, NOTHING, profile=open_ended)
    assert [(r.candidate_id, r.num_trials) for r in records] == [("seed", 2), ("seed", 10), ("seed", 18)]


def test_an_accepted_edit_that_gains_nothing_or_harms_is_a_false_bank():
    def bank(effect: float, accepted: bool) -> bool:
        return Outcome((Step(Kind.WORSE, effect, accepted, "paired", 1),), effect, 1).false_bank

    assert bank(0.0, True)
    assert bank(-0.01, True)
    assert not bank(0.01, True)
    assert not bank(-0.01, False)


@pytest.mark.parametrize("effect", [-0.3, 0.0, 0.4])
def test_the_verdict_is_the_one_of_a_gate_that_is_asked_stage_by_stage(effect: float):
    settings, rates = GATES["confirm"], np.linspace(0.3, 0.6, 10)
    record = target().measure("seed", rates, 2, 0.0)
    case = Case("c0", 1, record, PROFILES["default"], 2, 0)
    trial = Confirmation(case, settings, target(), rates + effect, rates, "seed")
    verdict = trial.decide()
    step, known = advance(case, settings), 0
    while isinstance(step, Ask):
        known += 1
        assert step.stage == trial.evidence[known - 1].stage
        step = advance(replace(case, evidence=trial.evidence[:known]), settings)
    assert step == verdict


def test_both_arms_of_a_look_share_their_session_and_stages_do_not():
    settings, rates = GateSettings(mode="confirm", confirm=PATIENT), np.full(10, 0.5)
    overwhelming = target(drift=1e6)
    record = overwhelming.measure("seed", rates, 2, 0.0)
    trial = Confirmation(Case("c0", 1, record, PATIENT, 2, 0), settings, overwhelming, rates, rates, "seed")
    trial.decide()
    looks = [evidence for evidence in trial.evidence if evidence.incumbent is not None]
    assert looks
    for look in looks:
        assert look.incumbent is not None and look.incumbent.tasks == look.candidate.tasks
    days = {evidence.candidate.tasks[0].rewards[0] for evidence in trial.evidence}
    assert days == {0.0, 1.0}


@pytest.mark.parametrize("stream", STREAMS)
def test_edits_do_what_their_kind_says(stream: str):
    rng = np.random.default_rng(5)
    rates = draw_seed_rates(30, rng)
    edits = draw_edits(stream, 30, 60, rng)
    assert {edit.kind for edit in edits} == set(STREAMS[stream])
    for edit in edits:
        change = edit.apply(rates) - rates
        assert np.all((edit.apply(rates) >= 0.0) & (edit.apply(rates) <= 1.0 + 1e-12))
        if edit.kind is Kind.NOOP:
            assert not change.any()
        elif edit.kind is Kind.BETTER:
            assert change.min() >= 0.0 and 0.01 < change.mean() < 0.101
        elif edit.kind is Kind.WORSE:
            assert change.max() <= 0.0 and -0.101 < change.mean() < -0.01
        else:
            assert change.max() > 0.0 and -0.031 < change.mean() <= 1e-12


def test_a_trade_off_gains_no_more_than_it_can_lose():
    trade = Edit(Kind.TRADE, 0.1, 0.0, EVERY[:5], EVERY[5:])
    assert not trade.apply(FAIL).any()
    assert trade.apply(np.full(10, 0.5)).mean() == pytest.approx(0.5)
