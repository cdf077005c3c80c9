"""The verdict rules, one small frozen object per gate mode.

A tie is not a gain: a value that equals its bar within `stats.TOLERANCE` does not exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

from capevolve.gate.evidence import Evidence
from capevolve.gate.settings import GateSettings, Mode
from capevolve.gate.verdicts import count_tasks, describe
from capevolve.model import Decision, Verdict
from capevolve.stats import (
    TOLERANCE,
    Comparison,
    exceeds,
    normal_cdf,
    sign_flip,
    t_cdf,
    t_quantile,
)


class Rule(Protocol):
    """A rule turns usable evidence into a verdict."""

    summary: ClassVar[str]
    """One line for the documentation."""

    def decide(self, evidence: Evidence, settings: GateSettings) -> Verdict:
        """Returns the verdict on evidence with at least two pairs."""
        ...

    def find_noop_bar(self, settings: GateSettings) -> float | None:
        """Returns the bar in standard errors that an edit without effect must beat; None when unknown."""
        ...


@dataclass(frozen=True, slots=True)
class PairedRule:
    """Accepts when the mean paired delta exceeds k_se of its standard errors."""

    summary: ClassVar[str] = "the mean paired delta exceeds k_se standard errors of the paired deltas"

    def decide(self, evidence: Evidence, settings: GateSettings) -> Verdict:
        """Returns the verdict; where the standard error is 0 the exact sign-flip test decides."""
        found = evidence.comparison
        change = _Change("mean paired delta", found.mean, found.se, found.df, found.p_t, found.magnitude)
        return _decide_by_error("paired", change, found, settings)

    def find_noop_bar(self, settings: GateSettings) -> float | None:
        """Returns k_se."""
        return settings.k_se


@dataclass(frozen=True, slots=True)
class SignificantRule:
    """Accepts when the difference of the two means exceeds k_se of its unpaired standard errors."""

    summary: ClassVar[str] = "the difference of means exceeds k_se * sqrt(SE_candidate^2 + SE_incumbent^2)"

    def decide(self, evidence: Evidence, settings: GateSettings) -> Verdict:
        """Returns the verdict; where the standard error is 0 the exact sign-flip test decides."""
        return _decide_by_error("significant", _find_difference(evidence), evidence.comparison, settings)

    def find_noop_bar(self, settings: GateSettings) -> float | None:
        """Returns k_se; on equal tasks this overstates the chance, since pairing takes noise away."""
        return settings.k_se


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """Accepts when the mean paired delta exceeds a fixed margin, whatever the noise."""

    summary: ClassVar[str] = "the mean paired delta exceeds the margin `threshold`, whatever the noise"

    def decide(self, evidence: Evidence, settings: GateSettings) -> Verdict:
        """Returns the verdict."""
        return _decide_by_margin("threshold", evidence.comparison, settings.threshold)

    def find_noop_bar(self, settings: GateSettings) -> float | None:
        """Returns None for a positive margin: what it is worth depends on the noise."""
        return None if settings.threshold > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class StrictRule:
    """Accepts any gain."""

    summary: ClassVar[str] = "any gain: the mean paired delta is above 0, whatever the noise"

    def decide(self, evidence: Evidence, settings: GateSettings) -> Verdict:
        """Returns the verdict."""
        return _decide_by_margin("strict", evidence.comparison, 0.0)

    def find_noop_bar(self, settings: GateSettings) -> float | None:
        """Returns 0."""
        return 0.0


MODES: Mapping[Mode, Rule] = MappingProxyType(
    {
        "paired": PairedRule(),
        "significant": SignificantRule(),
        "threshold": ThresholdRule(),
        "strict": StrictRule(),
    }
)
"""The rule of every gate mode, in the order documentation lists them."""


@dataclass(frozen=True, slots=True)
class _Change:
    """An improvement with its error; `magnitude` is what rounding of both is relative to."""

    words: str
    value: float | None
    se: float | None
    df: float | None
    p_value: float | None
    magnitude: float


def _find_difference(evidence: Evidence) -> _Change:
    mine, theirs = evidence.candidate, evidence.incumbent
    words = "difference of means"
    if mine.mean is None or theirs.mean is None:
        return _Change(words, None, None, None, None, 0.0)
    magnitude = abs(mine.mean) + abs(theirs.mean)
    value = mine.mean - theirs.mean
    if abs(value) <= TOLERANCE * magnitude:
        value = 0.0
    if mine.se is None or theirs.se is None or not mine.df or not theirs.df:
        return _Change(words, value, None, None, None, magnitude)
    left, right = mine.se**2, theirs.se**2
    se = math.sqrt(left + right)
    if se <= TOLERANCE * magnitude:
        return _Change(words, value, 0.0, None, None, magnitude)
    # Welch (1947): the degrees of freedom of a sum of two estimated variances.
    df = (left + right) ** 2 / (left**2 / mine.df + right**2 / theirs.df)
    return _Change(words, value, se, df, t_cdf(-value / se, df), magnitude)


def _decide_by_error(rule: Mode, change: _Change, found: Comparison, settings: GateSettings) -> Verdict:
    if change.value is None or change.se is None:
        reason = f"all {count_tasks(found)} lie in one cluster, so the error of {change.words} is undefined"
        return _give(Decision.INDECISIVE, "clusters", reason, found, change)
    if change.se == 0.0:
        return _decide_by_sign_flip(rule, change, found, settings)
    factor = _find_factor(change.df, settings)
    bar = factor * change.se
    won = exceeds(change.value, bar, change.magnitude + bar)
    tied = not won and not exceeds(bar, change.value, change.magnitude + bar)
    carried = "" if factor == settings.k_se else f" (k_se {settings.k_se:g} carried over to Student's t)"
    reason = (
        f"{change.words} {change.value:+.3f} {_compare_words(won, tied)} {factor:.2f} x SE {change.se:.3f}"
        f"{carried} over {describe(found)}"
    )
    return _give(_choose(won), rule, reason, found, change, bar)


def _find_factor(df: float | None, settings: GateSettings) -> float:
    """Returns the multiple of SE to exceed: the t quantile at the level of k_se, never below k_se."""
    if settings.multiplier == "normal" or df is None:
        return settings.k_se
    return max(settings.k_se, -t_quantile(find_level(settings), df))


def find_level(settings: GateSettings) -> float:
    """Returns the one-sided level that k_se stands for: 1 - Phi(k_se)."""
    return normal_cdf(-settings.k_se)


def _decide_by_sign_flip(rule: Mode, change: _Change, found: Comparison, settings: GateSettings) -> Verdict:
    """Decides where SE is 0: without noise to compare with, only the number of units that agree counts."""
    test = sign_flip(found.unit_deltas)
    p, level = 1.0 if test is None else test.value, find_level(settings)
    small = not exceeds(p, level, level)
    value = change.value or 0.0
    won = small and exceeds(value, 0.0, change.magnitude)
    reason = (
        f"{change.words} {value:+.3f} has SE 0, so the exact sign-flip test decided instead of mode {rule}: "
        f"p {p:.3f} is {'within' if small else 'above'} {level:.3f} over {describe(found)}"
    )
    decided = _Change(change.words, change.value, change.se, change.df, p, change.magnitude)
    return _give(_choose(won), "sign_flip", reason, found, decided)


def _decide_by_margin(rule: Mode, found: Comparison, margin: float) -> Verdict:
    change = _Change("mean paired delta", found.mean, found.se, found.df, found.p_t, found.magnitude)
    value = found.mean or 0.0
    won = exceeds(value, margin, change.magnitude + margin)
    tied = not won and not exceeds(margin, value, change.magnitude + margin)
    aside = "SE is 0; " if found.se == 0.0 else ""
    reason = (
        f"{change.words} {value:+.3f} {_compare_words(won, tied)} {margin:.3f} over {describe(found)}; "
        f"{aside}mode {rule} asks for no error"
    )
    return _give(_choose(won), rule, reason, found, change, margin)


def _choose(won: bool) -> Decision:
    return Decision.ACCEPT if won else Decision.REJECT


def _compare_words(won: bool, tied: bool) -> str:
    if won:
        return "exceeds"
    return "only equals" if tied else "does not exceed"


def _give(
    decision: Decision,
    rule: str,
    reason: str,
    found: Comparison,
    change: _Change,
    bar: float | None = None,
) -> Verdict:
    return Verdict(
        decision=decision,
        rule=rule,
        reason=reason,
        delta=change.value,
        se=change.se,
        bar=bar,
        p_value=change.p_value,
        n=found.n,
        improved=found.improved,
        worse=found.worse,
        same=found.same,
        dropped=found.dropped,
    )
