"""Runs the trials of one or two evaluations: one queue, one ledger commit for many results and claims.

The loop is: take what hosts answered, commit it together with the next claims in one transaction, hand the
claimed trials to the hosts. So a claim is durable before its target is called, a result is durable before
anything builds on it, and a fast target costs one commit per batch instead of two per trial.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeVar

from tenacity import RetryCallState, Retrying, wait_exponential, wait_random

from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import TrialReply, TrialRequest
from capevolve.budget import Allowance
from capevolve.canonical import canonical_json
from capevolve.evaluate.blame import blame_timeout
from capevolve.evaluate.progress import Progress
from capevolve.failpoints import failpoint
from capevolve.ledger.evaluations import Fence, check_fence
from capevolve.ledger.store import Ledger
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Reason, Unmeasured

RETRIED = frozenset({Reason.INFRA, Reason.CRASH})
"""Failures that a second call may mend. A timeout is not one: it would cost the limit again."""

_Number = TypeVar("_Number", int, float)

MAX_TOKENS = 2**63 - 1
"""A larger count is a mistake that no database holds; it is treated as not reported."""


@dataclass(slots=True)
class Arm:
    """One evaluation in the queue, with the hosts that hold its candidate; `asked` trials are with them.

    `check_copy` raises when results may not be recorded, because the candidate was edited. `calls` holds the
    call of a batch hook for each trial, by task and number; it is empty without a hook.
    """

    fence: Fence
    pool: HostPool
    digests: dict[str, str]
    todo: deque[Claim]
    check_copy: Callable[[], None]
    asked: int = 0
    calls: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class _Flight:
    """A claimed trial on its way; `tries` are the calls of this session so far, with what they cost."""

    arm: int
    claim: Claim
    tries: int = 1
    cost_usd: float | None = None
    tokens: int | None = None
    call: int = 0


@dataclass(frozen=True, slots=True)
class Execution:
    """How an execution behaves.

    Attributes:
        concurrency: Trials in flight at once, over all arms.
        prefetch: Whether hosts may hold a few claimed trials ahead when trials are short.
        retries: Further calls after an infrastructure failure.
        retry_wait_s: First wait before a retry; it doubles, with jitter.
        timeout_is: Whose failure a timeout is.
    """

    concurrency: int
    prefetch: bool
    retries: int
    retry_wait_s: float
    timeout_is: Literal["agent", "infra"] = "infra"


@dataclass(slots=True)
class Executor:
    """Drives arms to their end. `run` returns when nothing is left or the allowance is used up."""

    ledger: Ledger
    arms: Sequence[Arm]
    settings: Execution
    allowance: Allowance
    clock: Callable[[], float]
    on_progress: Callable[[Progress], None]
    progress: Progress
    _flights: dict[int, _Flight] = field(default_factory=dict)
    _retries: list[tuple[float, int]] = field(default_factory=list)
    _results: list[tuple[int, TrialResult]] = field(default_factory=list)
    _next_key: int = 0

    async def run(self) -> None:
        """Runs every trial of every arm that the allowance admits."""
        waits: dict[int, asyncio.Future[list[TrialReply]]] = {}
        try:
            while True:
                claims = self._take_claims()
                await self._commit(claims)
                self._submit(claims)
                if not self._flights:
                    return
                await self._wait(waits)
        except BaseException:
            await self._commit(())  # what was answered before the error was paid for
            raise
        finally:
            for wait in waits.values():
                wait.cancel()
            await asyncio.gather(*waits.values(), return_exceptions=True)

    def _take_claims(self) -> list[_Flight]:
        """The next trials for the free places, from the arm that has the most left: arms take turns."""
        taken: list[_Flight] = []
        free = [arm.pool.free() for arm in self.arms]  # of trials, or of calls of a batch hook
        begun: list[int | None] = [None] * len(self.arms)
        for _ in range(self._room()):
            calls = [_next_call(arm) for arm in self.arms]
            goes_on = [call is not None and call == last for call, last in zip(calls, begun, strict=True)]
            ready = [i for i, arm in enumerate(self.arms) if arm.todo and (free[i] > 0 or goes_on[i])]
            if not ready or not self.allowance.reserve():
                break
            index = max(ready, key=lambda i: (goes_on[i], len(self.arms[i].todo)))
            free[index] -= not goes_on[index]
            begun[index] = calls[index]
            taken.append(_Flight(index, self.arms[index].todo.popleft(), call=calls[index] or 0))
        return taken

    def _room(self) -> int:
        if len(self.arms) == 1 and self.settings.prefetch:
            return self.arms[0].pool.free()
        return self.settings.concurrency - len(self._flights)

    async def _commit(self, claims: Sequence[_Flight]) -> None:
        if not claims and not self._results:
            return
        results, self._results = self._results, []
        failpoint("evaluate.before_commit")
        await asyncio.to_thread(self._write, claims, results, self.clock())
        failpoint("evaluate.after_commit")
        if results:
            self.on_progress(self.progress)

    def _write(
        self, claims: Sequence[_Flight], results: Sequence[tuple[int, TrialResult]], now: float
    ) -> None:
        results = [(owner, result.pack()) for owner, result in results]  # compresses: not under the lock
        with self.ledger.write() as connection:
            for index, arm in enumerate(self.arms):
                mine = [result for owner, result in results if owner == index]
                new = [flight.claim for flight in claims if flight.arm == index]
                if mine or new:
                    check_fence(connection, arm.fence)
                if mine:
                    arm.check_copy()
                    record_results(connection, arm.fence, mine, now)
                if new:
                    claim_trials(connection, arm.fence, new, now)

    def _submit(self, flights: Sequence[_Flight]) -> None:
        for index, arm in enumerate(self.arms):
            requests = []
            for flight in flights:
                if flight.arm == index:
                    requests.append(self._request(arm, flight))
            if requests:
                arm.asked += len(requests)
                arm.pool.submit(requests)

    def _request(self, arm: Arm, flight: _Flight) -> TrialRequest:
        key, self._next_key = self._next_key, self._next_key + 1
        self._flights[key] = flight
        claim = flight.claim
        return TrialRequest(
            key, claim.task_id, arm.digests[claim.task_id], claim.trial, claim.seed, flight.call
        )

    async def _wait(self, waits: dict[int, asyncio.Future[list[TrialReply]]]) -> None:
        """Waits for an answer or for a retry that is due."""
        for index, arm in enumerate(self.arms):
            if arm.asked and index not in waits:
                waits[index] = asyncio.ensure_future(arm.pool.replies())
        timeout = max(0.0, self._retries[0][0] - self.clock()) if self._retries else None
        if waits:
            await asyncio.wait(waits.values(), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        elif timeout:
            await asyncio.sleep(timeout)
        for index in [index for index, wait in waits.items() if wait.done()]:
            for reply in waits.pop(index).result():
                self.arms[index].asked -= 1
                self._take_reply(reply)
        self._resubmit_due()

    def _take_reply(self, reply: TrialReply) -> None:
        flight = self._flights[reply.key]
        reply = blame_timeout(reply, self.settings.timeout_is)
        outcome = reply.outcome
        retryable = isinstance(outcome, Unmeasured) and outcome.reason in RETRIED
        self.allowance.settle(reply.cost_usd, extra_calls=reply.starts - 1)
        flight.tries += reply.starts - 1
        flight.cost_usd = _add(flight.cost_usd, reply.cost_usd)
        flight.tokens = _add(flight.tokens, reply.tokens)
        if retryable and flight.tries <= self.settings.retries and self.allowance.reserve():
            flight.tries += 1
            wait = _retry_wait(self.settings.retry_wait_s, flight.tries - 1)
            heapq.heappush(self._retries, (self.clock() + wait, reply.key))
            return
        del self._flights[reply.key]
        self._results.append((flight.arm, _result(flight, reply)))
        self.progress = self.progress.count(outcome, flight.cost_usd)

    def _resubmit_due(self) -> None:
        while self._retries and self._retries[0][0] <= self.clock():
            _, key = heapq.heappop(self._retries)
            flight = self._flights.pop(key)
            flight.call = -1 - key  # tried again alone: a call that failed may have had one culprit
            self._submit([flight])


def _next_call(arm: Arm) -> int | None:
    return arm.calls.get((arm.todo[0].task_id, arm.todo[0].trial)) if arm.todo else None


def _add(total: _Number | None, part: _Number | None) -> _Number | None:
    if total is None or part is None:
        return part if total is None else total
    return total + part


def _retry_wait(first_s: float, attempt: int) -> float:
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    wait = wait_exponential(multiplier=first_s, max=60.0) + wait_random(0.0, first_s)
    return float(wait(state))


def _metrics(reply: TrialReply) -> str:
    return canonical_json([asdict(metric) for metric in reply.metrics]) if reply.metrics else "[]"


def _result(flight: _Flight, reply: TrialReply) -> TrialResult:
    return TrialResult(
        task_id=flight.claim.task_id,
        trial=flight.claim.trial,
        outcome=reply.outcome,
        extra_calls=flight.tries - 1,
        duration_s=reply.duration_s,
        cost_usd=flight.cost_usd,
        tokens=None if (flight.tokens or 0) > MAX_TOKENS else flight.tokens,
        feedback=reply.feedback,
        metrics=_metrics(reply),
        payload=reply.payload,
    )
