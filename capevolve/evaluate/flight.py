"""What an executor holds: the arms, how it behaves, and each claimed trial on its way to its result."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeVar

from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import TrialReply
from capevolve.canonical import canonical_json
from capevolve.ledger.evaluations import Fence
from capevolve.ledger.trials import Claim, TrialResult
from capevolve.model import Outcome, Unmeasured

MAX_TOKENS = 2**63 - 1
"""A larger count is a mistake that no database holds; it is treated as not reported."""

_Number = TypeVar("_Number", int, float)


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


@dataclass(frozen=True, slots=True)
class Execution:
    """How an execution behaves.

    Attributes:
        concurrency: Trials in flight at once, over all arms.
        prefetch: Whether hosts may hold a few claimed trials ahead when trials are short.
        retries: Further calls after an infrastructure failure.
        retry_wait_s: First wait before a retry; it doubles, with jitter.
        rate_limit_retries: Further calls after rate-limit answers, counted apart.
        timeout_is: Whose failure a timeout is.
    """

    concurrency: int
    prefetch: bool
    retries: int
    retry_wait_s: float
    rate_limit_retries: int = 20
    timeout_is: Literal["agent", "infra"] = "infra"


@dataclass(slots=True)
class Flight:
    """A claimed trial on its way.

    Attributes:
        arm: The number of its arm.
        tries: Calls of this session so far; `refused` of them were rate limited.
        reserved: What admission took for the last call.
        cost_usd, tokens: What the calls reported, in sum; None when none did.
        call: The call of a batch hook that it is part of.
    """

    arm: int
    claim: Claim
    tries: int = 1
    refused: int = 0
    reserved: float = 0.0
    cost_usd: float | None = None
    tokens: int | None = None
    call: int = 0

    def charge(self, reply: TrialReply) -> None:
        """Adds what a reply says of its cost."""
        self.tries += reply.starts - 1
        self.cost_usd = _add(self.cost_usd, reply.cost_usd)
        self.tokens = _add(self.tokens, reply.tokens)

    def conclude(self, reply: TrialReply) -> TrialResult:
        """Returns the trial's result after its last reply."""
        return TrialResult(
            task_id=self.claim.task_id,
            trial=self.claim.trial,
            outcome=self._name(reply.outcome),
            extra_calls=self.tries - 1,
            duration_s=reply.duration_s,
            cost_usd=self.cost_usd,
            tokens=None if (self.tokens or 0) > MAX_TOKENS else self.tokens,
            feedback=reply.feedback,
            metrics=_metrics(reply),
            payload=reply.payload,
        )

    def _name(self, outcome: Outcome) -> Outcome:
        if not self.refused or not isinstance(outcome, Unmeasured):
            return outcome
        return Unmeasured(outcome.reason, f"{outcome.detail} (calls that were rate limited: {self.refused})")


def _add(total: _Number | None, part: _Number | None) -> _Number | None:
    if total is None or part is None:
        return part if total is None else total
    return total + part


def _metrics(reply: TrialReply) -> str:
    return canonical_json([asdict(metric) for metric in reply.metrics]) if reply.metrics else "[]"
