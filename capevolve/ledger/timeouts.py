"""How many trials of a run scored 0 because the agent was over its limit."""

from __future__ import annotations

from sqlalchemy import Connection, and_, func, select

from capevolve.ledger import schema
from capevolve.model import TOO_SLOW


def count_too_slow(connection: Connection, run_id: str) -> int:
    """Returns the trials on train and val that are a timeout blamed on the agent; test stays sealed."""
    trials, rollouts, evaluations = schema.trials, schema.rollouts, schema.evaluations
    same_trial = and_(
        rollouts.c.evaluation_id == trials.c.evaluation_id,
        rollouts.c.task_id == trials.c.task_id,
        rollouts.c.trial == trials.c.trial,
    )
    count = connection.scalar(
        select(func.count())
        .select_from(
            trials.join(evaluations, trials.c.evaluation_id == evaluations.c.id).join(rollouts, same_trial)
        )
        .where(evaluations.c.run_id == run_id, evaluations.c.split != "test", trials.c.reward == 0.0)
        .where(rollouts.c.feedback.startswith(TOO_SLOW, autoescape=True))
    )
    return int(count or 0)
