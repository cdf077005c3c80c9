"""Val over the iterations: the incumbent with its interval, and every candidate by its verdict."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from capevolve.model import Decision
from capevolve.report.figures.canvas import BLUE, GREEN, MUTED, ORANGE, add_grid, draw
from capevolve.report.values import RunFacts
from capevolve.stats import Interval

_MARKS: tuple[tuple[Decision, str, str, str], ...] = (
    (Decision.ACCEPT, "o", GREEN, GREEN),
    (Decision.REJECT, "x", MUTED, MUTED),
    (Decision.INDECISIVE, "D", ORANGE, "white"),
)


def draw_trajectory(facts: RunFacts) -> str | None:
    """Returns the figure; None before the seed candidate was measured."""
    if not facts.trajectory:
        return None
    label = f"Val reward of the incumbent over {len(facts.iterations)} iterations, with 95 % intervals"
    return draw("trajectory", 3.0, label, lambda figure: _paint(figure, facts))


def _paint(figure: Figure, facts: RunFacts) -> None:
    axes = figure.subplots()
    last = max([1, *(iteration.number for iteration in facts.iterations)])
    _paint_incumbent(axes, facts, last + 0.5)
    for mark in _MARKS:
        _paint_candidates(axes, facts, mark)
    axes.set_xlim(-0.5, last + 0.5)
    axes.set_ylim(-0.03, 1.03)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("iteration")
    axes.set_ylabel("mean reward on val")
    add_grid(axes, "y")
    figure.legend(loc="outside upper left", ncols=6)


def _paint_incumbent(axes: Axes, facts: RunFacts, end: float) -> None:
    points = [(p.iteration, p.score.mean, p.score.interval) for p in facts.trajectory]
    known = [
        (float(number), mean, band or Interval(mean, mean))
        for number, mean, band in points
        if mean is not None
    ]
    if not known:
        return
    known.append((end, *known[-1][1:]))
    xs = [number for number, _, _ in known]
    means = [mean for _, mean, _ in known]
    lows = [band.low for _, _, band in known]
    highs = [band.high for _, _, band in known]
    axes.fill_between(
        xs, lows, highs, step="post", color=BLUE, alpha=0.13, linewidth=0, label="95 % interval"
    )
    axes.step(xs, means, where="post", color=BLUE, linewidth=1.8, label="incumbent")
    axes.plot(xs[:1], means[:1], "s", color=BLUE, markersize=6, label="seed candidate")


def _paint_candidates(axes: Axes, facts: RunFacts, mark: tuple[Decision, str, str, str]) -> None:
    decision, marker, edge, fill = mark
    judged = [i for i in facts.iterations if i.verdict is not None and i.verdict.decision is decision]
    scores = [(i.number, i.evaluation.score) for i in judged if i.evaluation and i.evaluation.score]
    shown = [(number, score.mean, score.se) for number, score in scores if score.mean is not None]
    if not shown:
        return
    axes.errorbar(
        [number for number, _, _ in shown],
        [mean for _, mean, _ in shown],
        yerr=[se or 0.0 for _, _, se in shown],
        fmt=marker,
        color=edge,
        markerfacecolor=fill,
        markeredgewidth=1.5,
        markersize=6,
        elinewidth=0.9,
        label=decision.value,
    )
