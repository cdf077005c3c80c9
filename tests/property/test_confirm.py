"""Laws of a confirmation, whatever the trials say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.canonical import canonical_json
from capevolve.gate import GateSettings
from capevolve.gate.confirm.case import Ask, Case, StageEvidence
from capevolve.gate.confirm.judge import advance, used_slot
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.ledger.proposals import parse_verdict
from capevolve.model import Decision, Measurement, Reason, TaskOutcomes, Unmeasured, Verdict

LAW = settings(deadline=None, max_examples=40)
Draw = Callable[[str, str], float | None]
"""What a trial of a task gives in an arm; None is no reward."""

# Easy profiles, so that confirmations get to their ends often.
OPEN = ConfirmProfile(alpha_run=0.9, max_failed_confirmations=1, race_kill_p=1.0, screen_p=1.0)
PROFILE = st.sampled_from(
    [
        ConfirmProfile(),
        PROFILES["strict"],
        OPEN,
        replace(OPEN, look_futility=(1.0, 1.0)),
        replace(OPEN, look_futility=(1.0, 1.0), peek_frac=1.0),
        replace(OPEN, peek_frac=0.2, peek_p=0.9),
        replace(OPEN, looks=(1, 2), look_split=(0.1, 0.9), look_futility=(1.0,), race_frac=0.9),
        replace(OPEN, looks=(3,), look_split=(1.0,), look_futility=(), max_failed_confirmations=3),
    ]
)


class Trials:
    """A world in which an arm passes a task at its own rate, and some trials are lost."""

    def __init__(self, seed: int, gain: float, lost: float) -> None:
        self.rng = random.Random(seed)
        self.gain, self.lost = gain, lost
        self.rates: dict[str, float] = {}

    def draw(self, task_id: str, arm: str) -> float | None:
        if self.rng.random() < self.lost:
            return None
        rate = self.rates.setdefault(task_id, self.rng.choice([0.0, 0.3, 0.5, 0.7, 1.0]))
        if arm == "candidate":
            rate = min(1.0, max(0.0, rate + self.gain))
        if 0.0 < rate < 1.0 and self.rng.random() < 0.1:
            return 0.5
        return float(self.rng.random() < rate)


def measure(ids, k: int, arm: str, draw: Draw, number: int = 1, *, subset: bool = False) -> Measurement:
    tasks = []
    for task_id in ids:
        trials = [draw(task_id, arm) for _ in range(k)]
        rewards = tuple(reward for reward in trials if reward is not None)
        lost = tuple(Unmeasured(Reason.INFRA) for reward in trials if reward is None)
        tasks.append(TaskOutcomes(task_id, rewards, lost))
    return Measurement(str(number), arm, "val", k, 0, tuple(tasks), subset)


def gate_of(profile: ConfirmProfile, no_regression: bool = False) -> GateSettings:
    return GateSettings(mode="confirm", confirm=profile, no_regression=no_regression)


def confirm(case: Case, gate: GateSettings, draw: Draw, *, copy: bool = False) -> tuple[Case, Verdict]:
    """Answers every ask; with `copy` both arms of a look gave the same."""
    ids = tuple(task.task_id for task in case.record.tasks)
    for count in range(4 + len(case.profile.looks)):
        step = advance(case, gate)
        if isinstance(step, Verdict):
            return case, step
        assert count < 3 + len(case.profile.looks), "a verdict is due after the last look"
        evidence = _answer(step, ids, draw, count, copy=copy)
        case = replace(case, evidence=(*case.evidence, evidence))
    raise AssertionError("no verdict")


def _answer(ask: Ask, ids, draw: Draw, count: int, *, copy: bool) -> StageEvidence:
    asked = ask.task_ids or ids
    subset = ask.task_ids is not None
    mine = measure(asked, ask.num_trials, "candidate", draw, 2 * count + 2, subset=subset)
    if not ask.both:
        return StageEvidence(ask.stage, mine)
    theirs = measure(asked, ask.num_trials, "incumbent", draw, 2 * count + 3)
    if copy:
        theirs = replace(theirs, tasks=mine.tasks)
    return StageEvidence(ask.stage, mine, theirs)


@st.composite
def cases(draw) -> tuple[Case, GateSettings, Trials]:
    n, k = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    world = Trials(
        draw(st.integers(0, 2**20)),
        draw(st.sampled_from([-0.3, 0.0, 0.3, 0.6])),
        draw(st.sampled_from([0.0, 0.0, 0.1, 0.5])),
    )
    profile = draw(PROFILE)
    record = measure([f"t{i:02d}" for i in range(n)], k, "incumbent", world.draw)
    failures = draw(st.integers(0, profile.max_failed_confirmations - 1))
    case = Case(f"c{draw(st.integers(0, 50))}", 0, record, profile, k, failures)
    return case, gate_of(profile, draw(st.booleans())), world


@given(cases())
@settings(LAW, max_examples=100)
def test_every_case_comes_to_a_verdict_within_its_stages_and_an_acceptance_is_within_its_limit(drawn):
    case, gate, world = drawn
    done, verdict = confirm(case, gate, world.draw)
    profile, stages = case.profile, verdict.stages
    assert 1 <= len(stages) == len(done.evidence) <= 3 + len(profile.looks)
    looks = [stage for stage in stages if stage.slot is not None]
    assert all(stage.accept_at is None and stage.alpha is None for stage in stages if stage.slot is None)
    assert {stage.slot for stage in looks} <= {case.failures + 1}
    limits = [stage.accept_at for stage in looks if stage.stage != "peek"]
    assert limits == list(profile.limits[: len(limits)])
    assert all(stage.accept_at is None for stage in looks if stage.stage == "peek")
    if verdict.decision is Decision.ACCEPT:
        last = stages[-1]
        assert last.slot is not None
        assert 1 <= last.slot <= profile.max_failed_confirmations
        assert 0.0 < last.p_value <= last.accept_at * (1 + 1e-9)
        assert verdict.p_value == last.p_value
        assert verdict.delta > 0.0
        assert all(stage.p_value > stage.accept_at for stage in looks[:-1] if stage.accept_at is not None)
        assert not used_slot(verdict)
    elif any(stage.p_value is not None for stage in looks):
        assert used_slot(verdict)
    else:
        assert not used_slot(verdict)


@given(cases())
@LAW
def test_fresh_trials_that_are_the_same_in_both_arms_are_never_accepted(drawn):
    case, gate, world = drawn
    world.gain = 0.6  # race and screen are passed; what confirms is the looks alone
    _, verdict = confirm(case, gate, world.draw, copy=True)
    assert verdict.decision is not Decision.ACCEPT


@pytest.mark.parametrize("gain", [0.0, -1.0])
def test_a_candidate_that_is_not_better_is_not_accepted_at_any_level(gain: float):
    """One look at a level of .9 would let a tie through, whose p-value is above one half."""
    profile = ConfirmProfile(
        0.9, 1, race_kill_p=1.0, screen_p=1.0, looks=(1,), look_split=(1.0,), look_futility=()
    )
    ids = [f"t{i}" for i in range(4)]
    record = measure(ids, 4, "incumbent", lambda i, arm: float(int(i[1]) % 2))
    turn = iter(range(10_000))

    def draw(task_id: str, arm: str) -> float:
        """Half of the trials of either arm pass; with a gain of -1 one of the candidate's fewer."""
        return (
            float(next(turn) % 2)
            if not (gain and (task_id, arm) == ("t0", "candidate"))
            else 0.5 * (next(turn) % 2)
        )

    _, verdict = confirm(Case("c", 0, record, profile, 4, 0), gate_of(profile), draw)
    last = verdict.stages[-1]
    assert 0.5 < last.p_value <= last.accept_at
    assert verdict.delta <= 0.0
    assert (verdict.decision, verdict.rule) == (Decision.REJECT, "confirm")
    assert "is within 0.9, and the candidate is not better" in verdict.reason


