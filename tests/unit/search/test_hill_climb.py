"""The policy as a table: what happened so far, what comes next."""

from __future__ import annotations

import pytest

from capevolve.ledger.proposals import ProposalRecord, VerdictRecord
from capevolve.model import Decision, Verdict
from capevolve.search.hill_climb import MAX_BARREN, HillClimb
from capevolve.search.state import build_state, find_incumbent

WORDS = {"a": Decision.ACCEPT, "r": Decision.REJECT, "i": Decision.INDECISIVE}
STATUS = {"e": "empty", "d": "duplicate", "v": "invalid", "f": "failed", "x": "exhausted"}


def _verdict(iteration: int, decision: Decision) -> VerdictRecord:
    verdict = Verdict(decision, "paired", "", None, None, None, None, 0, 0, 0, 0)
    return VerdictRecord(iteration, f"c{iteration}", "p", 1, 1, "{}", verdict, 0.0)


def _proposal(iteration: int, status: str) -> ProposalRecord:
    candidate = f"c{iteration}" if status in ("proposed", "duplicate") else None
    return ProposalRecord(iteration, "p", status, candidate, "", "", None, None, 1, 0.0, None)


def _state(history: str, mean: float | None = 0.5):
    """`a r i`: accepted, rejected, indecisive; `e d v f x`: without a candidate; `s p`: still open."""
    proposals, verdicts = [], []
    for iteration, letter in enumerate(history, start=1):
        status = {"s": "started"}.get(letter, STATUS.get(letter, "proposed"))
        proposals.append(_proposal(iteration, status))
        if letter in WORDS:
            verdicts.append(_verdict(iteration, WORDS[letter]))
    return build_state("seed", tuple(proposals), tuple(verdicts), mean)


@pytest.mark.parametrize(
    ("history", "iteration", "reason"),
    [
        ("", 1, None),
        ("r", 2, None),
        ("s", 1, None),
        ("p", 1, None),
        ("rs", 2, None),
        ("ap", 2, None),
        ("rrr", None, "stalled: 3 rejections in a row"),
        ("rarr", 5, None),
        ("rarrr", None, "stalled: 3 rejections in a row"),
        ("riirir", None, "stalled: 3 rejections in a row"),
        ("iiiiii", 7, None),
        ("rirei", 6, None),
        ("rrs", 3, None),
        ("ee", 3, None),
        ("edv", None, "3 proposals in a row held nothing to evaluate"),
        ("efief", 6, None),
        ("fff", None, "3 proposals in a row held nothing to evaluate"),
        ("ax", None, "the proposer has nothing more to propose"),
        ("x", None, "the proposer has nothing more to propose"),
        ("arararar" + "ar", None, "max_iterations reached (10)"),
        ("a" * 9, 10, None),
        ("a" * 9 + "p", 10, None),
    ],
)
def test_what_comes_next(history, iteration, reason):
    step = HillClimb(max_iterations=10, stall=3).plan_step(_state(history))
    assert (step.iteration, step.stop_reason) == (iteration, reason)


def test_without_a_stall_rejections_never_end_the_search():
    assert HillClimb(100, 0).plan_step(_state("r" * 50)).iteration == 51


def test_no_iterations_make_none():
    step = HillClimb(0, 3).plan_step(_state(""))
    assert (step.iteration, step.stop_reason) == (None, "max_iterations reached (0)")


@pytest.mark.parametrize(
    ("mean", "stops"), [(1.0, True), (1.0 - 1e-12, True), (0.999, False), (0.0, False), (None, False)]
)
def test_an_incumbent_without_headroom_ends_the_search_before_anything_is_proposed(mean, stops):
    step = HillClimb(10, 3).plan_step(_state("", mean))
    assert (step.iteration is None) == stops
    assert stops == ("no headroom" in (step.stop_reason or ""))


@pytest.mark.parametrize(
    ("history", "incumbent"),
    [("", "seed"), ("rr", "seed"), ("ra", "c2"), ("araai", "c4"), ("ap", "c1"), ("ad", "c1")],
)
def test_the_latest_accepted_candidate_is_edited(history, incumbent):
    assert HillClimb(10, 0).plan_step(_state(history)).parent_id == incumbent


def test_the_step_is_the_same_however_often_it_is_asked_for():
    state = _state("rap")
    assert HillClimb(10, 3).plan_step(state) == HillClimb(10, 3).plan_step(state)


def test_an_iteration_ends_with_its_verdict_or_without_a_candidate():
    assert [(i.number, i.decision) for i in _state("aesr").finished] == [
        (1, Decision.ACCEPT),
        (2, None),
        (4, Decision.REJECT),
    ]


def test_the_incumbent_is_the_seed_candidate_before_the_first_acceptance():
    assert find_incumbent("seed", ()) == "seed"
    assert find_incumbent("seed", (_verdict(1, Decision.REJECT),)) == "seed"


def test_three_is_what_barren_means():
    assert MAX_BARREN == 3
