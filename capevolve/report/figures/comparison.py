"""Test against baseline: both candidates with their intervals, and the delta with its own."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capevolve.report.figures.canvas import BLUE, INK, MUTED, add_grid, draw
from capevolve.report.measured import MeanFacts
from capevolve.report.values import FinalFacts, RunFacts
from capevolve.report.wording import format_change, format_value
from capevolve.result import TestDelta


def draw_comparison(facts: RunFacts, final: FinalFacts) -> str:
    """Returns the figure."""
    rows = [("test, best", final.best, BLUE)]
    if final.result.test_delta_reason != "no_change":
        rows.append(("test, seed", final.baseline, MUTED))
    if facts.accepted and facts.best_val is not None and facts.best_val.score is not None:
        rows.append(("val, best (selected)", facts.best_val.score, BLUE))
    if facts.baseline is not None and facts.baseline.score is not None:
        rows.append(("val, seed", facts.baseline.score, MUTED))
    label = "Mean rewards on test and val with 95 % intervals, and the test delta with its interval"
    delta = final.result.test_delta
    return draw("comparison", 0.9 + 0.36 * len(rows), label, lambda figure: _paint(figure, rows, delta))


def _paint(figure: Figure, rows: list[tuple[str, MeanFacts, str]], delta: TestDelta | None) -> None:
    if delta is None or delta.delta is None:
        left = figure.subplots()
    else:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _paint_delta(right, delta)
    for place, (name, score, tint) in enumerate(rows):
        if score.mean is None:
            left.text(0.02, place, "not measured", va="center", color=MUTED, style="italic")
            continue
        if score.interval is not None:
            left.hlines(place, score.interval.low, score.interval.high, color=tint, linewidth=2.2)
        fill = tint if name.startswith("test") else "white"
        left.plot([score.mean], [place], "o", color=tint, markersize=7, markerfacecolor=fill)
        left.annotate(
            format_value(score.mean),
            (score.mean, place),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    left.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    left.set_ylim(len(rows) - 0.4, -0.7)
    left.set_xlim(-0.03, 1.03)
    left.set_xlabel("mean reward, 95 % interval")
    left.tick_params(axis="y", length=0)
    add_grid(left, "x")


def _paint_delta(axes: Axes, delta: TestDelta) -> None:
    value = delta.delta or 0.0
    low, high = delta.ci95 if delta.ci95 is not None else (value, value)
    axes.axvline(0, color=MUTED, linewidth=0.9)
    axes.hlines(0, low, high, color=INK, linewidth=2.2)
    axes.plot([value], [0], "D", color=INK, markersize=7)
    axes.annotate(
        format_change(delta.delta), (value, 0), (0, 7), textcoords="offset points", ha="center", fontsize=8
    )
    reach = 1.15 * max(abs(low), abs(high), 0.05)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("test delta, best minus seed" + ("" if delta.ci95 else " (interval undefined)"))
    add_grid(axes, "x")
