"""The course of a run's concurrency as its log tells it: each change of the limit is an event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from capevolve.evaluate.congestion import Change
from capevolve.ledger.events import append_event, read_events

EVENT = "congestion"
"""Kind of the event; its payload names the evaluation, the change and the limit when all is well."""

MEMORY_S = 600.0
"""For so long a limit that was learnt is where the next evaluation starts, in seconds."""


@dataclass(frozen=True, slots=True)
class Course:
    """How often a run was rate limited, and what it did to the concurrency.

    Attributes:
        times: Congestion events: bursts of rate-limit answers.
        lowest: The lowest limit reached, of `top`.
        longest_s: The longest Retry-After, in seconds; None when none was given.
    """

    times: int
    lowest: int
    top: int
    longest_s: float | None


@dataclass(frozen=True, slots=True)
class Start:
    """What an evaluation starts from: the limit learnt lately, and the time before which nothing begins."""

    limit: int | None = None
    held_until: float = -math.inf


def record_changes(
    connection: Connection, run_id: str, evaluation_id: int, top: int, changes: Sequence[Change]
) -> None:
    """Adds changes to the run's log. The caller has checked the fence in this transaction."""
    for change in changes:
        payload = {
            "evaluation": evaluation_id,
            "was": change.was,
            "now": change.now,
            "top": top,
            "lowest": change.lowest,
            "times": change.times,
            "hold_s": change.hold_s,
            "retry_after_s": change.retry_after_s,
        }
        append_event(connection, run_id, EVENT, payload, change.at)


def read_course(connection: Connection, run_id: str) -> Course | None:
    """Returns the course of a run; None when it was never rate limited."""
    payloads = [event.payload for event in read_events(connection, run_id, EVENT)]
    if not payloads:
        return None
    deepest = min(payloads, key=lambda payload: payload["lowest"] / payload["top"])
    waits = [payload["retry_after_s"] for payload in payloads if payload["retry_after_s"] is not None]
    return Course(
        times=sum(payload["times"] for payload in payloads),
        lowest=deepest["lowest"],
        top=deepest["top"],
        longest_s=max(waits, default=None),
    )


def describe_course(course: Course) -> str:
    """Returns the course in a sentence."""
    times = "once" if course.times == 1 else f"{course.times} times"
    fell = course.lowest < course.top
    words = f"concurrency fell to {course.lowest} of {course.top}" if fell else "concurrency was not changed"
    wait = "" if course.longest_s is None else f"; the longest wait asked for was {course.longest_s:.3g} s"
    return f"The target was rate limited {times}: {words}{wait}."


def read_start(connection: Connection, run_id: str, now: float) -> Start:
    """Returns where the run's log left the limit: a killed driver's wait is waited out by the next."""
    events = read_events(connection, run_id, EVENT)
    if not events:
        return Start()
    held_until = max(min(event.at, now) + event.payload["hold_s"] for event in events)
    last = events[-1]
    return Start(last.payload["now"] if now - last.at < MEMORY_S else None, held_until)
