"""Decides when calls of the target may begin: the rates of a run, its congestion, its deployment's limit."""

from __future__ import annotations

import asyncio

from capevolve.evaluate.congestion import Change, Congestion
from capevolve.evaluate.rates import Rates
from capevolve.runs import Admit

MAX_CHANGES = 200
"""Changes of the limit that an evaluation records one by one; the others it counts."""

LOOK_AGAIN_S = 1.0
"""The longest sleep while calls are held back: a cap on time may be reached meanwhile."""


class Admission:
    """What an executor asks before it takes a claim or tries a trial again.

    Args:
        congestion: The limit on calls under way.
        rates: The limits per minute; None is none.
        admit: The deployment's limit; None is none.
    """

    def __init__(
        self, congestion: Congestion, *, rates: Rates | None = None, admit: Admit | None = None
    ) -> None:
        self._congestion = congestion
        self._rates = rates
        self._admit = admit
        self._admitted = 0
        self._asking: asyncio.Task[None] | None = None
        self._changes: list[Change] = []
        self._recorded = 0
        self._rest: Change | None = None

    @property
    def prefetch(self) -> bool:
        """Whether hosts may hold requests ahead: not where the time of each call is decided here."""
        return self._rates is None and self._admit is None

    @property
    def asking(self) -> asyncio.Task[None] | None:
        """The question to the deployment's limit that is under way."""
        return self._asking

    def active(self, now: float) -> bool:
        """True while there is anything to ask."""
        return not self.prefetch or self._congestion.engaged(now)

    def limit(self, now: float) -> int | None:
        """Returns how many calls the hosts may have under way; None while all is well."""
        if not self._congestion.engaged(now):
            return None
        return 0 if now < self._congestion.held_until else self._congestion.limit

    def count(self, now: float, calling: int, wanted: int) -> int:
        """Returns how many of the wanted calls may begin now, and asks the deployment's limit for them.

        Args:
            now: The time.
            calling: Calls under way.
            wanted: Calls that would begin, at most.
        """
        if now < self._congestion.held_until:
            return 0
        count = max(0, min(wanted, self._congestion.limit - calling))
        if self._rates is not None:
            count = self._rates.count(now, count)
        if self._admit is None or count == 0:
            return count
        if self._asking is not None and self._asking.done():
            self._asking.result()  # a limit that cannot be asked ends the evaluation
            self._asking = None
        if self._admitted < count and self._asking is None:
            self._asking = asyncio.ensure_future(self._ask(self._admit, count - self._admitted))
        return min(count, self._admitted)

    async def _ask(self, admit: Admit, calls: int) -> None:
        await admit(calls)
        self._admitted += calls

    def wait_s(self, now: float) -> float | None:
        """Returns the seconds until time alone may admit a call; None where time is not what is lacking."""
        wait = self._congestion.held_until - now
        if self._rates is not None:
            wait = max(wait, self._rates.wait_s(now))
        return min(wait, LOOK_AGAIN_S) if wait > 0.0 else None

    def begin(self, now: float) -> float:
        """A call begins; returns what `settle` needs to know."""
        if self._admit is not None:
            self._admitted -= 1
        return 0.0 if self._rates is None else self._rates.begin(now)

    def settle(
        self, now: float, reserved: float, tokens: int | None, *, extra_calls: int, refused: bool
    ) -> None:
        """A call is over; see `Rates.settle`."""
        if self._rates is not None:
            self._rates.settle(now, reserved, tokens, extra_calls=extra_calls, refused=refused)

    def refuse(self, now: float, started_at: float, retry_after_s: float | None) -> float:
        """Takes a rate-limit answer; returns the time before which nothing begins."""
        self._note(self._congestion.refuse(now, started_at, retry_after_s))
        return self._congestion.held_until

    def succeed(self, now: float, started_at: float) -> None:
        """Takes a measured trial."""
        self._note(self._congestion.succeed(now, started_at))

    def _note(self, change: Change | None) -> None:
        if change is None:
            return
        if self._recorded < MAX_CHANGES:
            self._recorded += 1
            self._changes.append(change)
        else:
            self._rest = change if self._rest is None else self._rest.join(change)

    @property
    def changed(self) -> bool:
        """Whether there are changes to record."""
        return bool(self._changes)

    def take_changes(self) -> list[Change]:
        """Returns the changes to record that were not returned before."""
        changes, self._changes = self._changes, []
        return changes

    async def close(self) -> None:
        """Asks nothing more; the changes that were only counted are one more to record."""
        if self._rest is not None:
            self._changes.append(self._rest)
            self._rest = None
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
