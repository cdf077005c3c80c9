"""The reply of a trial that ended by itself, from what its adapter returned."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

from capevolve.adapters.memory import over_limit
from capevolve.adapters.payload import MAX_PAYLOAD, clean_words, render_payload
from capevolve.adapters.records import Metric, Refusal, TrialReply
from capevolve.model import Outcome, Reason, Unmeasured

WHILE_SCORING = ", in score()"
"""In the detail of a timeout: the target had returned, and the scorer ran."""


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What a trial may take and leave.

    Attributes:
        timeout_s: A trial that took longer is a timeout, whatever it returned.
        memory_mb: The limit under which the host runs, for the words of a trial that met it.
        max_payload: The longest payload, in characters.
    """

    timeout_s: float
    memory_mb: int | None = None
    max_payload: int = MAX_PAYLOAD


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a trial; `trace` is the traceback of an exception, `refusal` a provider's answer."""

    rollout: Any
    outcome: Outcome
    feedback: str = ""
    metrics: tuple[Metric, ...] = ()
    trace: str | None = None
    refusal: Refusal | None = None


def make_reply(key: int, verdict: Verdict, duration_s: float, limits: TrialLimits) -> TrialReply:
    """Returns the reply of a trial that ended by itself."""
    rollout, outcome = verdict.rollout, verdict.outcome
    if isinstance(outcome, Unmeasured):
        outcome = replace(outcome, detail=over_limit(outcome.detail, limits.memory_mb))
    return TrialReply(
        key=key,
        outcome=outcome,
        feedback=verdict.feedback,
        metrics=verdict.metrics,
        payload=_render(rollout, outcome, verdict.trace, limits.max_payload),
        cost_usd=_read_cost(_field(rollout, "cost_usd")),
        tokens=_read_tokens(_field(rollout, "tokens")),
        duration_s=duration_s,
        refusal=verdict.refusal,
    )


def time_out(limit_s: float, duration_s: float, *, scoring: bool = False) -> Unmeasured:
    """Returns the outcome of a trial that was over its limit, with `scoring` while its scorer ran."""
    words = f"over the limit of {limit_s:g} s (ended after {duration_s:.1f} s"
    return Unmeasured(Reason.TIMEOUT, f"{words}{WHILE_SCORING if scoring else ''})")


def as_number(value: Any) -> float | None:
    """Returns a real number as a float; None for anything else."""
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool_", "bool"):
        return float(value)
    if not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except Exception:  # noqa: BLE001  (a user's __float__ may raise anything)
        return None


def _field(rollout: Any, name: str) -> Any:
    try:
        return getattr(rollout, name, None)
    except Exception as error:  # noqa: BLE001  (a user's property may raise anything)
        return f"<{name} cannot be read: {type(error).__name__}>"


def _read_cost(value: Any) -> float | None:
    cost = as_number(value)
    return cost if cost is not None and math.isfinite(cost) and cost >= 0 else None


def _read_tokens(value: Any) -> int | None:
    tokens = as_number(value)
    if tokens is None or not math.isfinite(tokens) or tokens < 0 or tokens != int(tokens):
        return None
    return int(tokens)


def _render(rollout: Any, outcome: Outcome, trace: str | None, limit: int) -> str:
    fields = {name: _field(rollout, name) for name in ("output", "trace", "tool_calls", "error", "metadata")}
    if fields["tool_calls"] is None:
        fields["tool_calls"] = []
    if fields["metadata"] is None:
        fields["metadata"] = {}
    if fields["error"] is None and isinstance(outcome, Unmeasured):
        fields["error"] = outcome.detail
    if trace is not None:
        fields["traceback"] = trace
    try:
        return render_payload(fields, limit)
    except Exception as failure:  # noqa: BLE001  (a lost payload must not lose the reward)
        return render_payload(
            {"error": f"the payload cannot be shown: {type(failure).__name__}: {clean_words(failure)}"}
        )