@given(cases(), st.sampled_from([0.0, 0.5, 1.0]))
@LAW
def test_what_selected_a_candidate_does_not_enter_its_looks(drawn, luck):
    case, gate, world = drawn
    done, verdict = confirm(case, gate, world.draw)
    looks = [stage for stage in verdict.stages if stage.slot is not None]
    if not looks:
        return
    lucky = tuple(
        replace(
            e,
            candidate=replace(
                e.candidate, tasks=tuple(replace(t, rewards=(luck,)) for t in e.candidate.tasks)
            ),
        )
        if e.incumbent is None
        else e
        for e in done.evidence
    )
    other = advance(replace(done, evidence=lucky), gate)
    if isinstance(other, Verdict) and other.stages[-1].slot is not None:
        assert other.stages[-len(looks) :] == tuple(looks)
        assert (other.decision, other.delta, other.p_value) == (
            verdict.decision,
            verdict.delta,
            verdict.p_value,
        )


@given(cases(), st.randoms(use_true_random=False))
@LAW
def test_the_order_of_tasks_and_trials_is_irrelevant(drawn, rng):
    case, gate, world = drawn
    done, verdict = confirm(case, gate, world.draw)

    def move(found: Measurement | None) -> Measurement | None:
        if found is None:
            return None
        tasks = [replace(t, rewards=tuple(rng.sample(t.rewards, len(t.rewards)))) for t in found.tasks]
        rng.shuffle(tasks)
        return replace(found, tasks=tuple(tasks))

    moved = tuple(StageEvidence(e.stage, move(e.candidate), move(e.incumbent)) for e in done.evidence)
    assert advance(replace(done, evidence=moved, record=move(done.record)), gate) == verdict


