"""Puts an evaluation's admission together from what the spec asks for and what the ledger remembers."""

from __future__ import annotations

from functools import partial

from capevolve.evaluate.admission import Admission
from capevolve.evaluate.backoff import wait_before_retry
from capevolve.evaluate.congestion import Congestion
from capevolve.evaluate.course import read_start
from capevolve.evaluate.rates import Rates
from capevolve.ledger.usage import read_recent_use
from capevolve.runs import OpenRun

RECENT_S = 600.0
"""Tokens used longer ago than this, in seconds, are no debt any more."""


def open_admission(run: OpenRun) -> Admission:
    """Returns the admission of an evaluation that begins now.

    What earlier evaluations and drivers of the run used, learnt and were told to wait still counts.
    """
    settings, now = run.spec.evaluation, run.clock()
    limits = settings.requests_per_minute, settings.tokens_per_minute
    rates = None
    with run.ledger.read() as connection:
        start = read_start(connection, run.id, now)
        if limits != (None, None):
            rates = Rates(*limits, now=now, recent=read_recent_use(connection, run.id, now - RECENT_S))
    congestion = Congestion(
        settings.concurrency,
        partial(wait_before_retry, settings.retry_wait_s),
        adaptive=settings.adaptive,
        limit=start.limit,
        held_until=start.held_until,
    )
    return Admission(congestion, rates=rates, admit=run.admit)
