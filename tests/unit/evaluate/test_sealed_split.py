"""The test split by every door of `evaluate`: refused, nothing called, finalize still possible."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

import capevolve
from capevolve import seal
from capevolve.errors import TestSealError
from capevolve.evaluate import EvaluationRequest, evaluate, evaluate_together
from capevolve.evaluate.ticket import Ticket
from capevolve.finalize import finalize
from capevolve.ledger.attempts import read_attempts
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.runs import read_run
from capevolve.model import TaskRef
from capevolve.start import start_run


@pytest.fixture
def driven(make_project):
    project = make_project()
    with project.driven() as run:
        asyncio.run(start_run(run))
        yield project, run


def _seed(run) -> str:
    with run.ledger.read() as connection:
        return read_run(connection, run.id).seed_candidate


def _open(run, reason=None, **changes) -> Ticket:
    """What finalize does before it scores."""
    seed = _seed(run)
    with run.ledger.read() as connection:
        files = read_run(connection, run.id).adapter_files
    request = seal.PlanRequest(seed, seed, 1, 0, (1,), files, capevolve.__version__)
    plan = replace(request, **changes)
    return seal.open_attempt(run.ledger, run.driver, plan, now=run.clock(), override_reason=reason)


def _refused(project, run, ticket, **changes) -> None:
    calls = project.calls()
    request = EvaluationRequest(**{"candidate_id": _seed(run), "split": "test", "tag": "FINAL", **changes})
    with pytest.raises(TestSealError):
        asyncio.run(evaluate(run, request, ticket=ticket))
    val = EvaluationRequest(_seed(run), "val")
    with pytest.raises(TestSealError):  # nor beside an evaluation that is allowed
        asyncio.run(evaluate_together(run, [val, request], ticket=ticket))
    assert project.calls() == calls
    with run.ledger.read() as connection:
        assert [e for e in list_evaluations(connection, run.id) if e.finished_at is None] == []


def _finalizes(project, run) -> None:
    project.calls_path.unlink(missing_ok=True)
    result = asyncio.run(finalize(run))
    assert result.test_looks == 1
    assert sorted(Counter(project.calls()).values()) == [1, 1, 1, 1]


def test_without_a_ticket_and_with_forged_ones(driven):
    project, run = driven
    forged = Ticket(run.id, 1, "sha256:0", (TaskRef("t00", "sha256:0"),))
    for ticket in (None, forged, replace(forged, attempt_id=99), replace(forged, run_id="r2")):
        _refused(project, run, ticket)
    with run.ledger.read() as connection:
        assert read_attempts(connection, run.id) == ()
    _finalizes(project, run)


def test_with_a_real_ticket_for_anything_but_its_plan(driven):
    project, run = driven
    ticket = _open(run)
    for changes in (
        {"num_trials": 2},
        {"ids": (ticket.tasks[0].id,)},
        {"candidate_id": "sha256:" + "1" * 64},
    ):
        _refused(project, run, ticket, **changes)
    for other in (
        replace(ticket, plan_digest="sha256:0"),
        replace(ticket, tasks=ticket.tasks[:2]),
        replace(ticket, attempt_id=ticket.attempt_id + 1),
    ):
        _refused(project, run, other)
    _finalizes(project, run)


def test_a_second_look_under_another_name_within_the_open_attempt(driven):
    project, run = driven
    ticket = _open(run)
    seed = _seed(run)
    asyncio.run(evaluate(run, EvaluationRequest(seed, "test", tag="FINAL"), ticket=ticket))
    calls = project.calls()
    assert len(calls) == 4
    _refused(project, run, ticket, tag="once more")
    assert asyncio.run(finalize(run)).test_looks == 1
    assert project.calls() == calls  # finalize reads what its own attempt has scored


def test_the_ticket_of_an_attempt_that_is_committed(driven):
    project, run = driven
    ticket = _open(run)
    _finalizes(project, run)
    _refused(project, run, ticket)
    _refused(project, run, None)


def test_the_ticket_of_an_attempt_that_another_one_replaced(driven):
    project, run = driven
    old = _open(run)
    asyncio.run(evaluate(run, EvaluationRequest(_seed(run), "test", tag="FINAL"), ticket=old))
    new = _open(run, reason="two trials were meant", num_trials=2)
    _refused(project, run, old)
    request = EvaluationRequest(_seed(run), "test", num_trials=2, tag="FINAL")
    asyncio.run(evaluate(run, request, ticket=new))
    assert len(project.calls()) == 4 + 8
    with run.ledger.read() as connection:
        assert [a.look for a in read_attempts(connection, run.id)] == [1, 2]
