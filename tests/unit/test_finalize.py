"""Finalize with real hosts: exactly once across interruptions, counted by the target itself."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from capevolve.errors import TestSealError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.finalize import conclude, finalize, is_committed
from capevolve.ledger.attempts import read_attempts
from capevolve.ledger.runs import read_run

pytestmark = pytest.mark.both_ledgers


class PowerCutError(Exception):
    """Raised by a hook in the place of a crash."""


@pytest.fixture
def searched(make_project, search_only):
    """A project whose search is over, and the number of calls it took."""
    project = make_project(spec={"evaluation": {"num_trials": 2, "concurrency": 2, "retries": 0}})
    search_only(project)
    project.calls_path.unlink()
    return project


def finalize_now(project, **options):
    with project.driven() as run:
        return asyncio.run(finalize(run, **options))


def cut_at(hook, name, occurrence=1):
    """Makes the process fail the given time it reaches a failpoint."""
    seen = Counter()

    def cut(reached):
        seen[reached] += 1
        if reached == name and seen[reached] == occurrence:
            raise PowerCutError(name)

    hook(cut)


def test_best_and_seed_are_scored_once_each_and_the_delta_is_paired(searched):
    result = finalize_now(searched)
    assert (result.test.reward, result.test_baseline.reward) == (1.0, 0.0)
    assert result.test_delta is not None
    assert result.test_delta.delta == 1.0
    assert (result.test_delta.n, result.test_delta.improved) == (4, 4)
    assert result.test_delta.p_sign_flip.value == 0.0625
    assert set(result.test.pass_k) == {"1", "2"}
    assert len(searched.calls()) == 2 * 4 * 2
    assert (result.seal.look, result.seal.attempts, result.seal.interrupted_trials) == (1, 1, 0)


def test_both_candidates_are_interleaved_trial_by_trial(make_project, search_only):
    project = make_project(spec={"evaluation": {"num_trials": 2, "concurrency": 1, "retries": 0}})
    search_only(project)
    project.calls_path.unlink()
    finalize_now(project)
    calls = project.calls()
    assert len(calls) == 16
    assert calls[0::2] == calls[1::2]  # each trial of the one is followed by the same trial of the other


@pytest.mark.parametrize(
    "name",
    ["seal.admitted", "seal.opened", "evaluate.opened", "evaluate.executed", "evaluate.finished",
     "seal.scored", "seal.committing"],
)  # fmt: skip
def test_a_finalize_cut_between_two_steps_is_continued_without_a_second_call(searched, hook, name):
    cut_at(hook, name)
    with pytest.raises(PowerCutError):
        finalize_now(searched)
    hook(lambda _: None)
    result = finalize_now(searched)
    assert (result.test.reward, result.test_baseline.reward) == (1.0, 0.0)
    assert len(searched.calls()) == 16
    assert max(Counter(searched.calls()).values()) == 2  # once for each candidate
    assert (result.seal.look, result.seal.attempts) == (1, 1)


def test_a_finalize_cut_after_the_commit_only_reports(searched, hook):
    cut_at(hook, "seal.committed")
    with pytest.raises(PowerCutError):
        finalize_now(searched)
    hook(lambda _: None)
    calls = len(searched.calls())
    with searched.driven() as run:
        conclusion = asyncio.run(conclude(run))
    assert conclusion.fresh is False
    assert conclusion.result.test.reward == 1.0
    assert len(searched.calls()) == calls == 16


@pytest.mark.parametrize("occurrence", [1, 2, 3, 5])
def test_trials_in_flight_at_a_cut_are_counted_and_recorded_ones_never_called_again(
    searched, hook, occurrence
):
    cut_at(hook, "evaluate.after_commit", occurrence)
    with pytest.raises(PowerCutError):
        finalize_now(searched)
    hook(lambda _: None)
    before = len(searched.calls())
    result = finalize_now(searched)
    interrupted = result.seal.interrupted_trials
    assert 1 <= interrupted <= 2  # what was claimed and had no result; concurrency is 2
    assert 16 <= len(searched.calls()) <= 16 + interrupted
    assert before < len(searched.calls())
    assert (result.test.reward, result.test_baseline.reward) == (1.0, 0.0)


def test_interrupted_twice_a_test_trial_becomes_missing_data(searched, hook):
    for _ in range(2):
        cut_at(hook, "evaluate.after_commit")
        with pytest.raises(PowerCutError):
            finalize_now(searched)
    hook(lambda _: None)
    result = finalize_now(searched)
    assert result.test.n_missing + result.test_baseline.n_missing >= 1
    assert result.test.reward == 1.0  # missing is missing, not 0


def test_strict_at_most_once_makes_an_interrupted_trial_missing_at_once(make_project, search_only, hook):
    project = make_project(spec={"seal": {"interrupted": "missing"}})
    search_only(project)
    project.calls_path.unlink()
    cut_at(hook, "evaluate.after_commit")
    with pytest.raises(PowerCutError):
        finalize_now(project)
    hook(lambda _: None)
    result = finalize_now(project)
    assert result.test.n_missing + result.test_baseline.n_missing == result.seal.interrupted_trials >= 1
    assert max(Counter(project.calls()).values()) <= 2


def test_a_changed_trial_count_is_refused_after_a_claim_and_the_old_plan_still_finishes(searched, hook):
    cut_at(hook, "evaluate.after_commit")
    with pytest.raises(PowerCutError):
        finalize_now(searched)
    hook(lambda _: None)
    before = len(searched.calls())
    # The stored spec is the run's; a changed one is refused before that. Reach past it, as an attacker would.
    with searched.driven() as run:
        other = run.spec.model_copy(update={"seal": run.spec.seal.model_copy(update={"num_trials": 1})})
        object.__setattr__(run, "spec", other)
        with pytest.raises(TestSealError, match="num_trials was 2, is 1"):
            asyncio.run(finalize(run))
    assert len(searched.calls()) == before
    assert finalize_now(searched).test.reward == 1.0


def test_without_an_accepted_candidate_there_is_one_evaluation_and_no_delta(make_project, search_only):
    project = make_project(edits=[])
    search_only(project)
    project.calls_path.unlink()
    result = finalize_now(project)
    assert result.test_delta is None
    assert result.test_delta_reason == "no_change"
    assert result.best_id == result.baseline_id
    assert len(project.calls()) == 4


def test_an_override_is_on_record_in_the_result(searched):
    finalize_now(searched)
    result = finalize_now(searched, override_reason="the scorer was fixed")
    assert result.test_looks == 2
    assert result.seal.override_reason == "the scorer was fixed"
    assert len(searched.calls()) == 32
    with searched.driven() as run, run.ledger.read() as connection:
        first, second = read_attempts(connection, run.id)
        assert is_committed(connection, run.id)
    assert json.loads(first.result)["test_looks"] == 1
    assert json.loads(second.result)["test_looks"] == 2


def test_a_second_run_over_the_same_tests_says_look_two_and_max_looks_refuses_before_a_call(
    make_project, search_only
):
    project = make_project(spec={"seal": {"max_test_looks": 2}})
    looks = []
    for run_id in ("r1", "r2"):
        search_only(project, run_id)
        with project.driven(run_id) as run:
            looks.append(asyncio.run(finalize(run)).test_looks)
    assert looks == [1, 2]
    search_only(project, "r3")
    with project.driven("r3") as run:
        before = len(project.calls())
        with pytest.raises(TestSealError, match="look 3"):
            asyncio.run(finalize(run))
    assert len(project.calls()) == before


def test_evaluating_test_without_a_ticket_is_refused_and_finalize_still_works(searched):
    with searched.driven() as run:
        with run.ledger.read() as connection:
            seed_id = read_run(connection, run.id).seed_candidate
        with pytest.raises(TestSealError, match="ticket"):
            asyncio.run(evaluate(run, EvaluationRequest(seed_id, "test")))
    assert searched.calls() == []
    assert finalize_now(searched).test.reward == 1.0
