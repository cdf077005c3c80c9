"""The hosts of a pool: starts them where there is work, deals requests to them, and sees them out."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace

from capevolve.adapters.calls import count_calls, deal_calls
from capevolve.adapters.hostprocess import HostProcess, describe_end
from capevolve.adapters.memory import explain_start
from capevolve.adapters.pace import Pace, plan_hosts
from capevolve.adapters.records import AdapterFacts, TrialReply
from capevolve.adapters.seat import Flight, Seat
from capevolve.adapters.setting import Setting, make_order
from capevolve.errors import AdapterError, OutsideError

_TICK_S = 0.05
_FAILED_STARTS = 3


class Crew:
    """Runs flights in hosts; implements `seat.Desk`.

    Args:
        setting: What the hosts are started with.
        pace: How far ahead requests are sent.
        answer: Takes the reply of each flight, exactly once.
    """

    def __init__(self, setting: Setting, pace: Pace, answer: Callable[[TrialReply], None]) -> None:
        self.marker = uuid.uuid4().hex
        """What the value of `CAPEVOLVE_HOST` begins with in every host."""
        self.facts: AdapterFacts | None = None
        self.fatal: BaseException | None = None
        """Why nothing more can run."""
        self.news = asyncio.Event()
        """Set whenever a waiter should look again."""
        self._setting = setting
        self._pace = pace
        self._answer = answer
        self._plan = plan_hosts(
            setting.slots,
            cpus=os.cpu_count() or 1,
            trials_per_host=setting.trials_per_host,
            batch_size=setting.batch_size,
        )
        self._started = 0
        self._failed_starts = 0
        self._pending: deque[Flight] = deque()
        self._suspects: deque[Flight] = deque()
        self._seats: list[Seat] = []
        self._limit: int | None = None
        self._closing = False
        self._jobs: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Starts watching the time limits."""
        self._spawn(self._tick())

    def add(self, flights: Sequence[Flight]) -> None:
        """Takes flights to run."""
        self._pending.extend(flights)
        self.fill()

    def call_up(self, trials: int = 1) -> None:
        """Starts hosts for so many trials, if there are none: as many as there will be in any case."""
        if not self._seats and self.fatal is None:
            width = 0
            for index in range(self._host_count()):
                if width < min(trials, self._setting.slots):
                    width += self._open_seat(index).width

    def call_size(self) -> int:
        """Returns how many trials a call of a batch hook may hold; 0 where none is used, or not known yet."""
        batches = self.facts is not None and self.facts.hook and self._setting.batch_size
        return min(self._plan.batch) if batches else 0

    def free_calls(self) -> int:
        """Returns how many calls would start at once if they came now."""
        busy = sum(bool(seat.flights) and not seat.alone for seat in self._seats)
        return max(0, self._host_count() - busy - count_calls(self._pending))

    def busy(self) -> bool:
        """True while a trial runs."""
        return any(seat.running for seat in self._seats)

    async def close(self) -> None:
        """Lets idle hosts leave `live`, kills busy ones, and waits for their end as long as grace allows."""
        self._closing = True
        for seat in self._seats:
            if seat.ready and not seat.running and not seat.draining:
                seat.close()
            else:
                seat.end()
        if self._seats:
            waits = [asyncio.ensure_future(seat.process.wait_gone()) for seat in self._seats]
            try:
                await asyncio.wait(waits, timeout=max(self._setting.limits.grace_s, 1.0))
            finally:
                for wait in waits:
                    wait.cancel()

    def destroy(self) -> None:
        """Kills whatever is left, without waiting for the event loop."""
        self._closing = True
        for job in self._jobs:
            job.cancel()
        for seat in self._seats:
            seat.process.destroy()

    def learn(self, facts: AdapterFacts) -> None:
        """A host has loaded the adapter."""
        if self.facts is None:
            self.facts = facts
            for seat in self._seats:
                if seat.index >= self._host_count():
                    seat.end()  # a batch hook takes fewer
        elif facts.digest != self.facts.digest:
            self.fail(
                AdapterError(
                    "the adapter's files changed while the evaluation ran",
                    where=self._setting.adapter.target,
                    fix="run again, and leave the adapter alone meanwhile",
                )
            )
        self.news.set()

    def finish(self, flight: Flight, reply: TrialReply) -> None:
        """A request is answered."""
        self._failed_starts = 0
        self._pace.record(reply.duration_s)
        self._answer(reply if flight.starts == 1 else replace(reply, starts=flight.starts))
        self.news.set()

    def take_back(self, flights: Sequence[Flight]) -> None:
        """These requests have to run elsewhere, before any that came later."""
        for flight in flights:
            flight.started_at = None
        self._pending.extendleft(reversed(flights))

    def suspect(self, flights: Sequence[Flight]) -> None:
        """One of these took its host along: each runs again, alone."""
        for flight in flights:
            flight.started_at = None
        self._suspects.extend(flights)

    def fail(self, error: BaseException) -> None:
        """Nothing more can run; what runs may finish."""
        if self.fatal is None:
            self.fatal = error
        for seat in self._seats:
            seat.recall()
        self.news.set()

    def leave(self, seat: Seat, code: int, *, expected: bool) -> None:
        """A host is dead."""
        self._seats.remove(seat)
        self.news.set()
        if expected:
            return
        self._failed_starts += 1
        if self._failed_starts >= _FAILED_STARTS:
            words = f"{_FAILED_STARTS} hosts ended before they ran a trial; the last {describe_end(code)}:\n"
            words += seat.process.tail.strip()[-2000:]
            place, fix = self._setting.adapter.target, "see what it printed; run it by hand in the project"
            starved = explain_start(words, self._setting.limits.memory_mb)
            self.fail(starved or OutsideError(words, where=place, fix=fix))

    def throttle(self, limit: int | None) -> None:
        """See `HostPool.throttle`."""
        self._limit = limit
        if limit is not None:
            for seat in self._seats:
                seat.recall()
        self.fill()

    def ready(self, wanted: int) -> int:
        """See `HostPool.ready`."""
        if self.fatal is not None:
            return wanted  # whoever submits one is told why it cannot run
        seats = [seat for seat in self._seats if seat.ready and not seat.draining and not seat.alone]
        if self.call_size():
            places = sum(not seat.flights for seat in seats) - count_calls(self._pending)
        else:
            places = sum(max(0, seat.width - len(seat.flights)) for seat in seats) - len(self._pending)
        if places < wanted:
            self._hire(wanted)
        return max(0, min(places, wanted))

    def fill(self) -> None:
        """Deals requests to hosts, and starts hosts where there is work for them."""
        if self.fatal is not None or self._closing or self._limit == 0:
            return
        if self._suspects:
            self._serve_suspects()
        if self.call_size():
            deal_calls(self._seats, self._pending)
        elif self._pending:
            self._deal(0)
            if self._pending and self._pace.ahead and self._limit is None:
                self._deal(self._pace.ahead)
        if self._pending:
            self._hire()

    def _deal(self, ahead: int) -> None:
        """Gives each host what it can run at once, and `ahead` times as much to wait if it is brisk."""
        regular = [seat for seat in self._seats if not seat.alone]
        if any(seat.draining for seat in regular):
            ahead = 0
        slots = self._setting.slots * (1 + ahead)
        most = slots if self._limit is None else min(slots, self._limit)
        budget = most - sum(len(seat.flights) for seat in self._seats)
        able = [seat for seat in regular if seat.ready and not seat.draining and not (ahead and seat.quiet())]
        while able and self._pending and budget > 0:
            share = -(-min(len(self._pending), budget) // len(able))
            still_able = []
            for seat in able:
                room = seat.width * (1 + ahead) - len(seat.flights)
                count = min(room, share, budget, len(self._pending))
                if count > 0:
                    seat.give([self._pending.popleft() for _ in range(count)])
                    budget -= count
                if room > count:
                    still_able.append(seat)
            able = still_able

    def _hire(self, more: int = 0) -> None:
        seats = [seat for seat in self._seats if not seat.alone and not seat.draining]
        given = sum(len(seat.flights) for seat in seats)
        wanted = min(self._setting.slots, len(self._pending) + given + more)
        width = sum(seat.width for seat in seats)
        batches = self.call_size() > 0
        if batches:  # a host runs one call at a time
            wanted, width = count_calls(self._pending), sum(not seat.flights for seat in seats)
        taken = {seat.index for seat in seats}
        for index in range(self._host_count()):
            if width >= wanted:
                break
            if index not in taken:
                seat = self._open_seat(index)
                width += 1 if batches else seat.width

    def _host_count(self) -> int:
        plan = self._plan
        if self.facts is None:
            return plan.least_hosts()
        return len(plan.batch if self.call_size() else plan.on_loop if self.facts.is_async else plan.plain)

    def _serve_suspects(self) -> None:
        for seat in self._seats:
            if seat.alone:
                if seat.ready and not seat.draining and not seat.flights:
                    seat.give([self._suspects.popleft()])
                    seat.draining = True
                return
        self._open_seat(0, alone=True)

    def _open_seat(self, index: int, *, alone: bool = False) -> Seat:
        setting = self._setting
        plain, on_loop, batch = (1, 1, 1) if alone else self._plan.at(index)
        widths = (plain, on_loop, batch if setting.batch_size else 0)
        self._started += 1
        marker = f"{self.marker}.{self._started}."
        seat = Seat(self, index, widths, setting.limits, alone=alone)
        seat.process = HostProcess(marker, setting.adapter.root, setting.env, setting.python, seat)
        self._seats.append(seat)
        self._spawn(self._start(seat, widths))
        return seat

    async def _start(self, seat: Seat, widths: tuple[int, int, int]) -> None:
        setting = self._setting
        try:
            await seat.process.start(make_order(setting, widths))
        except OSError as error:
            self._seats.remove(seat)
            self.fail(OutsideError(f"no process can be started: {error}", where=self._setting.python))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            for seat in list(self._seats):
                seat.check()
            self.fill()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._end_job)

    def _end_job(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            self.fatal = self.fatal or error
            self.news.set()
