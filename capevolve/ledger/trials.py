"""Trials: claimed before the target is called, filled once, never overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, insert, select, update

from capevolve.errors import LedgerError
from capevolve.ledger import schema
from capevolve.ledger.bulk import paused_collector
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


def claim_trials(connection: Connection, fence: Fence, claims: Sequence[Claim], now: float) -> None:
    """Claims trials, new ones and interrupted ones. The caller has checked the fence in this transaction."""
    owner = {"epoch": fence.driver.epoch, "session": fence.session}
    new = [c for c in claims if c.fresh]
    again = [c for c in claims if not c.fresh]
    if new:
        connection.execute(
            insert(_trials),
            [
                {
                    "evaluation_id": fence.evaluation_id,
                    "task_id": c.task_id,
                    "trial": c.trial,
                    "seed": c.seed,
                    "state": "claimed",
                    "calls": 1,
                    "interrupted": 0,
                    "claimed_at": now,
                    **owner,
                }
                for c in new
            ],
        )
    if again:
        connection.execute(
            _open_trial(fence).values(
                calls=bindparam("b_calls"), interrupted=bindparam("b_interrupted"), claimed_at=now, **owner
            ),
            [
                {
                    "b_task": c.task_id,
                    "b_trial": c.trial,
                    "b_calls": c.calls,
                    "b_interrupted": c.interrupted,
                }
                for c in again
            ],
        )


def _open_trial(fence: Fence) -> Any:
    return update(_trials).where(
        _trials.c.evaluation_id == fence.evaluation_id,
        _trials.c.task_id == bindparam("b_task"),
        _trials.c.trial == bindparam("b_trial"),
        _trials.c.state == "claimed",
    )


def record_results(connection: Connection, fence: Fence, results: Sequence[TrialResult], now: float) -> None:
    """Fills claimed trials in, with their rollouts. The caller has checked the fence in this transaction.

    Raises:
        LedgerError: A trial was not claimed by this session, or already has its result.
    """
    if not results:
        return
    done = connection.execute(
        _open_trial(fence)
        .where(_trials.c.epoch == fence.driver.epoch, _trials.c.session == fence.session)
        .values(
            state=bindparam("b_state"),
            reward=bindparam("b_reward"),
            reason=bindparam("b_reason"),
            detail=bindparam("b_detail"),
            calls=_trials.c.calls + bindparam("b_extra"),
            duration_s=bindparam("b_duration"),
            cost_usd=bindparam("b_cost"),
            tokens=bindparam("b_tokens"),
            finished_at=now,
        ),
        [_result_values(result) for result in results],
    )
    if done.rowcount not in (-1, len(results)):
        raise LedgerError(
            f"{len(results) - done.rowcount} of {len(results)} results had no open claim of this session.",
            where=f"evaluation {fence.evaluation_id}",
        )
    results = [result.pack() for result in results]
    blobs = [result.payload for result in results if isinstance(result.payload, StoredPayload)]
    insert_payloads(connection, blobs)
    connection.execute(insert(schema.rollouts), [_rollout_values(fence, result) for result in results])


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


def _result_values(result: TrialResult) -> dict[str, Any]:
    outcome = result.outcome
    scored = isinstance(outcome, Scored)
    return {
        "b_task": result.task_id,
        "b_trial": result.trial,
        "b_state": "scored" if scored else "unmeasured",
        "b_reward": outcome.reward if isinstance(outcome, Scored) else None,
        "b_reason": outcome.reason.value if isinstance(outcome, Unmeasured) else None,
        "b_detail": outcome.detail if isinstance(outcome, Unmeasured) else None,
        "b_extra": result.extra_calls,
        "b_duration": result.duration_s,
        "b_cost": result.cost_usd,
        "b_tokens": result.tokens,
    }


def read_trials(connection: Connection, evaluation_id: int) -> tuple[TrialRow, ...]:
    """The trials of an evaluation, claimed or finished, by task id and trial."""
    columns = _trials.c
    # Columns by place, all at once: an evaluation can have 100,000 trials.
    statement = (
        select(
            columns.task_id,
            columns.trial,
            columns.seed,
            columns.state,
            columns.reward,
            columns.reason,
            columns.detail,
            columns.epoch,
            columns.session,
            columns.calls,
            columns.interrupted,
            columns.duration_s,
            columns.cost_usd,
            columns.tokens,
        )
        .where(columns.evaluation_id == evaluation_id)
        .order_by(columns.task_id, columns.trial)
    )
    with paused_collector():
        return tuple(
            TrialRow(task_id, trial, seed, _outcome(state, reward, reason, detail), *rest)
            for task_id, trial, seed, state, reward, reason, detail, *rest in connection.execute(
                statement
            ).all()
        )


def count_finished(connection: Connection, evaluation_id: int) -> int:
    """The trials of an evaluation that have their result."""
    statement = select(func.count()).where(
        _trials.c.evaluation_id == evaluation_id, _trials.c.state != "claimed"
    )
    return int(connection.scalar(statement) or 0)


def _outcome(state: str, reward: float, reason: str, detail: str | None) -> Outcome | None:
    if state == "scored":
        return Scored(reward)
    if state == "unmeasured":
        return Unmeasured(Reason(reason), detail or "")
    return None


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
