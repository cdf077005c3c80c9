"""Verdicts made from what decided them."""

from __future__ import annotations

from dataclasses import replace

from capevolve.gate.evidence import Doubt
from capevolve.model import Decision, StageVerdict, Verdict
from capevolve.stats import Comparison


def abstain(doubt: Doubt, found: Comparison | None, stages: tuple[StageVerdict, ...] = ()) -> Verdict:
    """Returns an indecisive verdict; a val without variation has measured no difference, so none is shown."""
    shown = None if doubt.rule == "no_variation" else found
    verdict = conclude(Decision.INDECISIVE, doubt.rule, doubt.reason, found, None, stages)
    if shown is None:
        return replace(verdict, delta=None, se=None)
    return verdict


def conclude(
    decision: Decision,
    rule: str,
    reason: str,
    found: Comparison | None,
    p_value: float | None,
    stages: tuple[StageVerdict, ...],
) -> Verdict:
    """Returns a verdict without a bar to exceed; without a comparison nothing was measured."""
    return Verdict(
        decision=decision,
        rule=rule,
        reason=reason,
        delta=None if found is None else found.mean,
        se=None if found is None else found.se,
        bar=None,
        p_value=p_value,
        n=0 if found is None else found.n,
        improved=0 if found is None else found.improved,
        worse=0 if found is None else found.worse,
        same=0 if found is None else found.same,
        dropped=() if found is None else found.dropped,
        stages=stages,
    )


def count_tasks(found: Comparison) -> str:
    """Returns "1 task", "20 tasks"."""
    return f"{found.n} task{'' if found.n == 1 else 's'}"


def describe(found: Comparison) -> str:
    """Returns what a comparison rests on, in words."""
    clusters = f" in {found.units} clusters" if found.units < found.n else ""
    counts = f"{found.improved} better, {found.worse} worse, {found.same} same"
    return f"{count_tasks(found)}{clusters} ({counts})"
