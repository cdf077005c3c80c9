"""Two drivers at a run that nobody has driven yet, the window between look and write held open."""

from __future__ import annotations

import threading

import pytest

from capevolve.errors import LeaseHeldError
from capevolve.ledger.leases import acquire_lease, read_holder
from capevolve.ledger.store import open_ledger

pytestmark = pytest.mark.both_ledgers


def test_of_two_first_drivers_that_both_saw_nobody_one_gets_the_run(make_ledger_url, hook):
    url = make_ledger_url()
    ledger = open_ledger(url)
    inside, done = threading.Event(), threading.Event()
    answers = []

    def take():
        other = open_ledger(url)
        try:
            with other.write() as connection:
                answers.append(acquire_lease(connection, "r1", 1000.0))
        except LeaseHeldError as error:
            answers.append(error)
        finally:
            other.close()
            done.set()

    second = threading.Thread(target=take)

    def pause(name):
        # Only the first driver waits in the window; the second one goes through it.
        if name == "lease.read" and not inside.is_set():
            inside.set()
            second.start()
            done.wait(1.0 if ledger.is_sqlite else 10.0)  # SQLite lets the second wait for the first

    hook(pause)
    try:
        with ledger.write() as connection:
            answers.append(acquire_lease(connection, "r1", 1000.0))
    except LeaseHeldError as error:
        answers.append(error)
    second.join(40)
    refused = [answer for answer in answers if isinstance(answer, LeaseHeldError)]
    assert len(answers) == 2
    assert len(refused) == 1
    with ledger.read() as connection:
        assert read_holder(connection, "r1").epoch == 1
    ledger.close()
