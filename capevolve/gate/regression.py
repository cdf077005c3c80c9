"""The `no_regression` veto: an edit must not break what the incumbent passed reliably."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from capevolve.model import PASS_REWARD, Decision, Verdict
from capevolve.stats import Comparison, TaskPair, binomial_cdf

VETO_LEVEL = 0.05
"""The chance, over all tasks together, that a copy of the incumbent is vetoed is at most this."""


@dataclass(frozen=True, slots=True)
class Regression:
    """A task that broke: `p_value` is the most that noise alone can make of what was seen there."""

    task_id: str
    passed: int
    trials: int
    p_value: float


def find_regressions(found: Comparison) -> tuple[Regression, ...]:
    """Returns the tasks that the incumbent passed in all of two or more trials and the candidate broke.

    On such a task the null hypothesis is one pass rate q for both arms. Noise then makes the incumbent pass
    all k_i trials and the candidate at most x of k_c with chance q^k_i * P(Binomial(k_c, q) <= x), which is
    largest at some q; the task counts as broken when even that largest chance is at most VETO_LEVEL / n. Over
    n paired tasks a copy of the incumbent is therefore vetoed with chance at most VETO_LEVEL, whatever the
    tasks' rates. Few trials on many tasks cannot show a regression: 3 and 3 trials need n <= 3, 5 and 5 need
    n <= 51.
    """
    broken = []
    for pair in found.pairs:
        if len(pair.incumbent) < 2 or min(pair.incumbent) < PASS_REWARD:
            continue
        p = _find_largest_chance(pair)
        if p * found.n <= VETO_LEVEL:
            broken.append(Regression(pair.task_id, _count_passed(pair), len(pair.candidate), p))
    return tuple(broken)


def apply_veto(verdict: Verdict, regressions: tuple[Regression, ...]) -> Verdict:
    """Returns the verdict, turned into a rejection when it accepted and a task broke."""
    if verdict.decision is not Decision.ACCEPT or not regressions:
        return verdict
    first = regressions[0]
    more = f" and {len(regressions) - 1} more" if len(regressions) > 1 else ""
    reason = (
        f"task {first.task_id}{more}, which the incumbent passed in every trial, broke: "
        f"{first.passed} of {first.trials} trials pass (p {first.p_value:.2g}, beyond noise); "
        f"otherwise {verdict.reason}"
    )
    return replace(verdict, decision=Decision.REJECT, rule="no_regression", reason=reason)


def _count_passed(pair: TaskPair) -> int:
    return sum(reward >= PASS_REWARD for reward in pair.candidate)


def _find_largest_chance(pair: TaskPair) -> float:
    rates = np.linspace(0.0, 1.0, 2001)
    missed = binomial_cdf(_count_passed(pair), len(pair.candidate), rates)
    return float(np.max(rates ** len(pair.incumbent) * missed))
