"""Trials: claimed before the target is called, filled once, never overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, insert, select, update

from capevolve.errors import LedgerError
from capevolve.ledger import schema
from capevolve.ledger.bulk import BulkStatement, paused_collector
from capevolve.ledger.evaluations import Fence
from capevolve.ledger.payloads import INLINE_LENGTH, StoredPayload, insert_payloads, pack_payload
from capevolve.model import Outcome, Reason, Scored, Unmeasured

_trials = schema.trials
_evaluations = schema.evaluations


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A trial's row without its rollout. `outcome` is None while it is claimed."""

    task_id: str
    trial: int
    seed: int
    outcome: Outcome | None
    epoch: int
    session: int
    calls: int
    interrupted: int
    duration_s: float | None
    cost_usd: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A trial to claim.

    Attributes:
        fresh: True when the trial has no row yet.
        calls: Calls of the target for this trial, the coming one included.
        interrupted: Earlier claims of it that were lost with their driver.
    """

    task_id: str
    trial: int
    seed: int
    fresh: bool = True
    calls: int = 1
    interrupted: int = 0


@dataclass(frozen=True, slots=True)
class TrialResult:
    """A result to record, with what the rollout held as JSON text."""

    task_id: str
    trial: int
    outcome: Outcome
    extra_calls: int = 0
    duration_s: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    feedback: str = ""
    metrics: str = "[]"
    payload: str | StoredPayload = "{}"

    def pack(self) -> TrialResult:
        """The same with a long payload compressed; a short one is stored as it is."""
        if not isinstance(self.payload, str) or len(self.payload) <= INLINE_LENGTH:
            return self
        return replace(self, payload=pack_payload(self.payload))


_CLAIM = BulkStatement(
    insert(_trials),
    columns=(
        "evaluation_id", "task_id", "trial", "seed", "state", "epoch", "session", "calls", "interrupted",
        "claimed_at",
    ),
)  # fmt: skip

_OPEN = update(_trials).where(
    _trials.c.evaluation_id == bindparam("b_evaluation"),
    _trials.c.task_id == bindparam("b_task"),
    _trials.c.trial == bindparam("b_trial"),
    _trials.c.state == bindparam("b_claimed"),
)

_CLAIM_AGAIN = BulkStatement(
    _OPEN.values(
        calls=bindparam("b_calls"),
        interrupted=bindparam("b_interrupted"),
        claimed_at=bindparam("b_now"),
        epoch=bindparam("b_epoch"),
        session=bindparam("b_session"),
    )
)

_RECORD = BulkStatement(
    _OPEN.where(_trials.c.epoch == bindparam("b_epoch"), _trials.c.session == bindparam("b_session")).values(
        state=bindparam("b_state"),
        reward=bindparam("b_reward"),
        reason=bindparam("b_reason"),
        detail=bindparam("b_detail"),
        calls=_trials.c.calls + bindparam("b_extra"),
        duration_s=bindparam("b_duration"),
        cost_usd=bindparam("b_cost"),
        tokens=bindparam("b_tokens"),
        finished_at=bindparam("b_now"),
    )
)

_KEEP = BulkStatement(insert(schema.rollouts), columns=tuple(schema.rollouts.c.keys()))


def claim_trials(connection: Connection, fence: Fence, claims: Sequence[Claim], now: float) -> None:
    """Claims trials, new ones and interrupted ones. The caller has checked the fence in this transaction."""
    new = [
        {
            "evaluation_id": fence.evaluation_id,
            "task_id": c.task_id,
            "trial": c.trial,
            "seed": c.seed,
            "state": "claimed",
            "epoch": fence.driver.epoch,
            "session": fence.session,
            "calls": 1,
            "interrupted": 0,
            "claimed_at": now,
        }
        for c in claims
        if c.fresh
    ]
    if new:
        _CLAIM.execute(connection, new)
    again = [
        {
            **_bind(fence, c.task_id, c.trial, now),
            "b_calls": c.calls,
            "b_interrupted": c.interrupted,
        }
        for c in claims
        if not c.fresh
    ]
    if again:
        _CLAIM_AGAIN.execute(connection, again)


def _bind(fence: Fence, task_id: str, trial: int, now: float) -> dict[str, Any]:
    """An open trial of an evaluation, and who writes to it."""
    return {
        "b_evaluation": fence.evaluation_id,
        "b_task": task_id,
        "b_trial": trial,
        "b_claimed": "claimed",
        "b_epoch": fence.driver.epoch,
        "b_session": fence.session,
        "b_now": now,
    }


def record_results(connection: Connection, fence: Fence, results: Sequence[TrialResult], now: float) -> None:
    """Fills claimed trials in, with their rollouts. The caller has checked the fence in this transaction.

    Raises:
        LedgerError: A trial was not claimed by this session, or already has its result.
    """
    if not results:
        return
    done = _RECORD.execute(connection, [_result_values(fence, result, now) for result in results])
    if done != len(results):
        raise LedgerError(
            f"{len(results) - done} of {len(results)} results had no open claim of this session.",
            where=f"evaluation {fence.evaluation_id}",
        )
    results = [result.pack() for result in results]
    blobs = [result.payload for result in results if isinstance(result.payload, StoredPayload)]
    insert_payloads(connection, blobs)
    _KEEP.execute(connection, [_rollout_values(fence, result) for result in results])


def _rollout_values(fence: Fence, result: TrialResult) -> dict[str, Any]:
    payload = result.payload
    text, name = (payload, None) if isinstance(payload, str) else ("", payload.digest)
    return {
        "evaluation_id": fence.evaluation_id,
        "task_id": result.task_id,
        "trial": result.trial,
        "feedback": result.feedback,
        "metrics": result.metrics,
        "payload": text,
        "payload_digest": name,
    }


def _result_values(fence: Fence, result: TrialResult, now: float) -> dict[str, Any]:
    outcome = result.outcome
    scored = isinstance(outcome, Scored)
    return {
        **_bind(fence, result.task_id, result.trial, now),
        "b_state": "scored" if scored else "unmeasured",
        "b_reward": outcome.reward if isinstance(outcome, Scored) else None,
        "b_reason": outcome.reason.value if isinstance(outcome, Unmeasured) else None,
        "b_detail": outcome.detail if isinstance(outcome, Unmeasured) else None,
        "b_extra": result.extra_calls,
        "b_duration": result.duration_s,
        "b_cost": result.cost_usd,
        "b_tokens": result.tokens,
    }


_READ = select(
    _trials.c.task_id,
    _trials.c.trial,
    _trials.c.seed,
    _trials.c.state,
    _trials.c.reward,
    _trials.c.reason,
    _trials.c.detail,
    _trials.c.epoch,
    _trials.c.session,
    _trials.c.calls,
    _trials.c.interrupted,
    _trials.c.duration_s,
    _trials.c.cost_usd,
    _trials.c.tokens,
).order_by(_trials.c.task_id, _trials.c.trial)


def read_trials(connection: Connection, evaluation_id: int) -> tuple[TrialRow, ...]:
    """The trials of an evaluation, claimed or finished, by task id and trial."""
    with paused_collector():
        rows = connection.execute(_READ.where(_trials.c.evaluation_id == evaluation_id)).all()
        return tuple(
            TrialRow(task_id, trial, seed, _outcome(state, reward, reason, detail), *rest)
            for task_id, trial, seed, state, reward, reason, detail, *rest in rows
        )


def _outcome(state: str, reward: float, reason: str, detail: str | None) -> Outcome | None:
    if state == "scored":
        return Scored(reward)
    return Unmeasured(Reason(reason), detail or "") if state == "unmeasured" else None


def count_finished(connection: Connection, evaluation_id: int) -> int:
    """The trials of an evaluation that have their result."""
    statement = select(func.count()).where(
        _trials.c.evaluation_id == evaluation_id, _trials.c.state != "claimed"
    )
    return int(connection.scalar(statement) or 0)


@dataclass(frozen=True, slots=True)
class TargetSpend:
    """What the target has cost a run so far.

    Attributes:
        calls: Calls begun, retries and interrupted ones included.
        cost_usd: Sum of the reported costs.
        unpriced: Trials without a reported cost (those in flight included), and interrupted calls.
        dearest_usd: The highest reported cost of one trial; None when none was reported.
    """

    calls: int
    cost_usd: float
    unpriced: int
    tokens: int
    dearest_usd: float | None


def read_target_spend(connection: Connection, run_id: str) -> TargetSpend:
    """What the target has cost a run so far."""
    called = func.coalesce(_trials.c.reason, "") != Reason.INTERRUPTED.value  # by the last claim of the trial
    unpriced = case((_trials.c.cost_usd.is_(None) & called, 1), else_=0) + _trials.c.interrupted
    row = connection.execute(
        select(
            func.coalesce(func.sum(_trials.c.calls), 0),
            func.coalesce(func.sum(_trials.c.cost_usd), 0.0),
            func.coalesce(func.sum(unpriced), 0),
            func.coalesce(func.sum(_trials.c.tokens), 0),
            func.max(_trials.c.cost_usd),
        )
        .select_from(_trials.join(_evaluations, _trials.c.evaluation_id == _evaluations.c.id))
        .where(_evaluations.c.run_id == run_id)
    ).one()
    return TargetSpend(
        int(row[0]), float(row[1]), int(row[2]), int(row[3]), None if row[4] is None else float(row[4])
    )


def read_task_durations(connection: Connection, run_id: str) -> dict[str, float]:
    """The mean seconds a trial of each task took in this run, where known."""
    rows = connection.execute(
        select(_trials.c.task_id, func.avg(_trials.c.duration_s))
        .select_from(_trials.join(_evaluations, _trials.c.evaluation_id == _evaluations.c.id))
        .where(_evaluations.c.run_id == run_id, _trials.c.duration_s.is_not(None))
        .group_by(_trials.c.task_id)
    )
    return {task_id: float(mean) for task_id, mean in rows}
