"""Two writers at the same moment: one waits for the other, and both end in good order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from capevolve.errors import FencedError, LeaseHeldError
from capevolve.ledger.evaluations import open_evaluation
from capevolve.ledger.events import append_event, read_events
from capevolve.ledger.leases import acquire_lease, check_lease
from capevolve.ledger.proposals import find_proposal, start_proposal
from capevolve.ledger.trees import find_candidates, insert_candidate, read_blob

pytestmark = pytest.mark.both_ledgers

Act = Callable[[Connection], object]


def _overlap(ledger, first: Act, second: Act) -> object:
    """Runs `second` while the transaction of `first` is open; returns its value or its error."""
    done = threading.Event()
    outcome: list[object] = []

    def follow() -> None:
        try:
            with ledger.write() as connection:
                outcome.append(second(connection))
        except Exception as error:
            outcome.append(error)
        done.set()

    thread = threading.Thread(target=follow)
    with ledger.write() as connection:
        first(connection)
        thread.start()
        time.sleep(0.15)
        assert not done.is_set()  # the second waits
    thread.join(20)
    assert done.is_set()
    return outcome[0]


def test_the_same_candidate_stored_by_two_runs_at_once_is_stored_once(ledger):
    blobs = {"sha256:a": b"a", "sha256:b": b"b"}

    def store(connection):
        insert_candidate(connection, "sha256:c", "[]", blobs)

    assert _overlap(ledger, store, store) is None
    with ledger.read() as connection:
        assert find_candidates(connection, "sha256:c") == ("sha256:c",)
        assert read_blob(connection, "sha256:b") == b"b"


def test_of_two_drivers_that_take_a_new_run_at_once_one_is_told_of_the_other(ledger, now):
    def take(connection):
        return acquire_lease(connection, "r1", now)

    assert isinstance(_overlap(ledger, take, take), LeaseHeldError)


def test_of_two_drivers_that_take_over_at_once_one_is_told_of_the_other(book, now):
    def take(connection):
        return acquire_lease(connection, "r1", now + 1000.0)

    assert isinstance(_overlap(book.ledger, take, take), LeaseHeldError)
    with book.ledger.read() as connection:
        assert len(read_events(connection, "r1", "takeover")) == 1


def test_two_passes_over_an_evaluation_begun_at_once_are_two_sessions_of_one(book, now):
    def begin(connection):
        return open_evaluation(connection, book.driver, book.key(), now)

    fence = _overlap(book.ledger, begin, begin)
    assert fence.session == 2


def test_a_proposal_begun_twice_at_once_was_called_twice(book, now):
    def begin(connection):
        check_lease(connection, book.driver)
        start_proposal(connection, "r1", 1, "p", now)

    assert _overlap(book.ledger, begin, begin) is None
    with book.ledger.read() as connection:
        proposal = find_proposal(connection, "r1", 1)
    assert proposal is not None
    assert proposal.calls == 2


def test_a_takeover_waits_for_the_write_it_would_fence_and_the_next_one_is_refused(book, now):
    def write(connection):
        check_lease(connection, book.driver)
        append_event(connection, "r1", "note", {}, now)

    def take(connection):
        return acquire_lease(connection, "r1", now + 1000.0)

    driver = _overlap(book.ledger, write, take)
    assert driver.epoch == 2
    with pytest.raises(FencedError), book.ledger.write() as connection:
        write(connection)
    with book.ledger.read() as connection:
        assert len(read_events(connection, "r1", "note")) == 1
