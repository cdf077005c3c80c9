"""A seat of the pool: one host, what it was given, and when it must be ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from capevolve.adapters.hostprocess import HostProcess, describe_end
from capevolve.adapters.memory import over_limit
from capevolve.adapters.payload import MAX_PAYLOAD, clean_words
from capevolve.adapters.processes import ask_for_stacks
from capevolve.adapters.records import AdapterFacts, TrialReply, TrialRequest
from capevolve.adapters.reply import time_out
from capevolve.adapters.wire import (
    Close,
    Failed,
    Loaded,
    Message,
    Progress,
    Ready,
    Recall,
    Returned,
    Run,
    Scoring,
    Stuck,
)
from capevolve.errors import AdapterError, CandidateError
from capevolve.model import Outcome, Reason, Unmeasured

QUIET_S = 0.1
"""A host that has said nothing for so long gets no more than it can run at once, in seconds."""

RECALL_S = 0.2
"""After so long without a word, what waits in a host is called back, in seconds."""

MARGIN_S = 1.0
"""How late a host may be with a timeout that it keeps itself before it counts as unresponsive, in seconds."""

_STACKS_S = 0.05
_DETAIL_TAIL = 400
_DUMP = "Fatal Python error: "
_PACKAGE = str(Path(__file__).resolve().parent)


@dataclass(slots=True, eq=False)
class Flight:
    """A request between `submit` and its reply."""

    request: TrialRequest
    started_at: float | None = None
    starts: int = 0
    scoring: bool = False


class Desk(Protocol):
    """What a seat tells the pool."""

    def learn(self, facts: AdapterFacts) -> None:
        """A host has loaded the adapter."""

    def finish(self, flight: Flight, reply: TrialReply) -> None:
        """A request is answered."""

    def take_back(self, flights: Sequence[Flight]) -> None:
        """These requests have to run elsewhere."""

    def suspect(self, flights: Sequence[Flight]) -> None:
        """One of these took its host along; nobody knows which."""

    def fail(self, error: AdapterError) -> None:
        """The adapter breaks its contract."""

    def leave(self, seat: Seat, code: int, *, expected: bool) -> None:
        """The host of a seat is dead; the seat is empty."""

    def fill(self) -> None:
        """Something changed: there may be work for somebody."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a pool, times in seconds.

    Attributes:
        timeout_s: Of a trial.
        grace_s: What it gets on top to end in good order.
        start_s: Of loading the adapter, reading its tasks and entering `live`.
        memory_mb: Of the address space of a host and each process it starts; None is no limit.
        max_payload: Of a reply's payload, in characters.
    """

    timeout_s: float
    grace_s: float
    start_s: float
    memory_mb: int | None = None
    max_payload: int = MAX_PAYLOAD


class Seat:
    """Keeps the books of one host and decides its end.

    Args:
        index: The seat's number; a new host takes the number of a dead one.
        widths: Trials at once if the adapter is plain, if it is async, if it has a batch hook (0: not used).
        limits: The pool's time limits.
        alone: True for a host that runs a single suspect.
    """

    def __init__(
        self, desk: Desk, index: int, widths: tuple[int, int, int], limits: Limits, *, alone: bool
    ) -> None:
        self.index = index
        self.alone = alone
        self.width = min(width for width in widths if width)
        """Trials at once; a lower bound until the adapter is loaded."""
        self.ready = False
        self.draining = False
        """Set when the host gets nothing more."""
        self.flights: dict[int, Flight] = {}
        """Given and not answered."""
        self.running: dict[int, Flight] = {}
        """Those of them that started, in order."""
        self.last_word = 0.0
        self.process: HostProcess
        self._desk = desk
        self._widths = widths
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._born = self._clock()
        self._keeps_limits = True
        self._recalled = False
        self._overdue: Flight | None = None
        self._expected = False
        self._late = False

    def give(self, flights: Sequence[Flight]) -> None:
        """Hands requests to the host."""
        for flight in flights:
            self.flights[flight.request.key] = flight
        self.process.send(Run(tuple(flight.request for flight in flights)))

    def quiet(self) -> bool:
        """True when the host has said nothing for a while although it has something to do."""
        return bool(self.running) and self._clock() - self.last_word > QUIET_S

    def recall(self) -> None:
        """Calls back what has not started."""
        if not self._recalled and len(self.flights) > len(self.running):
            self._recalled = True
            self.process.send(Recall())

    def close(self) -> None:
        """Asks an idle host to leave `live` and end."""
        self._expected = self.draining = True
        self.process.send(Close())

    def end(self) -> None:
        """Kills the host and all that it started."""
        self._expected = self.draining = True
        self.process.kill()

    def check(self) -> None:
        """Enforces the limits that the host cannot keep, and calls back what waits behind a slow trial."""
        if self._overdue is not None:
            return
        now = self._clock()
        if not self.ready:
            if now - self._born > self._limits.start_s and not self.draining:
                self.draining = self._late = True
                self._kill_soon()
            return
        limit = self._limits.timeout_s + self._limits.grace_s + (MARGIN_S if self._keeps_limits else 0.0)
        for flight in self.running.values():
            if flight.started_at is not None and now - flight.started_at > limit:
                self._overdue = flight
                self.draining = self._expected = True
                self._kill_soon()
                return
            break  # they are in order of their start
        if now - self.last_word > RECALL_S:
            self.recall()

    def hear(self, messages: Sequence[Message]) -> None:
        """Takes messages of the host."""
        self.last_word = self._clock()
        for message in messages:
            if isinstance(message, Progress):
                self._advance(message)
            else:
                self._take(message)
        if self.draining and self.ready and not self.running and not self.flights and not self._expected:
            self.end()
        self._desk.fill()

    def _take(self, message: Message) -> None:
        if isinstance(message, Loaded):
            is_async, batches = message.facts.is_async, bool(message.facts.hook and self._widths[2])
            self.width = self._widths[2 if batches else is_async]
            self._keeps_limits = not batches and (is_async or self.width > 1)
            self._desk.learn(message.facts)
        elif isinstance(message, Ready):
            self.ready = True
        elif isinstance(message, Returned):
            self._recalled = False
            back = [self.flights.pop(key) for key in message.keys if key in self.flights]
            ran = [flight for flight in back if self.running.pop(flight.request.key, None) is not None]
            self._desk.suspect(ran)
            self._desk.take_back([flight for flight in back if flight not in ran])
        elif isinstance(message, Scoring):
            if message.key in self.running:
                self.running[message.key].scoring = True
        elif isinstance(message, Stuck):
            self._finish([message.reply])
            self.draining = True
            self.recall()
        elif isinstance(message, Failed):
            self._expected = True
            kind = CandidateError if message.candidate else AdapterError
            self._desk.fail(kind(message.what, where=message.where, fix=message.fix))

    def see_end(self, code: int) -> None:
        """Takes the host's exit: answers for what ran, hands back what did not."""
        running = list(self.running.values())
        waiting = [flight for key, flight in self.flights.items() if key not in self.running]
        self.flights.clear()
        self.running.clear()
        (self._desk.suspect if self.alone else self._desk.take_back)(waiting)
        if self._late:
            self._desk.fail(self._describe_late_start())
        if self._overdue is not None and len(running) == 1:
            self._answer_overdue(running[0])
        elif running and self._overdue is None and (self.width == 1 or len(running) == 1):
            self._answer(running[0], Unmeasured(Reason.CRASH, self._describe_crash(code)))
        elif running:
            self._desk.suspect(running)
        self._desk.leave(self, code, expected=self._expected or bool(running))
        self._desk.fill()

    def _advance(self, message: Progress) -> None:
        self._finish(message.done)
        for key in message.started:
            flight = self.flights[key]
            flight.started_at = self.last_word
            flight.starts += 1
            flight.scoring = False
            self.running[key] = flight

    def _finish(self, replies: Iterable[TrialReply]) -> None:
        for reply in replies:
            flight = self.flights.pop(reply.key, None)
            self.running.pop(reply.key, None)
            if flight is not None:
                self._desk.finish(flight, reply)

    def _kill_soon(self) -> None:
        """Kills after a moment in which the stacks of the hung threads are written."""
        ask_for_stacks(self.process.pid)
        asyncio.get_running_loop().call_later(_STACKS_S, self.process.kill)

    def _answer_overdue(self, flight: Flight) -> None:
        if flight is self._overdue:
            limit = self._limits.timeout_s
            self._answer(flight, time_out(limit, self._age(flight), scoring=flight.scoring))
        else:  # the late one ended by itself at the last moment, and this one had just begun
            self._desk.take_back([flight])

    def _answer(self, flight: Flight, outcome: Outcome) -> None:
        detail = outcome.detail if isinstance(outcome, Unmeasured) else None
        payload = json.dumps(
            {"error": detail, "host_output": clean_words(self.process.tail)}, ensure_ascii=False
        )
        reply = TrialReply(flight.request.key, outcome, "", (), payload, None, None, self._age(flight))
        self._desk.finish(flight, reply)

    def _age(self, flight: Flight) -> float:
        return self._clock() - flight.started_at if flight.started_at is not None else 0.0

    def _describe_late_start(self) -> AdapterError:
        return AdapterError(
            f"the adapter was not ready within {self._limits.start_s:g} s; it was killed here:\n"
            f"{clean_words(self.process.tail).strip()[-2000:]}",
            where="import, tasks('all') or live(candidate_dir)",
            fix="make its start quicker",
        )

    def _describe_crash(self, code: int) -> str:
        words = last_words(self.process.tail)
        end = f"{describe_end(code)}: {words}" if words else describe_end(code)
        return over_limit(end, self._limits.memory_mb)


def last_words(tail: str) -> str:
    """Returns the end of what a host printed, with the place instead of the dump of a fatal signal."""
    printed, fatal, dump = tail.rpartition(_DUMP)
    if not fatal:
        printed = tail
    words = clean_words(printed).strip()[-_DETAIL_TAIL:]
    frames = [line.strip() for line in dump.splitlines() if line.startswith("  File ")] if fatal else []
    place = next((line for line in frames if _PACKAGE not in line), "")
    return "\n".join(filter(None, (words, place)))
