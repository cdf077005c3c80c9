"""The verdict of an iteration: on finished, full val evaluations of both sides, and only once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from capevolve.errors import FencedError, LedgerError
from capevolve.gate.record import gate_settings, record_verdict
from capevolve.ledger import schema
from capevolve.ledger.evaluations import finish_evaluation, open_evaluation
from capevolve.ledger.leases import acquire_lease
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.runs import read_run, read_split
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Decision, Reason, Scored, Unmeasured
from capevolve.proposers.proposal import make_proposal
from capevolve.start import start_run

MISSING = Unmeasured(Reason.INFRA, "down")


@pytest.fixture
def driven(make_project):
    """A started run with one proposal."""
    project = make_project()
    with project.driven() as run:
        seed = asyncio.run(start_run(run)).record.seed_candidate
        proposal = asyncio.run(make_proposal(run, 1, seed))
        yield run, seed, proposal.candidate_id


def _measure(run, candidate_id, outcomes, *, finished=True, **key):
    with run.ledger.write() as connection:
        wanted = replace(run.key(candidate_id, "val"), **key)
        fence = open_evaluation(connection, run.driver, wanted, 0.0)
        ids = [task.ref.id for task in read_split(connection, run.id, "val")]
        claim_trials(connection, fence, [Claim(task, 0, 0) for task in ids], 0.0)
        results = [TrialResult(task, 0, outcome) for task, outcome in zip(ids, outcomes, strict=True)]
        record_results(connection, fence, results, 0.0)
        if finished:
            finish_evaluation(connection, fence, 0.0)
    return fence.evaluation_id


def test_a_verdict_rests_on_both_evaluations_and_the_settings_and_is_recorded_once(driven, hook):
    run, seed, candidate = driven
    mine = _measure(run, candidate, [Scored(1.0)] * 4)
    other = _measure(run, seed, [Scored(0.0)] * 4)
    record = record_verdict(run, 1)
    assert record.verdict.decision is Decision.ACCEPT
    assert (record.candidate_evaluation, record.incumbent_evaluation) == (mine, other)
    assert (record.candidate_id, record.incumbent_id) == (candidate, seed)
    assert '"mode":"paired"' in record.settings
    assert record_verdict(run, 1) == record
    with run.ledger.read() as connection:
        assert read_verdicts(connection, run.id) == (record,)


def test_a_verdict_once_recorded_outlives_a_change_of_the_gate(driven):
    run, seed, candidate = driven
    _measure(run, candidate, [Scored(1.0)] * 4)
    _measure(run, seed, [Scored(0.0)] * 4)
    before = record_verdict(run, 1)
    strictest = run.spec.model_copy(update={"gate": run.spec.gate.model_copy(update={"k_se": 10.0})})
    assert record_verdict(replace(run, spec=strictest), 1) == before


def test_missing_data_is_indecisive_and_not_a_rejection(driven):
    run, seed, candidate = driven
    _measure(run, candidate, [MISSING, MISSING, MISSING, Scored(0.0)])
    _measure(run, seed, [Scored(1.0)] * 4)
    assert record_verdict(run, 1).verdict.decision is Decision.INDECISIVE


@pytest.mark.parametrize("side", ["candidate", "seed"])
def test_an_evaluation_under_way_is_not_judged(driven, side):
    run, seed, candidate = driven
    _measure(run, candidate, [Scored(1.0)] * 4, finished=side != "candidate")
    _measure(run, seed, [Scored(0.0)] * 4, finished=side != "seed")
    with pytest.raises(LedgerError, match="before its"):
        record_verdict(run, 1)
    with run.ledger.read() as connection:
        assert read_verdicts(connection, run.id) == ()


def test_an_evaluation_of_other_trials_or_tasks_is_not_taken_for_the_real_one(driven):
    run, seed, candidate = driven
    with run.ledger.read() as connection:
        ids = tuple(task.ref.id for task in read_split(connection, run.id, "val"))
    _measure(run, seed, [Scored(0.0)] * 4)
    for key in ({"subset": ids}, {"num_trials": 9}, {"base_seed": 9}, {"tag": "mine"}):
        _measure(run, candidate, [Scored(1.0)] * 4, **key)
    with pytest.raises(LedgerError, match="before its val trials"):
        record_verdict(run, 1)


@pytest.mark.parametrize("iteration", [0, 2])
def test_an_iteration_without_a_candidate_has_nothing_to_judge(driven, iteration):
    run, seed, _ = driven
    with pytest.raises(LedgerError, match="no candidate to judge"):
        record_verdict(run, iteration)
    assert seed


def test_a_driver_that_lost_the_run_judges_nothing(driven):
    run, seed, candidate = driven
    _measure(run, candidate, [Scored(1.0)] * 4)
    _measure(run, seed, [Scored(0.0)] * 4)
    with run.ledger.write() as connection:
        connection.execute(schema.leases.update().values(heartbeat_at=0.0))
        acquire_lease(connection, run.id, run.clock())
    with pytest.raises(FencedError):
        record_verdict(run, 1)
    with run.ledger.read() as connection:
        assert read_verdicts(connection, run.id) == ()
        assert read_run(connection, run.id).seed_candidate == seed


def test_cut_while_judging_leaves_no_verdict_and_the_next_try_gives_the_same(driven, hook):
    run, seed, candidate = driven
    _measure(run, candidate, [Scored(1.0)] * 4)
    _measure(run, seed, [Scored(0.0)] * 4)

    def cut(name):
        if name == "gate.judged":
            raise RuntimeError(name)

    hook(cut)
    with pytest.raises(RuntimeError):
        record_verdict(run, 1)
    hook(lambda name: None)
    with run.ledger.read() as connection:
        assert read_verdicts(connection, run.id) == ()
    assert record_verdict(run, 1).verdict.decision is Decision.ACCEPT


def test_the_settings_are_those_of_the_spec(driven):
    run, _, _ = driven
    settings = gate_settings(run.spec.gate)
    gate = run.spec.gate
    assert (settings.mode, settings.k_se, settings.threshold, settings.min_coverage) == (
        gate.mode, gate.k_se, gate.threshold, gate.min_coverage,
    )  # fmt: skip
