"""How many calls may be under way, learnt from the answers that ask for fewer.

Additive increase, multiplicative decrease (Chiu and Jain, 1989), as in TCP: a rate-limit answer halves the
limit once, however many calls of the same burst are refused; successes raise it step by step. Nothing begins
before the wait that the answer asked for is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

STEPS = 16
"""From half to the top the limit rises in about half as many steps, each after a round of successes."""

NOTABLE_S = 1.0
"""A burst's further answers are recorded when they lengthen its wait by this much, in seconds."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a congestion event or a recovery did to the limit.

    Attributes:
        at: When, on the evaluation's clock.
        was, now: The limit before and after; equal where it could not fall further.
        hold_s: Seconds in which nothing begins.
        retry_after_s: What the answer asked for; None where it did not say.
        times: Congestion events in it: 1 or, of a step of the recovery, 0; more where changes were joined.
        lowest: The lowest limit in it.
    """

    at: float
    was: int
    now: int
    hold_s: float
    retry_after_s: float | None
    times: int
    lowest: int

    def join(self, later: Change) -> Change:
        """Returns this change and a later one as one."""
        waits = [wait for wait in (self.retry_after_s, later.retry_after_s) if wait is not None]
        return replace(
            later,
            was=self.was,
            retry_after_s=max(waits, default=None),
            times=self.times + later.times,
            lowest=min(self.lowest, later.lowest),
        )


class Congestion:
    """Keeps the limit.

    Args:
        top: The limit when all is well, at least 1.
        pause: Returns the least wait after the n-th congestion event in a row, in seconds, n from 1.
        adaptive: False leaves the limit at the top; waits are kept all the same.
        limit: The limit to start from, when it is known to be lower.
        held_until: Nothing begins before this time.
    """

    def __init__(
        self,
        top: int,
        pause: Callable[[int], float],
        *,
        adaptive: bool = True,
        limit: int | None = None,
        held_until: float = -math.inf,
    ) -> None:
        self.top = top
        self.limit = top if limit is None or not adaptive else max(1, min(limit, top))
        self.held_until = held_until
        self._pause = pause
        self._adaptive = adaptive
        self._step = max(1, -(-top // STEPS))
        self._successes = 0
        self._in_a_row = 0

    def engaged(self, now: float) -> bool:
        """True while calls are held back."""
        return self.limit < self.top or now < self.held_until

    def refuse(self, now: float, started_at: float, retry_after_s: float | None) -> Change | None:
        """Takes a rate-limit answer to a call that began at `started_at`.

        Returns:
            What changed; None for a further answer of a burst that was answered for, unless it asks for a
            longer wait. A burst is every call that began before the wait for its first refusal was over.
        """
        if started_at <= self.held_until:
            return self._hold_longer(now, retry_after_s or 0.0)
        self._in_a_row += 1
        self._successes = 0
        hold_s = max(self._pause(self._in_a_row), retry_after_s or 0.0)
        self.held_until = max(self.held_until, now + hold_s)
        was = self.limit
        if self._adaptive:
            self.limit = max(1, was // 2)
        return Change(now, was, self.limit, hold_s, retry_after_s, 1, self.limit)

    def _hold_longer(self, now: float, asked_s: float) -> Change | None:
        longer_s = now + asked_s - self.held_until
        self.held_until = max(self.held_until, now + asked_s)
        if longer_s < NOTABLE_S:
            return None
        return Change(now, self.limit, self.limit, asked_s, asked_s, 0, self.limit)

    def succeed(self, now: float, started_at: float) -> Change | None:
        """Takes a measured trial that began at `started_at`; returns the step up that it completed."""
        if started_at <= self.held_until:
            return None  # it began before the provider complained
        self._in_a_row = 0
        if self.limit >= self.top:
            return None
        self._successes += 1
        if self._successes < self.limit:
            return None
        was, self._successes = self.limit, 0
        self.limit = min(self.top, was + self._step)
        return Change(now, was, self.limit, 0.0, None, 0, was)