@given(cases())
@LAW
def test_a_verdict_is_one_clear_line_that_can_be_stored_and_read_back(drawn):
    case, gate, world = drawn
    _, verdict = confirm(case, gate, world.draw)
    assert verdict.reason
    assert "\n" not in verdict.reason
    assert "nan" not in verdict.reason
    assert "None" not in verdict.reason
    assert parse_verdict(canonical_json(asdict(verdict))) == verdict
    assert verdict.improved + verdict.worse + verdict.same == verdict.n


@given(cases())
@LAW
def test_evidence_beyond_the_stage_that_decided_changes_nothing(drawn):
    """`verify` judges again when all trials are there, the last of them too."""
    case, gate, world = drawn
    done, verdict = confirm(case, gate, world.draw)
    for count in range(len(done.evidence)):
        part = replace(done, evidence=done.evidence[:count])
        assert isinstance(advance(part, gate), Ask)
    extra = StageEvidence("look-9", done.evidence[0].candidate, done.evidence[0].candidate)
    assert advance(replace(done, evidence=(*done.evidence, extra)), gate) == verdict


@given(cases())
@LAW
def test_when_the_slots_are_used_up_nothing_is_asked_and_nothing_accepted(drawn):
    case, gate, _ = drawn
    for failures in (case.profile.max_failed_confirmations, case.profile.max_failed_confirmations + 5):
        verdict = advance(replace(case, failures=failures), gate)
        assert isinstance(verdict, Verdict)
        assert (verdict.decision, verdict.rule) == (Decision.REJECT, "budget")


@pytest.mark.parametrize(("selected", "candidates"), [(False, 400), (True, 1_200)])
def test_a_copy_is_accepted_no_more_often_than_its_slot_says(selected: bool, candidates: int):
    """One slot of .5 over three looks, also when luck in race and screen chose whom to confirm."""
    rng = random.Random(11)
    profile = ConfirmProfile(alpha_run=0.5, max_failed_confirmations=1)
    if not selected:
        profile = replace(profile, race_kill_p=1.0, screen_p=1.0)
    ids = [f"t{i}" for i in range(10)]
    rates = {i: rng.betavariate(0.8, 0.8) for i in ids}
    record = measure(ids, 2, "incumbent", lambda i, arm: float(rng.random() < rates[i]))
    gate, looked, accepted = gate_of(profile), 0, 0
    for number in range(candidates):
        case = Case(f"c{number}", 0, record, profile, 2, 0)
        _, verdict = confirm(case, gate, lambda i, arm: float(rng.random() < rates[i]))
        looked += any(stage.slot for stage in verdict.stages)
        accepted += verdict.decision is Decision.ACCEPT
    assert looked >= 100
    assert accepted / looked <= 0.5 + 3 * (0.25 / looked) ** 0.5
    assert accepted > 0  # the gate is not simply shut
