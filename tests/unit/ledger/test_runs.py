"""Runs, frozen splits, proposals, attempts, events and trees: what is stored comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from capevolve.errors import LedgerError, TestSealError
from capevolve.ledger.attempts import (
    commit_attempt,
    count_claims,
    count_looks,
    find_attempt,
    highest_look,
    read_attempts,
    replan_attempt,
    supersede_attempt,
)
from capevolve.ledger.events import append_event, read_events
from capevolve.ledger.proposals import (
    ProposalRecord,
    VerdictRecord,
    find_proposal,
    finish_proposal,
    insert_verdict,
    read_proposals,
    read_verdicts,
    start_proposal,
)
from capevolve.ledger.runs import (
    find_run,
    find_splits,
    insert_run,
    insert_splits,
    list_runs,
    read_run,
    read_sealed_split,
    read_split,
    set_run_status,
)
from capevolve.ledger.trees import find_candidates, insert_candidate, read_blob
from capevolve.model import Decision, Verdict

pytestmark = pytest.mark.both_ledgers


def test_a_run_comes_back_as_it_was(book):
    with book.ledger.write() as connection:
        run = replace(
            read_run(connection, "r1"), id="r2", adapter_files=(("a", "1"), ("b", "2")), created_at=1.0
        )
        insert_run(connection, run)
        assert find_run(connection, "r2") == run
        assert [r.id for r in list_runs(connection)] == ["r2", "r1"]


def test_a_run_is_added_once(book):
    with pytest.raises(IntegrityError), book.ledger.write() as connection:
        insert_run(connection, read_run(connection, "r1"))


def test_an_unknown_run_is_an_error_that_names_the_known_ones(book):
    with book.ledger.read() as connection:
        assert find_run(connection, "nope") is None
        with pytest.raises(LedgerError, match=r"(?s)no run 'nope'.*Known runs: r1"):
            read_run(connection, "nope")


def test_the_status_says_when_a_run_ended_and_a_resumed_one_has_not(book):
    with book.ledger.write() as connection:
        set_run_status(connection, "r1", "stopped", "a cap", 5.0)
        stopped = read_run(connection, "r1")
        set_run_status(connection, "r1", "running", None, 9.0)
        running = read_run(connection, "r1")
    assert (stopped.status, stopped.stop_reason, stopped.ended_at) == ("stopped", "a cap", 5.0)
    assert (running.status, running.stop_reason, running.ended_at) == ("running", None, None)


def test_splits_keep_their_order_and_content_only_of_train(book):
    with book.ledger.read() as connection:
        train, val = read_split(connection, "r1", "train"), read_split(connection, "r1", "val")
        splits = find_splits(connection, "r1")
    assert [task.ref.id for task in train] == ["train0", "train1", "train2", "train3"]
    assert all(task.content for task in train)
    assert [task.content for task in val] == [None] * 4
    assert splits is not None
    assert splits.size("test") == 4
    assert splits.holdout and splits.val_holdout and splits.warnings == ()


def test_the_content_of_sealed_tasks_is_nowhere_in_the_ledger(book):
    with book.ledger.read() as connection:
        assert [task.content for task in read_sealed_split(connection, "r1")] == [None] * 4


def test_the_test_split_does_not_leave_by_the_ordinary_door(book):
    with book.ledger.read() as connection, pytest.raises(TestSealError, match="sealed"):
        read_split(connection, "r1", "test")


def test_splits_are_frozen_once(book):
    with pytest.raises(IntegrityError), book.ledger.write() as connection:
        splits = find_splits(connection, "r1")
        assert splits is not None
        insert_splits(connection, "r1", splits, [])


def _proposal(**changes) -> ProposalRecord:
    base = ProposalRecord(1, "p", "proposed", "c", "words", "more", 0.5, 10, 0, 0.0, 9.0)
    return replace(base, **changes)


def test_a_proposal_started_twice_was_called_twice(book):
    with book.ledger.write() as connection:
        for at in (1.0, 2.0):
            start_proposal(connection, "r1", 1, "p", at)
        proposal = find_proposal(connection, "r1", 1)
    assert proposal is not None
    assert (proposal.status, proposal.calls, proposal.started_at) == ("started", 2, 2.0)


def test_a_finished_proposal_stays_as_it_is(book):
    with book.ledger.write() as connection:
        start_proposal(connection, "r1", 1, "p", 1.0)
        finish_proposal(connection, "r1", _proposal())
        before = read_proposals(connection, "r1")
        finish_proposal(connection, "r1", _proposal(status="failed", candidate_id=None, cost_usd=99.0))
        start_proposal(connection, "r1", 1, "other", 50.0)
        after = read_proposals(connection, "r1")
    assert after == before
    assert before == (_proposal(calls=1, started_at=1.0),)


def test_a_verdict_comes_back_whole_and_an_iteration_has_one(book):
    fence = book.open()
    verdict = Verdict(
        Decision.INDECISIVE, "coverage", "why", None, None, None, None, 0, 0, 0, 0, (("t", "missing"),)
    )
    record = VerdictRecord(1, "c", "i", fence.evaluation_id, fence.evaluation_id, "{}", verdict, 3.0)
    with book.ledger.write() as connection:
        insert_verdict(connection, "r1", record)
        assert read_verdicts(connection, "r1") == (record,)
    with pytest.raises(IntegrityError), book.ledger.write() as connection:
        insert_verdict(connection, "r1", replace(record, candidate_id="another"))


def test_an_attempt_is_committed_once_and_then_neither_replanned_nor_superseded(book):
    attempt = book.attempt()
    with book.ledger.write() as connection:
        replan_attempt(connection, attempt, '{"b":1}', "sha256:b")
        commit_attempt(connection, attempt, "{}", 5.0)
        replan_attempt(connection, attempt, '{"c":1}', "sha256:c")
        [row] = read_attempts(connection, "r1")
        assert (row.state, row.result, row.plan_digest, row.ended_at) == ("committed", "{}", "sha256:b", 5.0)
        for act in (
            lambda: commit_attempt(connection, attempt, "{}", 6.0),
            lambda: supersede_attempt(connection, attempt, 6.0),
        ):
            with pytest.raises(LedgerError, match="not open any more"):
                act()
        assert find_attempt(connection, 99) is None


def test_looks_are_counted_by_contents_or_by_ids_and_claims_by_attempt(book):
    attempt = book.attempt()
    fence = book.open(book.key("test", attempt_id=attempt))
    book.claim(fence)
    with book.ledger.read() as connection:
        assert count_looks(connection, "sha256:test", "other ids") == 1
        assert count_looks(connection, "other contents", "sha256:ids") == 1
        assert count_looks(connection, "other contents", "other ids") == 0
        assert highest_look(connection, "sha256:test") == 1
        assert highest_look(connection, "other contents") == 0
        assert count_claims(connection, attempt) == 1
        assert count_claims(connection, attempt + 1) == 0


def test_events_keep_their_order_and_can_be_asked_by_kind(book):
    with book.ledger.write() as connection:
        for kind, value in (("a", 1), ("b", 2), ("a", 3)):
            append_event(connection, "r1", kind, {"value": value, "text": "ü\u2028\x1b"}, 7.0)
        assert [event.payload["value"] for event in read_events(connection, "r1")] == [1, 2, 3]
        assert [event.payload["value"] for event in read_events(connection, "r1", "a")] == [1, 3]
        assert read_events(connection, "r1", "b")[0].payload["text"] == "ü\u2028\x1b"
        assert read_events(connection, "r2") == ()


def test_an_event_that_is_no_json_is_refused_and_leaves_nothing(book):
    with pytest.raises(ValueError, match="not JSON compliant"), book.ledger.write() as connection:
        append_event(connection, "r1", "a", {"mean": float("nan")}, 7.0)
    with book.ledger.read() as connection:
        assert read_events(connection, "r1", "a") == ()


def test_a_tree_of_more_files_than_one_question_holds_is_stored_once(book):
    blobs = {f"sha256:{i:064x}": str(i).encode() for i in range(1203)}
    with book.ledger.write() as connection:
        insert_candidate(connection, "sha256:big", "[]", blobs)
        insert_candidate(connection, "sha256:big", "[]", blobs)
        assert read_blob(connection, f"sha256:{1202:064x}") == b"1202"
        with pytest.raises(LedgerError, match="missing from the ledger"):
            read_blob(connection, "sha256:none")


def test_candidates_are_found_by_the_beginning_of_their_digest_and_wildcards_mean_themselves(book):
    with book.ledger.write() as connection:
        for name in ("sha256:aa1", "sha256:aa2", "sha256:ab3"):
            insert_candidate(connection, name, "[]", {})
        assert find_candidates(connection, "sha256:aa") == ("sha256:aa1", "sha256:aa2")
        assert find_candidates(connection, "sha256:%") == ()
        assert find_candidates(connection, "sha256:a_") == ()
