"""What every test task gained or lost: the paired deltas behind the headline."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure

from capevolve.report.figures.canvas import BLUE, INK, MUTED, VERMILLION, add_grid, draw, fit_label
from capevolve.report.values import FinalFacts
from capevolve.result import TestDelta

MAX_NAMED = 40
"""With more tasks than this their names are left out."""
MAX_STEPS = 400


def draw_deltas(final: FinalFacts) -> str | None:
    """Returns the figure; None when there is no delta."""
    delta = final.result.test_delta
    tasks = [(task.task_id, task.delta.value) for task in final.tasks if task.delta.value is not None]
    if delta is None or not tasks:
        return None
    named = len(tasks) <= MAX_NAMED
    height = 1.1 + 0.19 * len(tasks) if named else 3.2
    label = f"Paired delta of each of {len(tasks)} test tasks, sorted, with the mean and its 95 % interval"
    paint = _paint_named if named else _paint_many
    return draw("deltas", height, label, lambda figure: paint(figure, tasks, delta))


def _find_limits(values: list[float], delta: TestDelta) -> tuple[float, float]:
    """The range of what is drawn, 0 included."""
    drawn = [0.0, *values, *(delta.ci95 or ())]
    low, high = min(drawn), max(drawn)
    margin = 0.06 * max(high - low, 0.1)
    return low - margin, high + margin


def _tint(value: float) -> str:
    return BLUE if value > 0 else VERMILLION if value < 0 else MUTED


def _paint_named(figure: Figure, tasks: list[tuple[str, float]], delta: TestDelta) -> None:
    axes = figure.subplots()
    rows = range(len(tasks))
    values = [value for _, value in tasks]
    tints = [_tint(value) for value in values]
    axes.hlines(rows, 0, values, colors=tints, linewidth=2.0)
    axes.scatter(values, rows, c=tints, s=26, zorder=3)
    axes.set_yticks(rows, [fit_label(name) for name, _ in tasks])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(tasks) - 0.4, -0.6)
    axes.axvline(0, color=MUTED, linewidth=0.8)
    if delta.delta is not None:
        axes.axvline(delta.delta, color=INK, linewidth=1.4, linestyle=(0, (4, 2)), label="mean")
    if delta.ci95 is not None:
        axes.axvspan(*delta.ci95, color=INK, alpha=0.08, linewidth=0, label="95 % interval of the mean")
    axes.set_xlim(*_find_limits(values, delta))
    axes.set_xlabel("best minus seed, mean reward per test task")
    add_grid(axes, "x")
    figure.legend(loc="outside upper left", ncols=3)


def _group(values: list[float]) -> tuple[list[float], list[float]]:
    """Sorted values as at most `MAX_STEPS` steps of equally many tasks: the edges, and the mean of each."""
    count = min(len(values), MAX_STEPS)
    edges = [round(len(values) * n / count) for n in range(count + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
    return [float(edge) for edge in edges], means


def _paint_many(figure: Figure, tasks: list[tuple[str, float]], delta: TestDelta) -> None:
    axes = figure.subplots()
    edges, values = _group([value for _, value in tasks])
    steps = [*values, values[-1]]
    gains, losses = [max(v, 0.0) for v in steps], [min(v, 0.0) for v in steps]
    axes.fill_between(edges, 0, gains, step="post", color=BLUE, linewidth=0, label="improved")
    axes.fill_between(edges, 0, losses, step="post", color=VERMILLION, linewidth=0, label="worse")
    axes.axhline(0, color=MUTED, linewidth=0.8)
    if delta.delta is not None:
        axes.axhline(delta.delta, color=INK, linewidth=1.4, linestyle=(0, (4, 2)), label="mean")
    if delta.ci95 is not None:
        axes.axhspan(*delta.ci95, color=INK, alpha=0.12, linewidth=0, label="95 % interval of the mean")
    axes.set_xlim(0, len(tasks))
    axes.set_ylim(*_find_limits(values, delta))
    grouped = f", in {MAX_STEPS} groups" if len(tasks) > MAX_STEPS else ""
    axes.set_xlabel(f"{len(tasks)} test tasks, sorted{grouped}")
    axes.set_ylabel("best minus seed")
    add_grid(axes, "y")
    figure.legend(loc="outside upper left", ncols=4)
