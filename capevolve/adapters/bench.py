"""A host at work: what both ways of running trials (`threaded`, `eventloop`) have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capevolve.adapters.catalog import describe_task
from capevolve.adapters.channel import Channel, Inbox
from capevolve.adapters.loader import LoadedAdapter
from capevolve.adapters.payload import render_payload
from capevolve.adapters.records import TrialReply, TrialRequest
from capevolve.adapters.reply import TrialLimits, time_out
from capevolve.adapters.surroundings import Surroundings
from capevolve.adapters.wire import Failed, Progress, Returned, Scoring
from capevolve.errors import AdapterError

TICK_S = 0.05
"""How often limits are looked at, in seconds."""


@dataclass(slots=True)
class Bench:
    """Everything a running host needs.

    Attributes:
        tasks: The adapter's tasks by id.
        ctx: What `live` yielded.
        width: How many trials run at once.
    """

    channel: Channel
    inbox: Inbox
    surroundings: Surroundings
    loaded: LoadedAdapter
    tasks: Mapping[str, Any]
    ctx: Any
    width: int
    limits: TrialLimits
    grace_s: float
    _digests: dict[str, str] = field(default_factory=dict)

    def find_task(self, request: TrialRequest) -> Any | None:
        """Returns the request's task; None after telling the pool that it is gone or has changed."""
        task = self.tasks.get(request.task_id)
        if task is None:
            self.fail(
                AdapterError(
                    f"task {request.task_id!r} is gone: the splits were frozen with it",
                    where="tasks('all')",
                    fix="restore the task, or start a new run with new splits",
                )
            )
            return None
        known = self._digests.get(request.task_id)
        if known is None:
            try:
                known = describe_task(task).digest
            except AdapterError as error:
                self.fail(error)
                return None
            self._digests[request.task_id] = known
        if known != request.task_digest:
            self.fail(
                AdapterError(
                    f"task {request.task_id!r} changed since the splits were frozen",
                    where="tasks('all')",
                    fix="restore the task's content, or start a new run with new splits",
                )
            )
            return None
        return task

    def say_scoring(self, key: int) -> None:
        """Tells the pool that a trial's scorer runs: from now on a hang is not the agent's."""
        self.channel.send(Scoring(key))

    def heed(self, done: tuple[TrialReply, ...]) -> tuple[TrialReply, ...]:
        """Hands back what has not started after a rate-limit answer: it would be refused too.

        The pool hears of the answer first, so that it does not deal them out again. Returns what is still
        to be sent.
        """
        if not any(reply.rate_limited for reply in done):
            return done
        self.channel.send(Progress(done, ()))
        if keys := self.inbox.recall():
            self.channel.send(Returned(keys))
        return ()

    def fail(self, error: AdapterError) -> None:
        """Tells the pool that the adapter breaks its contract."""
        self.channel.send(Failed(error.what, error.where, error.fix))


@dataclass(slots=True, eq=False)
class Running:
    """A trial that has started."""

    request: TrialRequest
    begun: float
    cancelled: bool = False
    handle: Any = None

    def give_up(self, limit_s: float, stack: str, *, scoring: bool) -> TrialReply:
        """Returns the reply for a trial that cannot be ended without ending the host."""
        duration = time.monotonic() - self.begun
        outcome = time_out(limit_s, duration, scoring=scoring)
        payload = render_payload({"error": outcome.detail, "traceback": stack})
        return TrialReply(self.request.key, outcome, "", (), payload, None, None, duration)
