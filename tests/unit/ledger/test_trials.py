"""Claimed before the call, filled once, never overwritten."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from capevolve.errors import LedgerError
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.trials import (
    Claim,
    TargetSpend,
    TrialResult,
    count_finished,
    read_target_spend,
    read_task_durations,
)
from capevolve.model import Reason, Scored, Unmeasured

pytestmark = pytest.mark.both_ledgers


def test_a_claimed_trial_has_no_outcome_until_its_result_is_recorded(book, result):
    fence = book.open()
    book.claim(fence)
    assert book.rows(fence)[0].outcome is None
    book.record(
        fence, result(outcome=Scored(0.25), duration_s=2.0, cost_usd=0.5, tokens=7, payload='{"a":1}')
    )
    [row] = book.rows(fence)
    assert (row.outcome, row.duration_s, row.cost_usd, row.tokens) == (Scored(0.25), 2.0, 0.5, 7)
    with book.ledger.read() as connection:
        assert [r.payload for r in read_rollouts(connection, fence.evaluation_id)] == ['{"a":1}']
        assert count_finished(connection, fence.evaluation_id) == 1


def test_a_result_without_a_claim_is_refused(book):
    fence = book.open()
    with pytest.raises(LedgerError, match="no open claim"):
        book.record(fence)
    assert book.rows(fence) == ()


def test_a_second_result_is_refused_and_the_first_stays(book, result):
    fence = book.open()
    book.claim(fence)
    book.record(fence, result(outcome=Scored(0.25)))
    with pytest.raises(LedgerError, match="1 of 1 results"):
        book.record(fence, result(outcome=Scored(1.0)))
    with pytest.raises(LedgerError):
        book.record(fence, result(outcome=Unmeasured(Reason.INFRA)))
    assert book.rows(fence)[0].outcome == Scored(0.25)


def test_one_bad_result_of_a_batch_leaves_none_of_it_behind(book, result):
    fence = book.open()
    book.claim(fence, Claim("t0", 0, 0), Claim("t1", 0, 0))
    with pytest.raises(LedgerError, match="1 of 3 results"):
        book.record(fence, result("t0"), result("t1"), result("t2"))
    assert [row.outcome for row in book.rows(fence)] == [None, None]
    with book.ledger.read() as connection:
        assert list(read_rollouts(connection, fence.evaluation_id)) == []


def test_a_fresh_claim_of_a_trial_that_has_a_row_is_refused(book):
    fence = book.open()
    book.claim(fence)
    with pytest.raises(IntegrityError):
        book.claim(fence)


def test_claiming_an_interrupted_trial_again_counts_the_call_and_moves_it_to_the_session(book):
    first = book.open()
    book.claim(first)
    second = book.open()
    book.claim(second, Claim("t0", 0, 0, fresh=False, calls=2, interrupted=1))
    [row] = book.rows(second)
    assert (row.calls, row.interrupted, row.session) == (2, 1, second.session)


def test_claiming_a_finished_trial_again_changes_nothing(book, result):
    fence = book.open()
    book.claim(fence)
    book.record(fence)
    again = book.open()
    before = book.rows(fence)
    book.claim(again, Claim("t0", 0, 0, fresh=False, calls=9, interrupted=8))
    assert book.rows(fence) == before


def test_an_unmeasured_trial_keeps_its_reason_and_detail(book, result):
    fence = book.open()
    book.claim(fence)
    outcome = Unmeasured(Reason.TIMEOUT, "after 3 s")
    book.record(fence, result(outcome=outcome))
    assert book.rows(fence)[0].outcome == outcome


def test_spending_counts_every_call_and_never_calls_an_unknown_price_zero(book, result):
    fence = book.open()
    book.claim(fence, Claim("t0", 0, 0), Claim("t1", 0, 0), Claim("t2", 0, 0))
    book.record(fence, result("t0", cost_usd=0.25, tokens=10), result("t1", cost_usd=0.75, extra_calls=2))
    with book.ledger.read() as connection:
        spend = read_target_spend(connection, "r1")
        assert read_target_spend(connection, "another") == TargetSpend(0, 0.0, 0, 0, None)
    assert spend == TargetSpend(calls=5, cost_usd=1.0, unpriced=1, tokens=10, dearest_usd=0.75)


def test_a_trial_lost_to_interruptions_counts_each_of_its_calls_once_as_unpriced(book):
    first = book.open()
    book.claim(first)
    second = book.open()
    lost = Claim("t0", 0, 0, fresh=False, calls=1, interrupted=1)
    book.claim(second, lost)
    book.record(second, TrialResult("t0", 0, Unmeasured(Reason.INTERRUPTED, "interrupted 1 times")))
    with book.ledger.read() as connection:
        spend = read_target_spend(connection, "r1")
    assert (spend.calls, spend.unpriced) == (1, 1)


def test_the_duration_of_a_task_is_the_mean_of_its_known_ones(book, result):
    fence = book.open(book.key(num_trials=2))
    book.claim(fence, Claim("t0", 0, 0), Claim("t0", 1, 1), Claim("t1", 0, 0))
    book.record(fence, result("t0", 0, duration_s=1.0), result("t0", 1, duration_s=3.0), result("t1"))
    with book.ledger.read() as connection:
        assert read_task_durations(connection, "r1") == {"t0": 2.0}


def test_more_tokens_than_any_database_column_holds_do_not_lose_the_result(book, result):
    fence = book.open()
    book.claim(fence)
    book.record(fence, result(tokens=2**40))
    assert book.rows(fence)[0].tokens == 2**40
