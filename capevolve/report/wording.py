"""How texts and numbers are written, the same on every surface.

A number that is undefined is written in words: never as 0, a dash or an empty cell.
"""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime

from capevolve.model import Estimate
from capevolve.report.measured import EvaluationFacts, MeanFacts, RoleSpend
from capevolve.result import PermutationP
from capevolve.stats import Interval

UNDEFINED = "undefined"
NOT_MEASURED = "not measured"
NOT_REPORTED = "not reported"

_UNFIT = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def clean_line(text: str) -> str:
    """Returns a text as one line without control, bidirectional or other invisible characters.

    What proposers and adapters wrote could otherwise move a cursor, forge a line or reorder a sentence.
    """
    kept = "".join(" " if _is_unfit(char) else char for char in text)
    return " ".join(kept.split())


def _is_unfit(char: str) -> bool:
    return unicodedata.category(char) in _UNFIT or ord(char) & 0xFFFE == 0xFFFE  # the latter: noncharacters


def shorten(text: str, limit: int) -> str:
    """Returns at most `limit` characters, the last one an ellipsis when something was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def format_value(value: float | None) -> str:
    """Returns a reward with three decimals."""
    return NOT_MEASURED if value is None else _unsigned_zero(f"{value:.3f}")


def format_change(value: float | None) -> str:
    """Returns a difference of rewards with its sign and three decimals."""
    return UNDEFINED if value is None else _unsigned_zero(f"{value:+.3f}")


def _unsigned_zero(text: str) -> str:
    return "0.000" if text in ("-0.000", "+0.000") else text


def format_error(se: float | None) -> str:
    """Returns `± se`; a standard error of 0 is as undefined as a missing one."""
    if not se:
        return f"± {UNDEFINED}"
    return f"± {se:.3f}" if se >= 0.001 else f"± {se:.1g}"


def format_estimate(estimate: Estimate) -> str:
    """Returns a difference with its standard error."""
    if estimate.value is None:
        return UNDEFINED
    return f"{format_change(estimate.value)} {format_error(estimate.se)}"


def format_mean(score: MeanFacts) -> str:
    """Returns a mean reward with its standard error."""
    return NOT_MEASURED if score.mean is None else f"{format_value(score.mean)} {format_error(score.se)}"


def format_interval(interval: Interval | None, *, signed: bool = False) -> str:
    """Returns a 95 % interval as `low to high`."""
    if interval is None:
        return UNDEFINED
    show = format_change if signed else format_value
    return f"{show(interval.low)} to {show(interval.high)}"


def format_count(score: MeanFacts) -> str:
    """Returns the tasks measured, of those planned, with the coverage."""
    return f"{score.n_scored} of {score.n_tasks} ({format_share(score.coverage)})"


def format_score(score: MeanFacts) -> str:
    """Returns a mean reward with its error, n and coverage, for running text."""
    return f"{format_mean(score)} (n = {format_count(score)})"


def format_evaluation(evaluation: EvaluationFacts | None) -> str:
    """Returns what an evaluation measured, or how far it is."""
    if evaluation is None:
        return NOT_MEASURED
    if evaluation.score is None:
        return f"measuring: {evaluation.done} of {evaluation.total} trials"
    return format_mean(evaluation.score)


def format_share(share: float | None) -> str:
    """Returns a share in per cent, rounded down: what is not complete is never 100 %."""
    return UNDEFINED if share is None else f"{math.floor(share * 1000 + 1e-9) / 10:g} %"


def format_chance(chance: float) -> str:
    """Returns a probability in per cent."""
    if chance > 0.99:
        return "above 99 %"
    return f"{chance * 100:.0f} %" if chance >= 0.01 else f"{chance * 100:.1g} %"


def format_p(p: float | None) -> str:
    """Returns a p-value with three decimals."""
    if p is None:
        return UNDEFINED
    return "< 0.001" if p < 0.0005 else f"{p:.3f}"


def format_permutation(p: PermutationP | None) -> str:
    """Returns a permutation p-value and how it was computed."""
    return UNDEFINED if p is None else f"{format_p(p.value)} ({'exact' if p.exact else 'Monte Carlo'})"


def format_usd(amount: float | None) -> str:
    """Returns an amount of money; what nobody reported is not free."""
    if amount is None:
        return NOT_REPORTED
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    digits = f"{amount:.4f}" if amount >= 0.0001 else f"{amount:.1g}"
    return f"${digits.removesuffix('00')}"


def format_cost(spend: RoleSpend) -> str:
    """Returns what a role has cost, with the calls whose price is unknown."""
    if spend.calls == 0:
        return "no calls"
    if spend.cost_usd is None or spend.unpriced == 0:
        return format_usd(spend.cost_usd)
    return f"{format_usd(spend.cost_usd)} and {format_number(spend.unpriced, 'call')} {NOT_REPORTED}"


def format_tokens(tokens: int | None) -> str:
    """Returns a number of tokens."""
    return NOT_REPORTED if tokens is None else f"{tokens:,}"


def format_number(count: int, noun: str) -> str:
    """Returns a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_time(at: float | None) -> str:
    """Returns a time in UTC, to the second."""
    return "not yet" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
