"""Rollouts scored again: rows of their own beside the trials, which stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from capevolve.ledger import schema
from capevolve.ledger.inserts import insert_missing

_table = schema.rescores


@dataclass(frozen=True, slots=True)
class RescoreRow:
    """What an adapter's scorer said of a stored rollout.

    Attributes:
        reward: In [0, 1]; None when there is none.
        reason: Why there is none; None with a reward.
        detail: Words about either.
    """

    task_id: str
    trial: int
    reward: float | None
    reason: str | None
    detail: str = ""
    feedback: str = ""
    metrics: str = "[]"


def insert_rescores(
    connection: Connection,
    evaluation_id: int,
    adapter_digest: str,
    asked: int,
    rows: Sequence[RescoreRow],
    now: float,
) -> None:
    """Adds what a scorer said. A row that another process has added meanwhile stays as it is.

    Args:
        asked: Which asking of this scorer it is, see `next_asking`.
    """
    shared = {"evaluation_id": evaluation_id, "adapter_digest": adapter_digest, "asked": asked, "at": now}
    insert_missing(
        connection,
        _table,
        [
            {
                **shared,
                "task_id": row.task_id,
                "trial": row.trial,
                "reward": row.reward,
                "reason": row.reason,
                "detail": row.detail,
                "feedback": row.feedback,
                "metrics": row.metrics,
            }
            for row in rows
        ],
    )


def next_asking(connection: Connection, evaluation_id: int, adapter_digest: str) -> int:
    """The number of the next asking of an adapter's scorer about an evaluation, from 1."""
    statement = select(func.max(_table.c.asked)).where(*_mine(evaluation_id, adapter_digest))
    return int(connection.scalar(statement) or 0) + 1


def read_rescores(
    connection: Connection, evaluation_id: int, adapter_digest: str
) -> dict[tuple[str, int], RescoreRow]:
    """What an adapter's scorer said last of each rollout of an evaluation, by task id and trial."""
    statement = select(_table).where(*_mine(evaluation_id, adapter_digest)).order_by(_table.c.asked)
    return {
        (row.task_id, row.trial): RescoreRow(
            row.task_id, row.trial, row.reward, row.reason, row.detail or "", row.feedback, row.metrics
        )
        for row in connection.execute(statement)
    }


def _mine(evaluation_id: int, adapter_digest: str) -> tuple[Any, Any]:
    return _table.c.evaluation_id == evaluation_id, _table.c.adapter_digest == adapter_digest
