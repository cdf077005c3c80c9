"""How mode confirm ends a search: slots used up, and what an incumbent's record says of headroom."""

from __future__ import annotations

import asyncio

import pytest

from capevolve.gate.confirm.seeds import StageTag, fresh_seed
from capevolve.ledger.evaluations import EvaluationKey, finish_evaluation, open_evaluation
from capevolve.ledger.proposals import VerdictRecord, insert_verdict
from capevolve.ledger.runs import read_split
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Decision, Reason, Scored, StageVerdict, Unmeasured, Verdict
from capevolve.proposers.proposal import make_proposal
from capevolve.search.planning import plan_next
from capevolve.start import start_run

ACCEPT, REJECT, INDECISIVE = Decision.ACCEPT, Decision.REJECT, Decision.INDECISIVE
EDITS = [{"summary": f"edit {n}", "edits": {"prompt.md": f"{n}\n"}} for n in range(1, 9)]


class Bench:
    """A started run in which verdicts and trials are written by hand."""

    def __init__(self, run):
        self.run = run
        self.seed = self.best = asyncio.run(start_run(run)).record.seed_candidate
        self.iteration = 0
        with run.ledger.read() as connection:
            self.ids = [task.ref.id for task in read_split(connection, run.id, "val")]

    def measure(self, key: EvaluationKey, reward: float | Reason) -> int:
        outcome = Unmeasured(reward) if isinstance(reward, Reason) else Scored(reward)
        with self.run.ledger.write() as connection:
            fence = open_evaluation(connection, self.run.driver, key, 0.0)
            claim_trials(connection, fence, [Claim(i, 0, key.base_seed) for i in self.ids], 0.0)
            record_results(connection, fence, [TrialResult(i, 0, outcome) for i in self.ids], 0.0)
            finish_evaluation(connection, fence, 0.0)
        return fence.evaluation_id

    def baseline(self, reward: float = 0.5) -> None:
        self.measure(self.run.key(self.seed, "val"), reward)

    def judge(self, decision: Decision, *, looked: bool = True, p: float | None = 0.5, mine=0.5, theirs=0.5):
        """One iteration with this verdict; with `looked` after a look, whose arms gave these rewards."""
        self.iteration += 1
        candidate = asyncio.run(make_proposal(self.run, self.iteration, self.best)).candidate_id
        name = "look-1" if looked else "race"
        seed = fresh_seed(0, candidate, name) if looked else 0
        arms = {"candidate": (candidate, mine), "incumbent": (self.best, theirs)}
        made = {}
        for arm in arms if looked else ["candidate"]:
            whose, reward = arms[arm]
            tag = StageTag(name, arm, candidate).text
            made[arm] = self.measure(EvaluationKey(self.run.id, whose, "val", 1, seed, tag), reward)
        stage = StageVerdict(
            name, p, 0.7, 0.01 if looked else None, 1 if looked else None, 0.025 if looked else None, 1, seed,
            str(made["candidate"]), str(made["incumbent"]) if looked else None,
        )  # fmt: skip
        verdict = Verdict(decision, name, "why", None, None, None, p, 4, 0, 0, 4, (), (stage,))
        record = VerdictRecord(
            self.iteration, candidate, self.best, made["candidate"], made["candidate"], "{}", verdict, 0.0
        )
        with self.run.ledger.write() as connection:
            insert_verdict(connection, self.run.id, record)
        if decision is ACCEPT:
            self.best = candidate

    @property
    def stop_reason(self) -> str | None:
        step = plan_next(self.run)
        assert (step.iteration is None) == (step.stop_reason is not None)
        return step.stop_reason


@pytest.fixture
def begin(make_project):
    opened = []

    def start(slots: int = 2, gate=None, **spec):
        gate = gate or {"confirm": {"max_failed_confirmations": slots}}
        project = make_project(spec={"gate": gate, "search": {"max_iterations": 8}, **spec}, edits=EDITS)
        driven = project.driven()
        run = driven.__enter__()
        opened.append(driven)
        return Bench(run)

    yield start
    for driven in opened:
        driven.__exit__(None, None, None)


