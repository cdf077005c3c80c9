"""What a run used lately of the limits per minute: they hold across its evaluations and its drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from capevolve.ledger import schema

_trials = schema.trials
_evaluations = schema.evaluations


@dataclass(frozen=True, slots=True)
class RecentUse:
    """What the run used of its limits before.

    Attributes:
        last_at: When a call was last claimed or answered, in seconds since the epoch; None is never.
        tokens: When trials ended, in order, with the tokens each used.
        mean_tokens: The mean of all trials that reported any; None when none did.
    """

    last_at: float | None = None
    tokens: Sequence[tuple[float, int]] = ()
    mean_tokens: float | None = None


UNUSED = RecentUse()


def read_recent_use(connection: Connection, run_id: str, since: float) -> RecentUse:
    """Reads what a run used; tokens since a time, the rest of all its trials."""
    joined = _trials.join(_evaluations, _trials.c.evaluation_id == _evaluations.c.id)
    mine = _evaluations.c.run_id == run_id
    claimed, finished, mean = connection.execute(
        select(func.max(_trials.c.claimed_at), func.max(_trials.c.finished_at), func.avg(_trials.c.tokens))
        .select_from(joined)
        .where(mine)
    ).one()
    rows = connection.execute(
        select(_trials.c.finished_at, _trials.c.tokens)
        .select_from(joined)
        .where(mine, _trials.c.finished_at >= since, _trials.c.tokens.is_not(None))
        .order_by(_trials.c.finished_at)
    )
    times = [at for at in (claimed, finished) if at is not None]
    return RecentUse(
        max(times, default=None),
        tuple((float(at), int(tokens)) for at, tokens in rows),
        None if mean is None else float(mean),
    )
