"""Whose failure a timeout is: the spec's choice, made where outcomes are recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

from capevolve.adapters.records import TrialReply
from capevolve.adapters.reply import WHILE_SCORING
from capevolve.model import TOO_SLOW, Reason, Scored, Unmeasured


def blame_timeout(reply: TrialReply, timeout_is: Literal["agent", "infra"]) -> TrialReply:
    """Returns the reply with a timeout scored 0 where the spec says that it is the agent's failure.

    A limit that was reached while the scorer ran says nothing about the agent: it stays missing data. Like
    that of an `AgentFailure`, the payload of such a 0 has a `traceback`: no scorer had a part in it.
    """
    outcome = reply.outcome
    if timeout_is == "infra" or not isinstance(outcome, Unmeasured) or outcome.reason is not Reason.TIMEOUT:
        return reply
    if WHILE_SCORING in outcome.detail:
        return reply
    feedback = TOO_SLOW + outcome.detail
    payload = json.dumps({"traceback": feedback, **json.loads(reply.payload)}, ensure_ascii=False)
    return replace(reply, outcome=Scored(0.0), feedback=feedback, payload=payload)