# --- slots ----------------------------------------------------------------------------------------


def test_the_search_goes_on_while_a_slot_is_left_and_ends_when_the_last_was_used(begin):
    bench = begin(slots=2)
    bench.baseline()
    assert bench.stop_reason is None
    bench.judge(REJECT)
    assert bench.stop_reason is None
    bench.judge(REJECT)
    assert bench.stop_reason == "confirmation budget exhausted: all 2 slots are used up"
    assert plan_next(bench.run).parent_id == bench.seed


def test_what_never_came_to_a_look_an_acceptance_and_an_indecisive_look_use_no_slot(begin):
    bench = begin(slots=1)
    bench.baseline()
    bench.judge(REJECT, looked=False)
    bench.judge(INDECISIVE, p=None)
    bench.judge(ACCEPT, p=0.001)
    assert bench.stop_reason is None
    bench.judge(INDECISIVE, p=0.3)  # a p-value was computed in it
    assert "all 1 slots" in bench.stop_reason


def test_a_search_that_is_over_anyway_says_so_before_it_speaks_of_slots(begin):
    bench = begin(slots=1, search={"max_iterations": 1})
    bench.baseline()
    bench.judge(REJECT)
    assert bench.stop_reason == "max_iterations reached (1)"


def test_the_other_modes_have_no_slots(begin):
    bench = begin(gate={"mode": "paired"})
    bench.baseline()
    for _ in range(5):
        bench.judge(REJECT)
    assert bench.stop_reason is None


def test_no_proposal_is_paid_for_once_the_slots_are_used_up(begin):
    """Neither is one continued that was made and not judged yet: nothing could come of it."""
    bench = begin(slots=1)
    bench.baseline()
    bench.judge(REJECT)
    asyncio.run(make_proposal(bench.run, 2, bench.seed))
    assert "confirmation budget exhausted" in bench.stop_reason


# --- headroom -------------------------------------------------------------------------------------


def test_a_seed_candidate_that_passes_everything_leaves_no_headroom(begin):
    bench = begin()
    bench.baseline(1.0)
    assert "no headroom" in bench.stop_reason


def test_fresh_trials_of_the_incumbent_can_show_headroom_that_the_baseline_did_not(begin):
    bench = begin(slots=9)
    bench.baseline(1.0)
    bench.judge(REJECT, theirs=1.0)
    assert "no headroom" in bench.stop_reason
    bench.judge(REJECT, theirs=0.5)
    assert bench.stop_reason is None


def test_an_accepted_incumbents_headroom_is_that_of_the_trials_that_confirmed_it(begin):
    bench = begin()
    bench.baseline(0.5)
    bench.judge(ACCEPT, p=0.001, mine=1.0)
    assert "no headroom" in bench.stop_reason


def test_a_later_confirmation_against_it_counts_too(begin):
    bench = begin(slots=9)
    bench.baseline(0.5)
    bench.judge(ACCEPT, p=0.001, mine=1.0)
    bench.judge(REJECT, theirs=0.0)
    assert bench.stop_reason is None


@pytest.mark.parametrize("mine", [0.9, Reason.INFRA])
def test_what_did_not_pass_or_was_not_measured_leaves_headroom(begin, mine):
    bench = begin()
    bench.baseline(0.5)
    bench.judge(ACCEPT, p=0.001, mine=mine)
    assert bench.stop_reason is None


def test_a_full_evaluation_of_an_accepted_candidate_is_not_its_record(begin):
    """Somebody may evaluate it by hand; what it rests on is what confirmed it."""
    bench = begin()
    bench.baseline(0.5)
    bench.judge(ACCEPT, p=0.001, mine=0.5)
    bench.measure(bench.run.key(bench.best, "val"), 1.0)
    assert bench.stop_reason is None


def test_in_the_other_modes_headroom_is_that_of_the_full_evaluation(begin):
    bench = begin(gate={"mode": "paired"})
    bench.baseline(0.5)
    bench.judge(ACCEPT, mine=0.5)
    assert bench.stop_reason is None
    bench.measure(bench.run.key(bench.best, "val"), 1.0)
    assert "no headroom" in bench.stop_reason
