"""An evaluation asked twice is one; late results of an ended session or epoch are refused."""

from __future__ import annotations

import pytest

from capevolve.errors import FencedError, LedgerError
from capevolve.ledger.evaluations import (
    check_fence,
    find_evaluation,
    finish_evaluation,
    list_evaluations,
    read_evaluation,
)
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Scored

pytestmark = pytest.mark.both_ledgers


def test_asked_again_it_is_the_same_evaluation_in_a_new_session(book):
    first, second = book.open(), book.open()
    assert second.evaluation_id == first.evaluation_id
    assert (first.session, second.session) == (1, 2)


def test_the_order_of_a_subset_does_not_make_another_evaluation(book):
    assert book.key(subset=("a", "b")).digest == book.key(subset=("b", "a")).digest


@pytest.mark.parametrize(
    "changes",
    [
        {"split": "train"},
        {"num_trials": 2},
        {"tag": "x"},
        {"subset": ("val0",)},
        {"subset": ()},
        {"split": "test", "attempt_id": 1},
    ],
    ids=str,
)
def test_anything_that_changes_what_is_measured_makes_another_evaluation(book, changes):
    assert book.key(**changes).digest != book.key().digest


def test_a_record_tells_what_was_asked(book):
    key = book.key(num_trials=3, subset=("val0", "val2"), tag="some")
    fence = book.open(key)
    with book.ledger.read() as connection:
        record = read_evaluation(connection, fence.evaluation_id)
        assert find_evaluation(connection, key) == record
        assert list_evaluations(connection, "r1") == (record,)
        assert find_evaluation(connection, book.key()) is None
        with pytest.raises(LedgerError, match="no evaluation 99"):
            read_evaluation(connection, 99)
    assert record.key == key
    assert record.finished_at is None


def test_late_results_of_an_ended_session_are_refused(book):
    first = book.open()
    book.claim(first)
    second = book.open()
    with pytest.raises(FencedError, match="later pass"):
        book.record(first)
    with pytest.raises(FencedError, match="later pass"):
        book.claim(first, Claim("t1", 0, 0))
    assert book.rows(second)[0].outcome is None


def test_even_unchecked_a_late_result_meets_a_claim_that_is_no_longer_its_own(book, now):
    first = book.open()
    book.claim(first)
    second = book.open()
    book.claim(second, Claim("t0", 0, 0, fresh=False, calls=2, interrupted=1))
    with pytest.raises(LedgerError, match="no open claim"), book.ledger.write() as connection:
        record_results(connection, first, [TrialResult("t0", 0, Scored(1.0))], now)
    assert book.rows(second)[0].outcome is None


def test_late_results_and_claims_of_an_ended_epoch_are_refused(book):
    fence = book.open()
    book.claim(fence)
    book.take_over()
    for act in (book.record, lambda f: book.claim(f, Claim("t1", 0, 0)), lambda f: book.open()):
        with pytest.raises(FencedError, match="is over"):
            act(fence)
    assert [row.outcome for row in book.rows(fence)] == [None]


def test_an_ended_epoch_cannot_finish_an_evaluation(book, now):
    fence = book.open()
    book.take_over()
    with pytest.raises(FencedError), book.ledger.write() as connection:
        finish_evaluation(connection, fence, now)
    with book.ledger.read() as connection:
        assert read_evaluation(connection, fence.evaluation_id).finished_at is None


def test_an_evaluation_is_finished_once(book, now):
    fence = book.open()
    for at in (now + 1.0, now + 2.0):
        with book.ledger.write() as connection:
            finish_evaluation(connection, fence, at)
    with book.ledger.read() as connection:
        assert read_evaluation(connection, fence.evaluation_id).finished_at == now + 1.0


def test_what_was_written_before_the_fence_fell_is_rolled_back_with_the_rest(book, now):
    fence = book.open()
    with pytest.raises(FencedError), book.ledger.write() as connection:
        check_fence(connection, fence)
        claim_trials(connection, fence, [Claim("t0", 0, 0)], now)
        raise FencedError("the lease was lost meanwhile")
    assert book.rows(fence) == ()
