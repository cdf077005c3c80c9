"""The driver's side of the hosts: a pool that runs the trials of one evaluation of one candidate.

Hosts are never shared between candidates: a module that a host has imported would be the wrong candidate's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from capevolve.adapters.crew import Crew
from capevolve.adapters.pace import Pace
from capevolve.adapters.payload import MAX_PAYLOAD
from capevolve.adapters.processes import dismiss_guard, start_guard
from capevolve.adapters.records import AdapterFacts, AdapterRef, TrialReply, TrialRequest
from capevolve.adapters.seat import Flight, Limits
from capevolve.adapters.setting import Setting


class HostPool:
    """Runs trials in child processes: one pool for one evaluation of one candidate.

    Use it as `async with HostPool(...) as pool`, on one event loop. However the block is left, every process
    that it started is dead afterwards, and so are theirs. A driver that is killed takes them along.

    A trial that kills its host ends as `crash`, one that hangs as `timeout`; the others lose nothing. Where
    several trials shared a dead host, each of them runs again alone in a fresh one, so that only the culprit
    pays.

    Args:
        adapter: The adapter to load.
        candidate_dir: The candidate's files, given to the adapter's `live`.
        slots: Trials at once, at least 1.
        timeout_s: The limit of a trial: `run_target` and `score` together.
        grace_s: What a trial gets on top of its limit to end in good order, and a host to leave `live`.
        trials_per_host: The most trials at once in one process; by default 1 for `def run_target` up to 8
            slots, and the slots spread over the processors for `async def`.
        env: Added to the environment of the hosts.
        python: The interpreter of the hosts.
        prefetch: Let requests wait in a host when trials are short, so that it never idles.
        start_timeout_s: The limit of a host's start: loading the adapter, `tasks`, `live`.
        expected: Trials that will come: hosts for them start at once.
        batch_size: The most trials in one call of a batch hook, if the adapter has one; 0 to use none. A host
            runs one call at a time.
        memory_mb: The address space of a host and of each process it starts; None is no limit.
        max_payload: The longest payload of a reply, in characters.
        heed: After a rate-limit answer nothing begins until `throttle` is called.
    """

    def __init__(
        self,
        adapter: AdapterRef,
        candidate_dir: Path,
        *,
        slots: int,
        timeout_s: float,
        grace_s: float,
        trials_per_host: int | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
        python: str = sys.executable,
        prefetch: bool = True,
        start_timeout_s: float = 300.0,
        expected: int = 0,
        batch_size: int = 0,
        memory_mb: int | None = None,
        max_payload: int = MAX_PAYLOAD,
        heed: bool = False,
    ) -> None:
        if slots < 1 or (trials_per_host is not None and trials_per_host < 1):
            raise ValueError("slots and trials_per_host are at least 1")
        limits = Limits(timeout_s, grace_s, start_timeout_s, memory_mb, max_payload)
        setting = Setting(
            adapter=replace(adapter, root=adapter.root.absolute()),
            candidate_dir=candidate_dir.absolute(),
            slots=slots,
            limits=limits,
            trials_per_host=trials_per_host,
            env=dict(env),
            python=python,
            batch_size=batch_size,
        )
        self._slots = slots
        self._expected = expected
        self._heed = heed
        self._pace = Pace(enabled=prefetch)
        self._crew = Crew(setting, self._pace, self._take)
        self._in_flight: set[int] = set()
        self._done: list[TrialReply] = []
        self._guard: tuple[subprocess.Popen[bytes], int] | None = None

    async def __aenter__(self) -> Self:
        self._guard = start_guard(self._crew.marker)
        self._crew.begin()
        if self._expected:
            self._crew.call_up(self._expected)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._crew.close()
        finally:
            self._crew.destroy()
            if self._guard is not None:
                dismiss_guard(*self._guard)

    def free(self) -> int:
        """Returns how many requests may be submitted now: free slots, and places to wait in the hosts.

        With a batch hook, how many calls (see `TrialRequest.call`) would start at once.
        """
        if self._crew.call_size():
            return self._crew.free_calls()
        return max(0, self._slots * (1 + self._pace.ahead) - len(self._in_flight))

    def call_size(self) -> int:
        """Returns how many requests one call of a batch hook may hold; 0 without one, or before `facts`."""
        return self._crew.call_size()

    def submit(self, requests: Sequence[TrialRequest]) -> None:
        """Queues requests; each will be answered by exactly one reply.

        Raises:
            ValueError: A key is in flight already.
        """
        keys = {request.key for request in requests}
        if len(keys) < len(requests) or not keys.isdisjoint(self._in_flight):
            raise ValueError("a request with the same key is in flight already")
        self._in_flight |= keys
        self._crew.add([Flight(request) for request in requests])

    def ready(self, wanted: int) -> int:
        """Returns how many of the wanted requests would begin at once: hosts take a while to start.

        It starts hosts for the others.
        """
        return self._crew.ready(wanted)

    def busy(self) -> bool:
        """True while a trial runs or its reply is not read; False when all that was submitted waits."""
        return self._crew.busy() or bool(self._done)

    def throttle(self, limit: int | None) -> None:
        """Lets at most so many trials be with the hosts, 0 to begin nothing; None leaves it to the slots.

        What waits in the hosts is called back, and waits here.
        """
        self._crew.throttle(limit)

    async def replies(self) -> list[TrialReply]:
        """Waits for at least one reply and returns all there are; [] at once when nothing is in flight.

        Raises:
            AdapterError: The adapter cannot be used: it does not load, `live` fails, or a task is not what
                the splits froze. Raised after the replies of the trials that were running.
            OutsideError: Hosts do not start.
        """
        crew = self._crew
        while not self._done:
            if crew.fatal is not None and not crew.busy():
                raise crew.fatal
            if not self._in_flight:
                break
            crew.news.clear()
            await crew.news.wait()
        done, self._done = self._done, []
        return done

    async def facts(self) -> AdapterFacts:
        """Returns what loading the adapter told; starts a host if there is none.

        Raises:
            AdapterError: It cannot be loaded.
            OutsideError: Hosts do not start.
        """
        crew = self._crew
        while crew.facts is None:
            if crew.fatal is not None:
                raise crew.fatal
            crew.call_up()
            crew.news.clear()
            await crew.news.wait()
        return crew.facts

    def _take(self, reply: TrialReply) -> None:
        self._in_flight.discard(reply.key)
        self._done.append(reply)
        if reply.refusal is not None and self._heed and reply.rate_limited:
            self._crew.throttle(0)  # at once: the next trial must not begin before this reply is read
