"""Runs the trials of one or two evaluations: one queue, one ledger commit for many results and claims.

The loop is: take what hosts answered, commit it together with the next claims in one transaction, hand the
claimed trials to the hosts. So a claim is durable before its target is called, a result is durable before
anything builds on it, and a fast target costs one commit per batch instead of two per trial. While calls are
rationed (`admission`), a claim is taken only when its call may begin.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from capevolve.adapters.records import TrialReply, TrialRequest
from capevolve.budget import Allowance
from capevolve.evaluate.admission import Admission
from capevolve.evaluate.backoff import wait_before_retry as _retry_wait
from capevolve.evaluate.blame import blame_timeout
from capevolve.evaluate.course import record_changes
from capevolve.evaluate.flight import Arm, Execution, Flight
from capevolve.evaluate.progress import Progress
from capevolve.failpoints import failpoint
from capevolve.ledger.evaluations import check_fence
from capevolve.ledger.store import Ledger
from capevolve.ledger.trials import TrialResult, claim_trials, record_results
from capevolve.model import Reason, Scored, Unmeasured

RETRIED = frozenset({Reason.INFRA, Reason.CRASH})
"""Failures that a second call may mend. A timeout is not one: it would cost the limit again."""

STARTING_S = 0.05
"""How often hosts that start are looked at while calls are rationed, in seconds."""

_UNKNOWN = -1


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
    admission: Admission
    _flights: dict[int, Flight] = field(default_factory=dict)
    _retries: list[tuple[float, int]] = field(default_factory=list)
    _results: list[tuple[int, TrialResult]] = field(default_factory=list)
    _next_key: int = 0
    _paced: bool = False
    _steered: int | None = None

    async def run(self) -> None:
        """Runs every trial of every arm that the allowance admits."""
        waits: dict[int, asyncio.Future[list[TrialReply]]] = {}
        try:
            while True:
                self._paced = self.admission.active(self.clock())
                claims = self._take_claims()
                await self._commit(claims)
                self._submit(claims)
                self._steer()
                if self._is_over(waits):
                    break
                await self._wait(waits)
            await self.admission.close()
            await self._commit(())
        except BaseException:
            await self._commit(())  # what was answered before the error was paid for
            raise
        finally:
            await self.admission.close()
            for wait in waits.values():
                wait.cancel()
            await asyncio.gather(*waits.values(), return_exceptions=True)

    def _is_over(self, waits: dict[int, asyncio.Future[list[TrialReply]]]) -> bool:
        """True when nothing is under way and nothing will be; what is left waiting stays claimed."""
        if self._flights:
            late = self._paced and self.allowance.is_late() and self.admission.limit(self.clock()) == 0
            running = any(arm.pool.busy() for arm in self.arms) or any(w.done() for w in waits.values())
            return late and not running and not self.allowance.check()
        return not (self._paced and any(arm.todo for arm in self.arms) and self.allowance.check())

    def _take_claims(self) -> list[Flight]:
        """The next trials for the free places, from the arm that has the most left: arms take turns."""
        taken: list[Flight] = []
        free = [self._places(arm) for arm in self.arms]  # of trials, or of calls of a batch hook
        begun: list[int | None] = [None] * len(self.arms)
        for _ in range(self._room()):
            best = None
            for i, arm in enumerate(self.arms):
                call = _next_call(arm)
                goes_on = call is not None and call == begun[i]
                rank = (goes_on, len(arm.todo))
                if arm.todo and (free[i] > 0 or goes_on) and (best is None or rank > best[0]):
                    best = rank, i, call
            if best is None or not self.allowance.reserve():
                break
            (goes_on, _), index, call = best
            free[index] -= not goes_on
            begun[index] = call
            taken.append(Flight(index, self.arms[index].todo.popleft(), call=call or 0))
        if self._paced:
            for flight in taken:
                flight.reserved = self.admission.begin(self.clock())
        return taken

    def _room(self) -> int:
        if self._paced:
            return self.admission.count(self.clock(), self._calling(), self._wanted())
        if len(self.arms) == 1 and self.settings.prefetch:
            return self.arms[0].pool.free()
        return self.settings.concurrency - len(self._flights)

    def _places(self, arm: Arm) -> int:
        """How many trials of an arm may be submitted; rationed ones only where they begin at once."""
        if self.admission.prefetch:
            return arm.pool.free()
        return arm.pool.ready(max(1, min(self.settings.concurrency, len(arm.todo))))

    def _calling(self) -> int:
        return len(self._flights) - len(self._retries)

    def _wanted(self) -> int:
        """New calls that would begin if all were free to."""
        if self.allowance.exhausted is not None:
            return 0
        return min(self.settings.concurrency, sum(len(arm.todo) for arm in self.arms))

    async def _commit(self, claims: Sequence[Flight]) -> None:
        if not claims and not self._results and not self.admission.changed:
            return
        results, self._results = self._results, []
        failpoint("evaluate.before_commit")
        await asyncio.to_thread(self._write, claims, results, self.clock())
        failpoint("evaluate.after_commit")
        if results:
            self.on_progress(self.progress)

    def _write(
        self, claims: Sequence[Flight], results: Sequence[tuple[int, TrialResult]], now: float
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
            if self.admission.changed:
                fence = self.arms[0].fence
                check_fence(connection, fence)
                top, changes = self.settings.concurrency, self.admission.take_changes()
                record_changes(connection, fence.driver.run_id, fence.evaluation_id, top, changes)

    def _submit(self, flights: Sequence[Flight]) -> None:
        for index, arm in enumerate(self.arms):
            requests = []
            for flight in flights:
                if flight.arm == index:
                    requests.append(self._request(arm, flight))
            if requests:
                arm.asked += len(requests)
                arm.pool.submit(requests)

    def _request(self, arm: Arm, flight: Flight) -> TrialRequest:
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
        timeout = self._timeout()
        pending: list[asyncio.Future[Any]] = [*waits.values()]
        if self.admission.asking is not None:
            pending.append(self.admission.asking)
        if pending:
            await asyncio.wait(pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        elif timeout:
            await asyncio.sleep(timeout)
        for index in [index for index, wait in waits.items() if wait.done()]:
            for reply in waits.pop(index).result():
                self.arms[index].asked -= 1
                self._take_reply(reply)
        self._steer()
        self._resubmit_due()

    def _timeout(self) -> float | None:
        """Seconds until a call may begin because of the time alone; None where only an answer helps."""
        now = self.clock()
        due = self._retries[0][0] - now if self._retries else None
        if not self._paced:
            return None if due is None else max(0.0, due)
        waits = [due, self.admission.wait_s(now)]
        waiting = [arm for arm in self.arms if arm.todo] if self._wanted() else []
        if due is not None and due <= 0.0:
            waiting.append(self._next_arm())
        if waiting and self.admission.count(now, self._calling(), 1):
            if any(self._places(arm) for arm in waiting):
                return 0.0
            waits.append(STARTING_S)
        return min((wait for wait in waits if wait is not None and wait > 0.0), default=None)

    def _next_arm(self) -> Arm:
        """The arm of the trial that is to be tried again first."""
        return self.arms[self._flights[self._retries[0][1]].arm]

    def _steer(self) -> None:
        """Tells the hosts how many calls they may have under way."""
        limit = self.admission.limit(self.clock()) if self._paced else None
        if limit != self._steered:
            self._steered = limit
            for arm in self.arms:
                arm.pool.throttle(limit)

    def _take_reply(self, reply: TrialReply) -> None:
        flight = self._flights[reply.key]
        reply = blame_timeout(reply, self.settings.timeout_is)
        self.allowance.settle(reply.cost_usd, extra_calls=reply.starts - 1)
        flight.charge(reply)
        due = self._find_retry(flight, reply)
        if self._paced:
            self._settle(flight, reply)
        if due is not None and self.allowance.reserve():
            flight.tries += 1
            heapq.heappush(self._retries, (due, reply.key))
            return
        del self._flights[reply.key]
        self._results.append((flight.arm, flight.conclude(reply)))
        self.progress = self.progress.count(reply.outcome, flight.cost_usd)

    def _find_retry(self, flight: Flight, reply: TrialReply) -> float | None:
        """When the trial is to be tried again; None when it is not."""
        if reply.refusal is not None and reply.rate_limited:
            return self._find_turn(flight, reply)
        outcome = reply.outcome
        if not isinstance(outcome, Unmeasured) or outcome.reason not in RETRIED or not reply.retryable:
            return None
        failures = flight.tries - flight.refused
        if failures > self.settings.retries:
            return None
        return self.clock() + _retry_wait(self.settings.retry_wait_s, failures)

    def _find_turn(self, flight: Flight, reply: TrialReply) -> float | None:
        """The same after a rate-limit answer, which holds everything else up too."""
        now = self.clock()
        self._paced, self._steered = True, _UNKNOWN
        flight.refused += 1
        held_until = self.admission.refuse(now, now - reply.duration_s, reply.retry_after_s)
        if flight.refused > self.settings.rate_limit_retries:
            return None
        wait = max(reply.retry_after_s or 0.0, _retry_wait(self.settings.retry_wait_s, flight.refused))
        return max(held_until, now + wait)

    def _settle(self, flight: Flight, reply: TrialReply) -> None:
        now, calls = self.clock(), reply.starts - 1
        self.admission.settle(
            now, flight.reserved, reply.tokens, extra_calls=calls, refused=reply.rate_limited
        )
        flight.reserved = 0.0
        if isinstance(reply.outcome, Scored):
            self.admission.succeed(now, now - reply.duration_s)

    def _resubmit_due(self) -> None:
        due = sum(at <= self.clock() for at, _ in self._retries) if self._retries else 0
        if self._paced and due:
            due = self.admission.count(self.clock(), self._calling(), due)
        for _ in range(due):
            if self._paced and not self._places(self._next_arm()):
                return
            _, key = heapq.heappop(self._retries)
            flight = self._flights.pop(key)
            flight.call = -1 - key  # tried again alone: a call that failed may have had one culprit
            if self._paced:
                flight.reserved = self.admission.begin(self.clock())
            self._submit([flight])


def _next_call(arm: Arm) -> int | None:
    return arm.calls.get((arm.todo[0].task_id, arm.todo[0].trial)) if arm.calls and arm.todo else None
