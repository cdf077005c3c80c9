"""Runs `def run_target`: in the main thread where a host has one slot, else in one thread per slot.

A trial's start is said before the target is called, in the message that carries the result finished by then:
a host that dies leaves no doubt about what had started, and a short trial costs one message.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from capevolve.adapters.bench import TICK_S, Bench, Running
from capevolve.adapters.late import load_late
from capevolve.adapters.records import TrialReply
from capevolve.adapters.surroundings import own_working_directory
from capevolve.adapters.trial import TrialRunner
from capevolve.adapters.wire import Progress, Stuck

T = TypeVar("T")


class Settler:
    """Runs awaitables from plain code, on one event loop per thread that is kept between trials."""

    def __init__(self) -> None:
        self._local = threading.local()

    def settle(self, awaitable: Awaitable[T]) -> T:
        """Returns the value of an awaitable."""

        async def wait() -> T:
            return await awaitable

        value: T = self.runner().run(wait())
        return value

    def runner(self) -> Any:
        """Returns this thread's `asyncio.Runner`."""
        runner = getattr(self._local, "runner", None)
        if runner is None:
            asyncio = load_late("asyncio")  # slow to import, and most plain adapters need none
            runner = self._local.runner = asyncio.Runner()
        return runner


def serve_threaded(bench: Bench, settler: Settler) -> None:
    """Runs trials until the pool closes the host."""
    lane = _ThreadedLane(bench, settler)
    if bench.width == 1:
        lane.work()
        return
    for _ in range(bench.width):
        threading.Thread(target=lane.work_apart, daemon=True).start()
    while not bench.inbox.wait_closing(TICK_S):
        lane.report_overdue()


class _ThreadedLane:
    def __init__(self, bench: Bench, settler: Settler) -> None:
        async def settle(awaitable: Awaitable[Any]) -> Any:
            return settler.settle(awaitable)

        self._bench = bench
        self._running: dict[int, Running] = {}
        self._claim = threading.Lock()
        self._runner = TrialRunner(
            bench.loaded.instance,
            seed_by_name=bench.loaded.seed_by_name,
            ctx=bench.ctx,
            limits=bench.limits,
            settle=settle,
            on_scoring=bench.say_scoring if bench.width == 1 else None,
        )

    def work_apart(self) -> None:
        own_working_directory()
        self.work()

    def work(self) -> None:
        """Runs one trial after the other until the host closes."""
        bench = self._bench
        done: tuple[TrialReply, ...] = ()
        while True:
            request = bench.inbox.take(wait=False)
            if request is None:
                if done:
                    bench.channel.send(Progress(done, ()))
                    done = ()
                request = bench.inbox.take(wait=True)
                if request is None:
                    return
            task = bench.find_task(request)
            if task is None:
                if done:
                    bench.channel.send(Progress(done, ()))
                return
            running = Running(request, time.monotonic(), handle=threading.get_ident())
            self._running[request.key] = running
            bench.channel.send(Progress(done, (request.key,)))
            reply = _drive(self._runner.run(request, task))
            bench.surroundings.restore()
            done = (reply,) if self._take(request.key) else ()
            if reply.refusal is not None:
                done = bench.heed(done)

    def report_overdue(self) -> None:
        """Reports each trial that is over its limit: a thread cannot be ended from outside."""
        limit = self._bench.limits.timeout_s
        now = time.monotonic()
        for key, running in list(self._running.items()):
            if now - running.begun > limit + self._bench.grace_s and self._take(key):
                stack, scoring = _stack_of(running.handle), key in self._runner.scoring
                self._bench.channel.send(Stuck(running.give_up(limit, stack, scoring=scoring)))

    def _take(self, key: int) -> bool:
        """True for the one who may answer for a trial: its thread, or who gave it up."""
        with self._claim:
            return self._running.pop(key, None) is not None


def _drive(coroutine: Coroutine[Any, Any, TrialReply]) -> TrialReply:
    """Runs a coroutine that never suspends, because its awaitables are settled on the spot."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        reply: TrialReply = stop.value
        return reply
    raise RuntimeError("a plain trial suspended")


def _stack_of(thread: int) -> str:
    traceback = load_late("traceback")  # only a stuck trial pays for it

    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame)[-12:]) if frame is not None else ""
