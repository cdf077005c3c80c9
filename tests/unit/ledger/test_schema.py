"""What the database itself refuses, whoever writes."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, update
from sqlalchemy.exc import IntegrityError

from capevolve.ledger import schema

pytestmark = pytest.mark.both_ledgers


def _trial(fence, **values):
    row = {
        "evaluation_id": fence.evaluation_id,
        "task_id": "x",
        "trial": 0,
        "seed": 0,
        "state": "claimed",
        "epoch": 1,
        "session": 1,
        "calls": 1,
        "interrupted": 0,
        "claimed_at": 0.0,
    }
    return insert(schema.trials).values({**row, **values})


@pytest.mark.parametrize(
    "values",
    [
        {"state": "scored", "reward": 1.0000001},
        {"state": "scored", "reward": -0.0000001},
        {"state": "scored", "reward": float("inf")},
        {"state": "scored", "reward": float("nan")},
        {"state": "scored"},
        {"state": "claimed", "reward": 0.5},
        {"state": "unmeasured", "reward": 0.0},
        {"state": "done"},
        {"evaluation_id": 99},
    ],
    ids=str,
)
def test_a_trial_that_makes_no_sense_is_refused(book, values):
    fence = book.open()
    with pytest.raises(IntegrityError), book.ledger.write() as connection:
        connection.execute(_trial(fence, **values))
    assert book.rows(fence) == ()


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.25])
def test_a_reward_from_0_to_1_is_accepted(book, reward):
    fence = book.open()
    with book.ledger.write() as connection:
        connection.execute(_trial(fence, state="scored", reward=reward))
    assert book.rows(fence)[0].outcome.reward == reward


def test_a_trial_exists_once(book):
    fence = book.open()
    with book.ledger.write() as connection:
        connection.execute(_trial(fence))
    with pytest.raises(IntegrityError), book.ledger.write() as connection:
        connection.execute(_trial(fence))


def test_an_evaluation_of_test_needs_an_attempt_and_no_other_has_one(book):
    with pytest.raises(IntegrityError):
        book.open(book.key("test"))
    attempt = book.attempt()
    with pytest.raises(IntegrityError):
        book.open(book.key("val", attempt_id=attempt))
    assert book.open(book.key("test", attempt_id=attempt)).session == 1


def test_one_attempt_number_and_one_look_number_exist_once(book):
    book.attempt(number=1, look=1)
    with pytest.raises(IntegrityError):
        book.attempt(number=1, look=2)
    with pytest.raises(IntegrityError):
        book.attempt(number=2, look=1)
    book.attempt(number=2, look=1, test_digest="sha256:another test set")


def test_a_committed_attempt_has_a_result_and_an_open_one_has_none(book):
    attempt = book.attempt()
    mine = schema.attempts.c.id == attempt
    for values in ({"state": "committed"}, {"result": "{}"}, {"state": "burned"}):
        with pytest.raises(IntegrityError), book.ledger.write() as connection:
            connection.execute(update(schema.attempts).where(mine).values(values))


def test_a_verdict_is_one_of_three_words_about_evaluations_that_exist(book):
    fence = book.open()
    row = {
        "run_id": "r1",
        "iteration": 1,
        "candidate_id": "c",
        "incumbent_id": "i",
        "candidate_evaluation": fence.evaluation_id,
        "incumbent_evaluation": fence.evaluation_id,
        "settings": "{}",
        "decision": "accept",
        "payload": "{}",
        "created_at": 0.0,
    }
    for wrong in ({"decision": "maybe"}, {"candidate_evaluation": 99}, {"run_id": "nobody's"}):
        with pytest.raises(IntegrityError), book.ledger.write() as connection:
            connection.execute(insert(schema.verdicts).values({**row, **wrong}))
    with book.ledger.write() as connection:
        connection.execute(insert(schema.verdicts).values(row))


def test_runs_splits_and_proposals_know_their_words(book):
    wrong = [
        update(schema.runs).values(status="paused"),
        update(schema.split_tasks).values(split="dev"),
        insert(schema.proposals).values(
            run_id="r1", iteration=1, parent_id="p", status="fine", calls=1, started_at=0.0
        ),
    ]
    for statement in wrong:
        with pytest.raises(IntegrityError), book.ledger.write() as connection:
            connection.execute(statement)
