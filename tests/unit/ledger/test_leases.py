"""One driver at a time; a dead one loses its lease, and its late writes with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from capevolve.errors import FencedError, LeaseHeldError
from capevolve.ledger.events import read_events
from capevolve.ledger.leases import (
    LEASE_TTL_S,
    Driver,
    Holder,
    acquire_lease,
    check_lease,
    is_alive,
    read_holder,
    refuse_live,
    release_lease,
    renew_lease,
    this_host,
)

pytestmark = pytest.mark.both_ledgers


def _holder(**changes) -> Holder:
    me = psutil.Process()
    now = Holder("someone", this_host(), me.pid, me.create_time(), 1, 1000.0, 1000.0, None)
    return replace(now, **changes)


def _dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.mark.parametrize(
    ("changes", "now", "alive"),
    [
        ({}, 1000.0, True),
        ({}, 1000.0 + LEASE_TTL_S, True),
        ({}, 1000.1 + LEASE_TTL_S, False),
        ({"released_at": 999.0}, 1000.0, False),
        ({"pid": 2**22 + 5}, 1000.0, False),
        ({"pid_started_at": 5.0}, 1000.0, False),
        ({"host": "another", "pid": 2**22 + 5}, 1000.0, True),
        ({"host": "another", "pid": 2**22 + 5}, 1001.0 + LEASE_TTL_S, False),
        ({"heartbeat_at": 1005.0}, 1000.0, True),
    ],
    ids=[
        "the process lives",
        "its heartbeat is just young enough",
        "its heartbeat stopped",
        "it was released",
        "its process is gone",
        "its PID belongs to another process now",
        "another host cannot be looked into",
        "another host's heartbeat stopped",
        "the clock went back a little",
    ],
)
def test_a_holder_is_alive_by_the_evidence(changes, now, alive):
    assert is_alive(_holder(**changes), now) is alive


def test_a_holder_whose_process_ended_is_dead_at_once():
    assert not is_alive(_holder(pid=_dead_pid()), 1000.0)


def test_a_holder_killed_but_not_reaped_is_dead_at_once():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = psutil.Process(child.pid).create_time()
    holder = _holder(pid=child.pid, pid_started_at=started)
    assert is_alive(holder, 1000.0)
    child.kill()
    end = time.monotonic() + 5
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < end:
        time.sleep(0.01)
    try:
        assert not is_alive(holder, 1000.0)
    finally:
        child.wait()


def test_the_second_driver_is_refused_with_who_holds_it_since_when_and_how_alive(book, now):
    with pytest.raises(LeaseHeldError) as caught, book.ledger.write() as connection:
        acquire_lease(connection, "r1", now + 7.0)
    words = str(caught.value)
    assert f"PID {os.getpid()}" in words
    assert this_host().partition("/")[0] in words
    assert "since 2023-11-14 22:13:20 UTC" in words
    assert "last heartbeat 7 s ago" in words
    assert "--resume r1" in words


def test_another_run_of_the_same_ledger_is_free(book, now):
    with book.ledger.write() as connection:
        assert acquire_lease(connection, "r2", now).epoch == 1


def test_a_released_run_is_taken_without_a_word_of_a_takeover(book, now):
    with book.ledger.write() as connection:
        release_lease(connection, book.driver, now)
        again = acquire_lease(connection, "r1", now)
        assert again.epoch == 2
        assert read_events(connection, "r1", "takeover") == ()
        holder = read_holder(connection, "r1")
    assert holder is not None
    assert holder.released_at is None


def test_a_takeover_is_an_event_that_names_the_driver_that_was_lost(book):
    second = book.take_over()
    assert second.epoch == book.driver.epoch + 1
    with book.ledger.read() as connection:
        [event] = read_events(connection, "r1", "takeover")
    assert event.payload["from_pid"] == os.getpid()
    assert event.payload["from_epoch"] == 1
    assert event.payload["from_host"] == this_host()


def test_the_old_driver_can_do_nothing_more_and_is_told_who_drives(book, now):
    book.take_over()
    for act in (check_lease, lambda c, d: renew_lease(c, d, now + 101.0)):
        words = r"epoch 1 of run r1 is over.*PID \d+.*epoch 2"
        with pytest.raises(FencedError, match=words), book.ledger.write() as connection:
            act(connection, book.driver)


def test_the_old_driver_cannot_release_the_lease_of_the_new_one(book, now):
    second = book.take_over()
    with book.ledger.write() as connection:
        release_lease(connection, book.driver, now)
        check_lease(connection, second)


def test_a_driver_that_released_its_lease_is_refused(book, now):
    with book.ledger.write() as connection:
        release_lease(connection, book.driver, now)
        with pytest.raises(FencedError):
            check_lease(connection, book.driver)


@pytest.mark.parametrize("changes", [{"owner": "forged"}, {"epoch": 0}, {"epoch": 2}, {"run_id": "r9"}])
def test_a_forged_driver_is_refused(book, changes):
    with pytest.raises(FencedError), book.ledger.read() as connection:
        check_lease(connection, replace(book.driver, **changes))


def test_a_heartbeat_moves_only_the_heartbeat(book, now):
    with book.ledger.write() as connection:
        before = read_holder(connection, "r1")
        renew_lease(connection, book.driver, now + 5.0)
        after = read_holder(connection, "r1")
    assert before is not None
    assert after == replace(before, heartbeat_at=now + 5.0)


def test_nobody_is_refused_when_nobody_ever_drove(book):
    refuse_live("r7", None, 0.0)
    with book.ledger.read() as connection:
        assert read_holder(connection, "r7") is None
        with pytest.raises(FencedError, match="driven by nobody"):
            check_lease(connection, Driver("r7", "x", 1))
