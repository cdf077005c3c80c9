"""Val over the iterations: the incumbent with its interval, and every candidate by its verdict."""

from __future__ import annotations

from matplotlib.figure import Figure

from capevolve.model import Decision
from capevolve.report.figures.canvas import BLUE, GREEN, MUTED, ORANGE, add_grid, draw
from capevolve.report.values import RunFacts

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
    points = [point for point in facts.trajectory if point.score.mean is not None]
    last = max([1, *(i.number for i in facts.iterations)])
    xs = [*(point.iteration for point in points), last + 0.5]
    means = [*(point.score.mean or 0.0 for point in points)]
    bands = [point.score.interval for point in points]
    lows = [band.low if band is not None else mean for band, mean in zip(bands, means, strict=True)]
    highs = [band.high if band is not None else mean for band, mean in zip(bands, means, strict=True)]
    if points:
        axes.fill_between(
            xs,
            [*lows, lows[-1]],
            [*highs, highs[-1]],
            step="post",
            color=BLUE,
            alpha=0.13,
            linewidth=0,
            label="its 95 % interval",
        )
        axes.step(xs, [*means, means[-1]], where="post", color=BLUE, linewidth=1.8, label="incumbent")
        axes.plot([points[0].iteration], means[:1], "s", color=BLUE, markersize=6, label="seed candidate")
    for decision, marker, edge, fill in _MARKS:
        found = [
            (i.number, i.evaluation.score)
            for i in facts.iterations
            if i.verdict is not None
            and i.verdict.decision is decision
            and i.evaluation
            and i.evaluation.score
        ]
        shown = [(number, score.mean, score.se) for number, score in found if score.mean is not None]
        if not shown:
            continue
        numbers = [number for number, _, _ in shown]
        axes.errorbar(
            numbers,
            [mean for _, mean, _ in shown],
            yerr=[se or 0.0 for _, _, se in shown],
            fmt=marker,
            color=edge,
            markerfacecolor=fill,
            markeredgewidth=1.5,
            markersize=6,
            elinewidth=0.9,
            label=f"{decision.value} (± 1 SE)",
        )
    axes.set_xlim(-0.5, last + 0.5)
    axes.set_ylim(-0.03, 1.03)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("iteration")
    axes.set_ylabel("mean reward on val")
    add_grid(axes, "y")
    figure.legend(loc="outside upper left", ncols=6)
