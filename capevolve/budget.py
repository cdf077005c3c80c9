"""Caps on calls, money and time, held inside an evaluation: reserved before a trial, settled after.

A trial's price is not known before it ran. What is reserved for it is the highest price seen so far, so a
money cap is overrun by at most the trials that were in flight when a dearer one than ever before, or the
first of all, reported its price. A trial without a reported price settles at nothing and is counted as
unpriced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_ROUNDING = 1e-9
"""So much of a cap may be overrun: three times 0.1 is more than 0.3 in binary fractions."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What may still be spent; None is no cap.

    Attributes:
        calls: Calls of the target.
        usd: Money, in US dollars.
        deadline: Time on the clock that `Allowance` reads, in seconds.
    """

    calls: int | None = None
    usd: float | None = None
    deadline: float | None = None


class Allowance:
    """Counts down what remains while trials are in flight.

    Args:
        remaining: What may be spent.
        clock: Returns the time in seconds.
        dearest_usd: The highest price of one trial seen so far; None when none was reported.
    """

    def __init__(
        self, remaining: Remaining, clock: Callable[[], float], dearest_usd: float | None = None
    ) -> None:
        self._remaining = remaining
        self._clock = clock
        self._dearest = dearest_usd or 0.0
        self._calls = 0
        self._spent = 0.0
        self._in_flight = 0
        self._exhausted: str | None = None

    @property
    def exhausted(self) -> str | None:
        """The cap that was reached, in words; None while there is something left."""
        return self._exhausted

    def is_late(self) -> bool:
        """True once the deadline has passed."""
        return self._remaining.deadline is not None and self._clock() >= self._remaining.deadline

    def check(self) -> bool:
        """True while a call could be taken; False, from then on, once a cap is reached."""
        if self._exhausted is None:
            self._exhausted = self._find_reached()
        return self._exhausted is None

    def reserve(self) -> bool:
        """Takes one call; False, from then on, once a cap is reached."""
        if not self.check():
            return False
        self._calls += 1
        self._in_flight += 1
        return True

    def settle(self, cost_usd: float | None, extra_calls: int = 0) -> None:
        """Replaces the reservation of one call by what it cost and by the further calls it took."""
        self._in_flight -= 1
        self._calls += extra_calls
        if cost_usd is not None:
            self._spent += cost_usd
            self._dearest = max(self._dearest, cost_usd)

    def _find_reached(self) -> str | None:
        cap = self._remaining
        if cap.calls is not None and self._calls >= cap.calls:
            return f"the cap on calls is reached ({cap.calls} were left)"
        if cap.usd is not None:
            committed = self._spent + self._in_flight * self._dearest
            if self._spent >= cap.usd or committed + self._dearest > cap.usd * (1.0 + _ROUNDING):
                return f"the cap on money is reached ({cap.usd:.4g} USD were left)"
        if self.is_late():
            return "the cap on time is reached"
        return None


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of a run; None is no cap."""

    max_calls: int | None = None
    max_usd: float | None = None
    max_proposer_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent so far; `dearest_usd` is the highest price of one trial."""

    calls: int
    target_usd: float
    proposer_usd: float
    dearest_usd: float | None


def remaining_for_search(caps: Caps, spent: Spent, *, final_calls: int, deadline: float | None) -> Remaining:
    """What the search may still spend once the bill of the finalize is set aside.

    Args:
        final_calls: Target calls that finalize will make.
        deadline: When this driver must stop, on its clock.
    """
    calls = None if caps.max_calls is None else max(0, caps.max_calls - spent.calls - final_calls)
    usd = None
    if caps.max_usd is not None:
        set_aside = final_calls * (spent.dearest_usd or 0.0)
        usd = max(0.0, caps.max_usd - spent.target_usd - spent.proposer_usd - set_aside)
    return Remaining(calls, usd, deadline)
