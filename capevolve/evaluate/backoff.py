"""How long to wait before a trial is tried again."""

from __future__ import annotations

from tenacity import RetryCallState, Retrying, wait_exponential, wait_random

LONGEST_S = 60.0


def wait_before_retry(first_s: float, attempt: int) -> float:
    """Returns the seconds before the n-th retry: doubling up to a minute, with up to `first_s` of jitter."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    wait = wait_exponential(multiplier=first_s, max=LONGEST_S) + wait_random(0.0, first_s)
    return float(wait(state))
