"""The application a local server serves: Prefect's own, made to record what it was told before it ends.

Prefect keeps the events that its clients send (all task runs are made of them) in queues in memory, and
forgets the queues when it stops: stopped right after a flow of 300 task runs it had recorded 11. Here the
end waits for the queues.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

DRAIN_LIMIT_S = 10.0
STALL_LIMIT_S = 3.0
"""A queue that has not moved for so long holds only messages that cannot be recorded."""

DRAIN_PERIOD_S = 0.02

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def create_app() -> Application:
    """Returns Prefect's application, which drains its queues when it is told to shut down."""
    from prefect.server.api.server import create_app as create_prefect
    from prefect.server.utilities.messaging import memory

    counts: Mapping[str, Mapping[str, int]] = memory.METRICS
    return drain_at_shutdown(create_prefect(), lambda: count_waiting(counts))


def count_waiting(counts: Mapping[str, Mapping[str, int]]) -> int:
    """Returns how many messages were published to subscribers and not consumed, over all topics."""
    return sum(topic["published"] - topic["consumed"] for topic in list(counts.values()))


def drain_at_shutdown(app: Application, waiting: Callable[[], int]) -> Application:
    """Wraps an ASGI application so that it hears of its shutdown only when nothing is waiting."""

    async def drained(scope: Message, receive: Receive, send: Send) -> None:
        async def receive_drained() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await drain(waiting)
            return message

        await app(scope, receive_drained if scope["type"] == "lifespan" else receive, send)

    return drained


async def drain(waiting: Callable[[], int]) -> None:
    """Returns once nothing is waiting, nothing has moved for `STALL_LIMIT_S`, or after `DRAIN_LIMIT_S`."""
    start = moved = time.monotonic()
    before = waiting()
    while before and time.monotonic() < min(start + DRAIN_LIMIT_S, moved + STALL_LIMIT_S):
        await asyncio.sleep(DRAIN_PERIOD_S)
        now = waiting()
        if now != before:
            before, moved = now, time.monotonic()
