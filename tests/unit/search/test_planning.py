"""The next step and what may still be spent, from the rows of a run; results are written without hosts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from capevolve.budget import Remaining
from capevolve.ledger import schema
from capevolve.ledger.evaluations import finish_evaluation, open_evaluation
from capevolve.ledger.proposals import ProposalRecord, finish_proposal, start_proposal
from capevolve.ledger.runs import read_run, read_split
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Reason, Scored, Unmeasured
from capevolve.search.planning import plan_next, read_remaining, read_remaining_for_final
from capevolve.start import start_run

MISSING = Unmeasured(Reason.INFRA, "down")


@pytest.fixture
def start(make_project):
    def go(**spec):
        project = make_project(spec=spec)
        with project.driven() as run:
            asyncio.run(start_run(run))
        return project

    return go


def _measure(run, outcomes, split="val", *, finished=True, cost=None):
    """Records one trial per task of the seed candidate."""
    with run.ledger.write() as connection:
        key = run.key(read_run(connection, run.id).seed_candidate, split)
        fence = open_evaluation(connection, run.driver, key, 0.0)
        ids = [task.ref.id for task in read_split(connection, run.id, split)]
        pairs = list(zip(ids, outcomes, strict=False))
        claim_trials(connection, fence, [Claim(task, 0, 0) for task, _ in pairs], 0.0)
        results = [TrialResult(task, 0, outcome, cost_usd=cost) for task, outcome in pairs]
        record_results(connection, fence, results, 0.0)
        if finished:
            finish_evaluation(connection, fence, 0.0)


def _propose(run, iteration, status="failed", cost=None):
    with run.ledger.write() as connection:
        start_proposal(connection, run.id, iteration, "p", 0.0)
        record = ProposalRecord(iteration, "p", status, None, "", "", cost, None, 0, 0.0, 0.0)
        finish_proposal(connection, run.id, record)


def test_a_new_run_begins_with_iteration_1_on_the_seed_candidate(start):
    with start().driven() as run:
        with run.ledger.read() as connection:
            seed = read_run(connection, run.id).seed_candidate
        step = plan_next(run)
    assert (step.iteration, step.parent_id, step.stop_reason) == (1, seed, None)


def test_an_incumbent_that_scores_everything_on_val_ends_the_search(start):
    with start().driven() as run:
        _measure(run, [Scored(1.0)] * 4)
        step = plan_next(run)
    assert (step.iteration, "no headroom" in (step.stop_reason or "")) == (None, True)


@pytest.mark.parametrize(
    "outcomes", [[Scored(1.0), MISSING, MISSING, MISSING], [Scored(1.0)] * 3 + [MISSING]]
)
def test_what_was_not_measured_is_no_proof_that_nothing_can_be_gained(start, outcomes):
    with start().driven() as run:
        _measure(run, outcomes)
        assert plan_next(run).iteration == 1


def test_an_evaluation_under_way_says_nothing_of_headroom(start):
    with start().driven() as run:
        _measure(run, [Scored(1.0)] * 2, finished=False)
        assert plan_next(run).iteration == 1


def test_train_scores_say_nothing_of_headroom(start):
    with start().driven() as run:
        _measure(run, [Scored(1.0)] * 4, "train")
        assert plan_next(run).iteration == 1


def test_time_that_is_up_ends_the_search(start):
    with start(budget={"max_minutes": 0.5}).driven() as run:
        assert run.deadline is not None
        late = replace(run, clock=lambda: run.deadline)
        step = plan_next(late)
        assert step.iteration is None
        assert step.stop_reason == "the cap on time is reached (budget.max_minutes: 0.5)"
        assert plan_next(replace(run, clock=lambda: run.deadline - 1.0)).iteration == 1


def test_the_proposers_money_ends_the_search_also_when_its_proposals_failed(start):
    with start(budget={"max_proposer_usd": 0.5}, search={"max_iterations": 9}).driven() as run:
        _propose(run, 1, cost=0.3)
        assert plan_next(run).iteration == 2
        _propose(run, 2, "empty", cost=0.2)
        assert plan_next(run).stop_reason == "the cap on the proposer's money is reached (0.5 of 0.5 USD)"


def test_no_money_for_the_proposer_makes_no_proposal(start):
    with start(budget={"max_proposer_usd": 0.0}).driven() as run:
        assert plan_next(run).iteration is None


def test_a_search_that_is_over_says_why_before_it_speaks_of_a_cap(start):
    with start(budget={"max_proposer_usd": 0.0}, search={"max_iterations": 0}).driven() as run:
        assert plan_next(run).stop_reason == "max_iterations reached (0)"


def test_without_caps_everything_remains(start):
    with start().driven() as run:
        _measure(run, [Scored(0.0)] * 4, cost=0.5)
        assert read_remaining(run) == Remaining()


def test_what_remains_is_the_cap_less_what_was_spent_and_what_finalize_will_take(start):
    spec = {"budget": {"max_calls": 50, "max_usd": 10.0}, "seal": {"num_trials": 2}}
    with start(**spec).driven() as run:
        _measure(run, [Scored(0.0)] * 4, cost=0.25)
        _propose(run, 1, cost=1.0)
        # finalize: two candidates, four test tasks, two trials each
        assert read_remaining(run) == Remaining(calls=50 - 4 - 16, usd=10.0 - 1.0 - 1.0 - 16 * 0.25)


def test_finalize_may_spend_what_was_set_aside_for_it_and_only_the_cap_on_money_can_stop_it(start):
    with start(budget={"max_calls": 5, "max_usd": 10.0, "max_minutes": 0.0}).driven() as run:
        _measure(run, [Scored(0.0)] * 4, cost=0.25)
        _propose(run, 1, cost=1.0)
        assert read_remaining_for_final(run) == Remaining(usd=8.0)
    with start().driven() as run:
        assert read_remaining_for_final(run) == Remaining()


def test_interrupted_calls_are_spent_calls(start):
    with start(budget={"max_calls": 30}).driven() as run:
        _measure(run, [Scored(0.0)] * 4)
        before = read_remaining(run).calls
        with run.ledger.write() as connection:
            connection.execute(schema.trials.update().values(calls=3, interrupted=2))
        assert read_remaining(run).calls == (before or 0) - 8
