"""A ticket is worth what the ledger says of its attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capevolve.errors import TestSealError
from capevolve.evaluate.ticket import TestPlan, Ticket, check_ticket
from capevolve.ledger import schema
from capevolve.ledger.attempts import commit_attempt, insert_attempt, supersede_attempt
from capevolve.ledger.evaluations import EvaluationKey, open_evaluation
from capevolve.model import TaskRef

TASKS = (TaskRef("x", "sha256:1"), TaskRef("y", "sha256:2"))


@pytest.fixture
def case(bench):
    """An open attempt for the candidate of the bench, with the key and the ticket that fit it."""
    plan = TestPlan(
        bench.candidate_id,
        "sha256:seed",
        (("x", "sha256:1"), ("y", "sha256:2")),
        2,
        7,
        (1,),
        (("a", "1"),),
        "0",
    )
    with bench.ledger.write() as connection:
        attempt = insert_attempt(
            connection,
            run_id="r1",
            number=1,
            plan=plan.to_json(),
            plan_digest=plan.digest,
            test_digest="t",
            test_ids_digest="i",
            look=1,
            override_reason=None,
            now=0.0,
        )
    key = EvaluationKey("r1", bench.candidate_id, "test", 2, 7, "FINAL", attempt_id=attempt)
    return key, Ticket("r1", attempt, plan.digest, TASKS), plan


def _refused(bench, key, ticket) -> str:
    with bench.ledger.read() as connection, pytest.raises(TestSealError) as caught:
        check_ticket(connection, key, ticket)
    assert "capevolve finalize" in (caught.value.fix or "")
    return caught.value.what


def _accepted(bench, key, ticket) -> None:
    with bench.ledger.read() as connection:
        check_ticket(connection, key, ticket)


def test_the_ticket_of_an_open_attempt_admits_what_its_plan_covers(bench, case):
    key, ticket, _ = case
    _accepted(bench, key, ticket)
    _accepted(bench, replace(key, candidate_id="sha256:seed", tag="FINAL_seed"), ticket)
    _accepted(bench, key, replace(ticket, tasks=TASKS[::-1]))


def test_without_a_ticket_test_is_sealed(bench, case):
    assert "sealed" in _refused(bench, case[0], None)


@pytest.mark.parametrize(
    "changes",
    [
        {"attempt_id": 99},
        {"run_id": "r2"},
        {"plan_digest": "sha256:forged"},
        {"tasks": TASKS[:1]},
        {"tasks": ()},
        {"tasks": (*TASKS, TaskRef("z", "sha256:3"))},
        {"tasks": (TASKS[0], TaskRef("y", "sha256:other content"))},
        {"tasks": (TASKS[0], TASKS[0])},
    ],
    ids=str,
)
def test_a_forged_ticket_is_refused(bench, case, changes):
    key, ticket, _ = case
    _refused(bench, key, replace(ticket, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"candidate_id": "sha256:another"},
        {"num_trials": 3},
        {"base_seed": 8},
        {"subset": ("x",)},
        {"attempt_id": None},
        {"attempt_id": 99},
        {"run_id": "r2"},
    ],
    ids=str,
)
def test_what_the_plan_does_not_cover_is_refused(bench, case, changes):
    key, ticket, _ = case
    _refused(bench, replace(key, **changes), ticket)


@pytest.mark.parametrize("end", ["committed", "superseded"])
def test_the_ticket_of_an_ended_attempt_is_refused(bench, case, end):
    key, ticket, _ = case
    with bench.ledger.write() as connection:
        if end == "committed":
            commit_attempt(connection, ticket.attempt_id, "{}", 1.0)
        else:
            supersede_attempt(connection, ticket.attempt_id, 1.0)
    assert end in _refused(bench, key, ticket)


def test_a_candidate_is_scored_once_in_an_attempt_whatever_the_evaluation_is_called(bench, case):
    key, ticket, _ = case
    with bench.ledger.write() as connection:
        open_evaluation(connection, bench.driver, key, 0.0)
    _accepted(bench, key, ticket)
    assert "already" in _refused(bench, replace(key, tag="FINAL again"), ticket)


def test_a_plan_edited_in_the_ledger_no_longer_admits_anything(bench, case):
    key, ticket, plan = case
    forged = replace(plan, num_trials=9)
    with bench.ledger.write() as connection:
        connection.execute(schema.attempts.update().values(plan=forged.to_json()))
    _refused(bench, key, ticket)
    _refused(bench, replace(key, num_trials=9), ticket)


def test_a_plan_comes_back_from_its_text(case):
    plan = case[2]
    assert TestPlan.from_json(plan.to_json()) == plan
    assert TestPlan.from_json(plan.to_json()).digest == plan.digest
