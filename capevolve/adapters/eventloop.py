"""Runs `async def run_target`: all trials of a host on one event loop.

A plain `def score` beside it is called on the loop until one call takes longer than a moment; from then on it
is called in a thread, because a judge that waits would hold up every other trial.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from inspect import iscoroutinefunction
from typing import Any

from capevolve.adapters.bench import TICK_S, Bench, Running
from capevolve.adapters.late import load_late
from capevolve.adapters.records import TrialReply
from capevolve.adapters.trial import TrialRunner, describe_error
from capevolve.adapters.wire import Progress, Stuck
from capevolve.model import Reason, Unmeasured

SLOW_SCORE_S = 0.05
"""A plain `score` that takes longer than this, in seconds, moves to a thread."""


def serve_async(bench: Bench, runner: asyncio.Runner) -> None:
    """Runs trials until the pool closes the host."""
    loop = runner.get_loop()
    # The default would be a handful of threads on a small machine, fewer than the trials that want one.
    loop.set_default_executor(ThreadPoolExecutor(max_workers=max(32, 2 * bench.width)))
    serving = loop.create_task(_AsyncLane(bench, loop).serve())
    while not serving.done():
        try:
            loop.run_until_complete(serving)
        except (SystemExit, KeyboardInterrupt):
            continue  # raised in a task of the user's own: asyncio ends the loop with it, the host must not


class _AsyncLane:
    def __init__(self, bench: Bench, loop: asyncio.AbstractEventLoop) -> None:
        self._bench = bench
        self._loop = loop
        self._running: dict[int, Running] = {}
        self._done: list[TrialReply] = []
        self._pump_is_due = False
        self._open = True
        self._closed = loop.create_future()
        self._score = bench.loaded.instance.score
        self._score_apart = False
        plain_score = not iscoroutinefunction(self._score)
        self._runner = TrialRunner(
            bench.loaded.instance,
            seed_by_name=bench.loaded.seed_by_name,
            ctx=bench.ctx,
            limits=bench.limits,
            settle=_settle,
            call_score=self._call_plain_score if plain_score else None,
        )

    async def serve(self) -> None:
        """Runs trials until the inbox closes."""
        self._bench.inbox.on_change = lambda: self._loop.call_soon_threadsafe(self._plan_pump)
        self._plan_pump()
        watch = self._loop.create_task(self._watch_limits())
        await self._closed
        self._bench.inbox.on_change = None
        watch.cancel()

    def _plan_pump(self) -> None:
        if not self._pump_is_due:
            self._pump_is_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Sends what is done, says what starts, and starts it."""
        self._pump_is_due = False
        bench = self._bench
        fresh: list[tuple[Running, Any]] = []
        while self._open and len(self._running) < bench.width:
            request = bench.inbox.take(wait=False)
            if request is None:
                break
            task = bench.find_task(request)
            if task is None:
                self._open = False
                break
            running = Running(request, time.monotonic())
            self._running[request.key] = running
            fresh.append((running, task))
        if self._done or fresh:
            done, self._done = tuple(self._done), []
            bench.channel.send(Progress(done, tuple(running.request.key for running, _ in fresh)))
        for running, task in fresh:
            running.handle = self._loop.create_task(self._runner.run(running.request, task))
            running.handle.add_done_callback(lambda trial, running=running: self._finish(running, trial))
        if bench.inbox.closing and not self._closed.done():
            self._closed.set_result(None)

    def _finish(self, running: Running, trial: asyncio.Task[TrialReply]) -> None:
        fault = None if trial.cancelled() else trial.exception()
        if self._running.pop(running.request.key, None) is None:
            return  # given up already
        self._bench.surroundings.restore()
        if trial.cancelled() or fault is not None:
            words = "cancelled before it began" if fault is None else describe_error(fault, "run_target")
            outcome = Unmeasured(Reason.INFRA, words)
            duration = time.monotonic() - running.begun
            self._done.append(TrialReply(running.request.key, outcome, "", (), "{}", None, None, duration))
        else:
            reply = trial.result()
            self._done.append(reply)
            if reply.refusal is not None:
                self._done = list(self._bench.heed(tuple(self._done)))
        self._plan_pump()

    async def _watch_limits(self) -> None:
        limit, grace = self._bench.limits.timeout_s, self._bench.grace_s
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for key, running in list(self._running.items()):
                age = now - running.begun
                if age <= limit:
                    break  # they are in order of their start
                if not running.cancelled:
                    running.cancelled = True
                    running.handle.cancel()
                elif age > limit + grace:
                    del self._running[key]
                    stack, scoring = _stack_of(running.handle), key in self._runner.scoring
                    self._bench.channel.send(Stuck(running.give_up(limit, stack, scoring=scoring)))

    def _call_plain_score(self, task: Any, rollout: Any) -> Any:
        if self._score_apart:
            return asyncio.to_thread(self._score, task, rollout)
        begun = time.monotonic()
        try:
            return self._score(task, rollout)
        finally:
            self._score_apart = time.monotonic() - begun > SLOW_SCORE_S


async def _settle(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _stack_of(trial: asyncio.Task[Any]) -> str:
    traceback = load_late("traceback")  # only a stuck trial pays for it

    return "".join("".join(traceback.format_stack(frame)[-1:]) for frame in trial.get_stack(limit=12))
