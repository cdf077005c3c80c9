"""A design in lines for people. What is unknown is said in words, never as 0."""

from __future__ import annotations

from collections.abc import Callable

from capevolve.design.hurdles import UNKNOWN_SPREAD, count
from capevolve.design.values import Bill, Design, Figure, HurdleName, Need, PartName, Price, Range, Resolution

_HURDLES: dict[HurdleName, str] = {
    "screen": "screen",
    "gate": "gate",
    "confirmation": "confirmation",
    "all_stages": "all stages together",
    "test": "sealed test",
    "test_new_tasks": "sealed test for new tasks",
}
_PARTS: dict[PartName, str] = {
    "aa_control": "A/A control",
    "baseline": "baseline",
    "train_evidence": "train evidence",
    "candidates": "candidates",
    "test": "test number",
}


def describe_design(design: Design) -> list[str]:
    """Returns three lines: the smallest effects, what the wanted effect takes, the bill."""
    holdout = design.sizes.holdout
    effects = ", ".join(_describe_effect(effect, holdout) for effect in design.effects)
    needs = [_describe_need(need, holdout) for need in design.needs if need.reason != UNKNOWN_SPREAD]
    return [
        f"finds with about 80 % power: {effects}; {describe_variance(design)}",
        f"to find {design.wanted:+.3g}: {'; '.join(needs)}",
        f"rollouts: {describe_bill(design)}",
    ]


def _name(hurdle: HurdleName, holdout: bool) -> str:
    """Without a holdout nothing is sealed from the search: the test number is a fit metric."""
    name = _HURDLES[hurdle]
    return name if holdout else name.replace("sealed test", "fit metric")


def _describe_effect(effect: Resolution, holdout: bool) -> str:
    name = _name(effect.name, holdout)
    if effect.effect is None:
        return f"{name} {'unknown' if effect.reason == UNKNOWN_SPREAD else 'none'} ({effect.reason})"
    if effect.name == "test_new_tasks":
        return f"{name} {effect.effect:+.3f}"
    mine, theirs = effect.candidate_trials, effect.incumbent_trials
    against = "" if mine == theirs else f" against {theirs}"
    level = "" if effect.level is None else f", p <= {effect.level:.2g}"
    trials = f"{count(effect.n_tasks, 'task')} x {count(mine, 'trial')}{against}"
    return f"{name} {effect.effect:+.3f} ({trials}{level})"


def describe_variance(design: Design) -> str:
    """Returns the noise that the plan rests on, and where it is from."""
    variance = design.variance
    words = f"noise within tasks {variance.within:.3f}"
    if variance.source == "measured":
        return f"{words}, measured on run {variance.run_id}"
    if variance.mean is None:
        return f"{words}, bound (nothing was measured)"
    return f"{words}, bound by the mean {variance.mean:.3f} of run {variance.run_id}"


def _describe_need(need: Need, holdout: bool) -> str:
    name = _name(need.name, holdout)
    if need.trials is None and need.tasks is None:
        return f"{name} no number of trials or tasks"
    ways = []
    if need.trials is not None:
        unit = "" if need.unit is None else f" (look_trials {need.unit})"
        ways.append(f"{count(need.trials, 'trial')} per task and arm{unit}")
    if need.tasks is not None:
        ways.append(count(need.tasks, "task"))
    return f"{name} {' or '.join(ways)}"


def describe_bill(design: Design) -> str:
    """Returns the rollouts by part, in all, and what they take."""
    bill = design.bill
    parts = ", ".join(f"{_show(part.least, part.most)} {_PARTS[part.name]}" for part in bill.parts)
    one = f"{_show(bill.candidate_least, bill.candidate_most)} a candidate"
    cost = f"{_describe_time(bill, design.price)}, {_describe_money(bill, design.price)}"
    return f"{_show(bill.least, bill.most)} in all ({parts}; {one}); {cost}"


def _show(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


def _describe_time(bill: Bill, price: Price) -> str:
    if bill.seconds is None:
        return "time unknown"
    each = f"{price.seconds.value:.3g} s each ({_source(price.seconds)})"
    return f"{_join(bill.seconds, _show_seconds)} at {each}"


def _describe_money(bill: Bill, price: Price) -> str:
    if bill.usd is None:
        return "cost unknown"
    each = f"{price.usd.value:.3g} each ({_source(price.usd)})"
    return f"{_join(bill.usd, _show_usd)} USD at {each}, the proposer aside"


def _show_usd(usd: float) -> str:
    return f"{usd:.2f}" if usd >= 0.01 or usd == 0.0 else f"{usd:.2g}"


def _join(cost: Range, show: Callable[[float], str]) -> str:
    least, most = show(cost.least), show(cost.most)
    return most if least == most else f"{least} to {most}"


def _source(figure: Figure) -> str:
    return f"measured on run {figure.run_id}" if figure.source == "measured" else figure.source


def _show_seconds(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.0f} s" if seconds >= 10.0 else f"{seconds:.2g} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"
