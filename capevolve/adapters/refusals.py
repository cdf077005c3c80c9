"""What a provider's refusal says about calling again, read from whatever a target raised.

Clients name it alike: a status code on the error or on its response, a Retry-After among the headers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capevolve.adapters.late import load_late
from capevolve.adapters.records import Refusal
from capevolve.model import Rollout

TOO_MANY = 429
UNAVAILABLE = frozenset({503, 529})
"""Rate limits when they come with a Retry-After, else outages like any other; 529 is "overloaded"."""

PERMANENT = frozenset({400, 401, 403, 404, 422})
"""What the same call would be answered with again."""

MAX_WAIT_S = 366 * 86_400.0
"""A longer wait is a mistake, and counts as none given."""

_NAMES = frozenset({"RateLimitError", "RateLimitedError"})
_NO_QUOTA = "insufficient_quota"
_LONGEST_CHAIN = 5


@dataclass
class RefusedRollout(Rollout):
    """What a ready target returns for a call that its provider refused."""

    refusal: Refusal | None = None


def find_refusal(rollout: Any) -> Refusal | None:
    """Returns what a provider said of a rollout that has an error."""
    return rollout.refusal if isinstance(rollout, RefusedRollout) else None


def read_refusal(error: BaseException, now: float | None = None) -> Refusal | None:
    """Returns what an error says about calling again; None when it says nothing.

    A rate limit may be the cause that an error was raised from. Only the error itself makes a refusal
    permanent: what an agent's tool met on its way is no word about the next try.

    Args:
        error: What `run_target` raised.
        now: The time, in seconds since the epoch, against which a date is read; None is the clock.
    """
    try:
        for fault in _chain(error):
            if _is_rate_limit(fault):
                return Refusal(True, _read_wait(fault, time.time() if now is None else now))
        return Refusal(False) if _is_permanent(error) else None
    except Exception:  # noqa: BLE001  (a user's property may raise anything)
        return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    fault: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if not isinstance(fault, Exception):  # an exit has a code too
            return
        yield fault
        fault = fault.__cause__


def _is_rate_limit(error: BaseException) -> bool:
    if getattr(error, "code", None) == _NO_QUOTA:
        return False  # a 429 that no waiting mends
    status = _status(error)
    if status in UNAVAILABLE:
        return _find_header(error, "retry-after") is not None
    return status == TOO_MANY or any(kind.__name__ in _NAMES for kind in type(error).__mro__)


def _is_permanent(error: BaseException) -> bool:
    return _status(error) in PERMANENT or getattr(error, "code", None) == _NO_QUOTA


def _status(error: BaseException) -> int | None:
    holders = (error, getattr(error, "response", None))
    for holder in holders:
        for name in ("status_code", "status"):
            value = getattr(holder, name, None)
            if type(value) is int:
                return value
    return None


def _read_wait(error: BaseException, now: float) -> float | None:
    said = check_wait(getattr(error, "retry_after_s", None))
    if said is not None:
        return said
    exact = parse_retry_after(_find_header(error, "retry-after-ms"), now)
    if exact is not None:
        return exact / 1000.0
    return parse_retry_after(_find_header(error, "retry-after"), now)


def _find_header(error: BaseException, name: str) -> str | None:
    for holder in (getattr(error, "response", None), error):
        headers = getattr(holder, "headers", None)
        if headers is None:
            continue
        for key in (name, name.title()):  # a plain dict minds the case
            value = headers.get(key)
            if value is not None:
                return str(value)
    return None


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Returns the seconds that a Retry-After asks for (RFC 9110): a number, or a date less the time.

    Args:
        text: The header's value.
        now: The time, in seconds since the epoch.

    Returns:
        Seconds >= 0; None when there is no header, or it is neither.
    """
    if text is None:
        return None
    try:
        return check_wait(float(text))
    except ValueError:
        pass
    try:
        date = load_late("email.utils").parsedate_to_datetime(text)  # only a date pays for the import
    except Exception:  # noqa: BLE001  (a module of the user's may have taken the name)
        return None
    if date.tzinfo is None:  # `-0000`: the header's dates are UTC
        date = date.replace(tzinfo=load_late("datetime").UTC)
    return check_wait(max(0.0, date.timestamp() - now))


def check_wait(seconds: Any) -> float | None:
    """Returns a wait that is a number of seconds >= 0, else None."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(seconds) if 0.0 <= seconds < MAX_WAIT_S else None
