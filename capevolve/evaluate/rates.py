"""How many calls of the target may begin in a minute, and how many tokens they may use.

Both are token buckets (Turner, 1986) that hold one second's worth. Requests are known when they begin, so
any minute holds at most the limit. Tokens are known when a trial is over: the mean so far is taken when it
begins and the difference when it ends. So what was used never runs ahead of the limit by more than one
second's worth and what the trials in flight took beyond their estimate, which later trials wait for.
"""

from __future__ import annotations

from capevolve.ledger.usage import UNUSED, RecentUse

MINUTE_S = 60.0
_ROUNDING = 1e-9


class Bucket:
    """Something that fills at a steady rate and may be owed.

    Args:
        capacity: The most it holds, > 0.
        per_s: What flows in each second, > 0.
        now: The time, in seconds; it is full.
    """

    def __init__(self, *, capacity: float, per_s: float, now: float) -> None:
        self.capacity = capacity
        self._per_s = per_s
        self._level = capacity
        self._at = now

    def level(self, now: float) -> float:
        """Returns what it holds; negative is owed. A clock that goes back changes nothing."""
        if now > self._at:
            self._level = min(self.capacity, self._level + (now - self._at) * self._per_s)
            self._at = now
        return self._level

    def take(self, now: float, amount: float) -> None:
        """Takes so much, held or not; a negative amount is given back."""
        self._level = min(self.capacity, self.level(now) - amount)

    def wait_s(self, now: float, amount: float) -> float:
        """Returns the seconds until it holds the amount, or is full if that is less; 0 is now."""
        lacking = min(amount, self.capacity) - self.level(now)
        return 0.0 if lacking <= _ROUNDING * self.capacity else lacking / self._per_s


class Rates:
    """The limits per minute of a run.

    Args:
        requests_per_minute: Calls that may begin; None is no limit.
        tokens_per_minute: Tokens that trials may use; None is no limit.
        now: The time, in seconds.
        recent: What earlier evaluations of the run used: the limits are the run's.
    """

    def __init__(
        self,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
        *,
        now: float,
        recent: RecentUse = UNUSED,
    ) -> None:
        self._requests = None
        self._tokens = None
        self._mean = recent.mean_tokens
        self._weight = 0 if recent.mean_tokens is None else 1
        self._unreported = False
        start = now if recent.last_at is None else min(now, recent.last_at)
        if requests_per_minute is not None:
            burst = max(1.0, float(int(requests_per_minute / MINUTE_S)))
            # So many less flow in that a burst and a minute's flow together are not more than the limit.
            flow = (requests_per_minute - (burst - 1.0)) / MINUTE_S
            self._requests = Bucket(capacity=burst, per_s=flow, now=start)
            if recent.last_at is not None:
                self._requests.take(start, burst)
        if tokens_per_minute is not None:
            first = min([now, *(at for at, _ in recent.tokens)])
            second = tokens_per_minute / MINUTE_S
            self._tokens = Bucket(capacity=second, per_s=second, now=first)
            for at, tokens in recent.tokens:
                self._tokens.take(min(at, now), tokens)

    def count(self, now: float, most: int) -> int:
        """Returns how many calls may begin now, at most `most`."""
        if self._requests is not None:
            most = min(most, int(self._requests.level(now) + _ROUNDING * self._requests.capacity))
        if self._tokens is not None and most > 0:
            estimate = self._estimate()
            if self._tokens.wait_s(now, estimate) > 0.0:
                return 0
            if estimate > 0.0:
                most = min(most, max(1, int(self._tokens.level(now) / estimate)))
        return max(0, most)

    def wait_s(self, now: float) -> float:
        """Returns the seconds until another call may begin, by what is known now; 0 is now."""
        wait = 0.0 if self._requests is None else self._requests.wait_s(now, 1.0)
        return wait if self._tokens is None else max(wait, self._tokens.wait_s(now, self._estimate()))

    def begin(self, now: float) -> float:
        """A call begins. Returns the tokens reserved for it, to be handed to `settle`."""
        if self._requests is not None:
            self._requests.take(now, 1.0)
        if self._tokens is None:
            return 0.0
        estimate = self._estimate()
        self._tokens.take(now, estimate)
        return estimate

    def settle(
        self, now: float, reserved: float, tokens: int | None, *, extra_calls: int = 0, refused: bool = False
    ) -> None:
        """A call is over.

        Args:
            now: The time.
            reserved: What `begin` returned.
            tokens: What it used; None is not reported, and counts as what was reserved.
            extra_calls: Further calls that it took.
            refused: The provider did not answer: nothing was used.
        """
        if self._requests is not None and extra_calls:
            self._requests.take(now, extra_calls)
        if self._tokens is None:
            return
        if refused:
            self._tokens.take(now, -reserved)
        elif tokens is not None:
            self._weight += 1
            mean = self._mean or 0.0
            self._mean = mean + (tokens - mean) / self._weight
            self._tokens.take(now, tokens - reserved)
        elif self._mean is None:  # a target that reports nothing cannot be held to it
            self._unreported = True
            self._tokens.take(now, -reserved)

    def _estimate(self) -> float:
        """The tokens of the next trial; a second's worth while nothing is known."""
        if self._mean is not None:
            return self._mean
        return 0.0 if self._unreported or self._tokens is None else self._tokens.capacity
