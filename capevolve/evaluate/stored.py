"""Which stored rollouts a scorer can be asked about again: pure functions of a trial's row and payload."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from capevolve.ledger.trials import TrialRow
from capevolve.model import SCORERS_FAULTS, Scored, Unmeasured

_FIELDS = ("output", "trace", "tool_calls", "metadata")


class Unfit(StrEnum):
    """Why a stored rollout cannot be scored again."""

    TRUNCATED = "truncated"
    NO_OUTPUT = "no_output"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent failed: the trial scored 0 without the scorer, and does so under any."""


Stored = dict[str, Any] | Unfit | Failed | None


def read_stored(row: TrialRow, payload: str) -> Stored:
    """What a trial left for a scorer.

    Returns:
        The fields of its rollout beside the task id; why they will not do; `Failed`; or None when the target
        left no rollout, by a fault of its infrastructure, so that there never was anything to score.
    """
    outcome = row.outcome
    if outcome is None or (isinstance(outcome, Unmeasured) and outcome.reason not in SCORERS_FAULTS):
        return None
    try:
        stored = json.loads(payload)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        return Unfit.UNREADABLE
    if isinstance(outcome, Scored) and "traceback" in stored:
        return Failed()  # nothing but an AgentFailure leaves a reward and a traceback
    if "output" not in stored:
        return Unfit.NO_OUTPUT
    fields = {name: stored.get(name) for name in _FIELDS}
    if any(_is_cut(value) for value in fields.values()):
        return Unfit.TRUNCATED
    once = row.calls - row.interrupted == 1  # else the sums of several calls are in the row
    return {
        "output": fields["output"],
        "trace": fields["trace"],
        "tool_calls": fields["tool_calls"] or [],
        "metadata": fields["metadata"] or {},
        # A scorer's fault is noted where the rollout's own error would be; there was none, or no scoring.
        "error": stored.get("error") if isinstance(outcome, Scored) else None,
        "cost_usd": row.cost_usd if once else None,
        "tokens": row.tokens if once else None,
    }


def _is_cut(value: Any) -> bool:
    """Whether a field is the mark that `adapters.payload` leaves of one that was too long."""
    return (
        isinstance(value, dict)
        and value.keys() == {"truncated", "length", "head"}
        and value["truncated"] is True
    )
