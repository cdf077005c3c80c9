"""What the target and the proposer have cost; what nobody reported is said, not drawn as 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capevolve.report.figures.canvas import BLUE, MUTED, ORANGE, draw
from capevolve.report.measured import RoleSpend
from capevolve.report.wording import NOT_REPORTED, format_usd

Reader = Callable[[RoleSpend], float | None]


def draw_spend(spend: Sequence[RoleSpend]) -> str | None:
    """Returns the figure; None before the first call."""
    if not any(role.calls for role in spend):
        return None
    return draw("spend", 1.35, "Calls, cost and tokens of target and proposer", lambda f: _paint(f, spend))


def _paint(figure: Figure, spend: Sequence[RoleSpend]) -> None:
    calls, cost, tokens = figure.subplots(1, 3, sharey=True)
    _paint_panel(calls, spend, "calls", lambda role: float(role.calls), lambda value: f"{value:,.0f}")
    _paint_panel(cost, spend, "cost in USD, as reported", lambda role: role.cost_usd, format_usd)
    _paint_panel(tokens, spend, "tokens", lambda role: role.tokens, lambda value: f"{value:,.0f}")
    calls.set_yticks(range(len(spend)), [role.role for role in spend])
    calls.set_ylim(len(spend) - 0.5, -0.5)


def _paint_panel(
    axes: Axes, spend: Sequence[RoleSpend], title: str, read: Reader, show: Callable[[float], str]
) -> None:
    values = [read(role) for role in spend]
    highest = max([value for value in values if value], default=1.0)
    for place, (role, value) in enumerate(zip(spend, values, strict=True)):
        if role.calls == 0:
            words = "no calls"
        elif value is None:
            words = NOT_REPORTED
        else:
            words = show(value)
            axes.barh(place, value, height=0.56, color=BLUE if role.role == "target" else ORANGE)
        offset = (value or 0.0) + highest * 0.03
        axes.text(offset, place, words, va="center", fontsize=8.5, color=MUTED if value is None else "black")
    axes.set_xlim(0, highest * 1.5)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(length=0)
