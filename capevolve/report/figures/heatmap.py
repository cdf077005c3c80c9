"""Val tasks by candidates: who scored what, who failed, and what was never measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from capevolve.canonical import short
from capevolve.model import PASS_REWARD
from capevolve.report.figures.canvas import MUTED, VERMILLION, draw, fit_label
from capevolve.report.measured import Cell, MatrixColumn, MatrixRow
from capevolve.report.values import RunFacts

MAX_TASKS = 200
MAX_CANDIDATES = 30
MAX_NAMED = 40
STEPS = 8
"""Shades between failed and passed."""

NOT_MEASURED, FAILED, PASSED = "not-measured", "failed", "passed"


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of the matrix that fits on a page; `note` says what was left out."""

    columns: tuple[int, ...]
    rows: tuple[MatrixRow, ...]
    note: str


def classify(cell: Cell) -> str:
    """Returns the look of a cell: not measured, failed, passed, or one of the shades between."""
    if cell.mean is None:
        return NOT_MEASURED
    if cell.mean <= 0.0:
        return FAILED
    return PASSED if cell.mean >= PASS_REWARD else f"shade-{min(STEPS - 1, int(cell.mean * STEPS))}"


def select(facts: RunFacts) -> Selection:
    """Returns what to show of a large matrix: the latest candidates, and the tasks that tell them apart."""
    columns, rows = facts.matrix.columns, facts.matrix.rows
    kept = _select_columns(facts, columns)
    notes = []
    if len(kept) < len(columns):
        notes.append(f"{len(kept)} of {len(columns)} candidates: seed candidate, incumbent and the latest")
    if len(rows) > MAX_TASKS:
        notes.append(f"the {MAX_TASKS} of {len(rows)} val tasks on which candidates differ most")
        rows = tuple(sorted(rows, key=lambda row: -_spread(row, kept))[:MAX_TASKS])
    ordered = tuple(sorted(rows, key=lambda row: (_difficulty(row, kept), row.task_id)))
    return Selection(kept, ordered, f"Shown: {'; '.join(notes)}." if notes else "")


def _select_columns(facts: RunFacts, columns: Sequence[MatrixColumn]) -> tuple[int, ...]:
    places = range(len(columns))
    if len(columns) <= MAX_CANDIDATES:
        return tuple(places)
    fixed = {n for n in places if columns[n].candidate_id in (facts.seed_id, facts.best_id)}
    latest = [n for n in reversed(places) if n not in fixed][: MAX_CANDIDATES - len(fixed)]
    return tuple(sorted(fixed | set(latest)))


def _known(row: MatrixRow, kept: Sequence[int]) -> list[float]:
    means = (row.cells[column].mean for column in kept)
    return [mean for mean in means if mean is not None]


def _spread(row: MatrixRow, kept: Sequence[int]) -> float:
    known = _known(row, kept)
    return max(known) - min(known) if known else 0.0


def _difficulty(row: MatrixRow, kept: Sequence[int]) -> float:
    known = _known(row, kept)
    return -sum(known) / len(known) if known else 1.0


def draw_heatmap(facts: RunFacts, selection: Selection) -> str | None:
    """Returns the figure; None before anything was evaluated."""
    count = len(selection.rows)
    if not count:
        return None
    named = count <= MAX_NAMED
    height = 1.5 + count * (0.17 if named else min(0.06, 7.0 / count))
    label = f"Mean reward of {len(selection.columns)} candidates on {count} val tasks"
    return draw("heatmap", height, label, lambda figure: _paint(figure, facts, selection, named))


def _paint(figure: Figure, facts: RunFacts, selection: Selection, named: bool) -> None:
    axes = figure.subplots()
    looks = _find_looks()
    groups = _group_cells(selection, merge=not named)
    for name, boxes in sorted(groups.items()):
        axes.add_patch(_make_patch(name, boxes, looks, 0.8 if named else 0.0))
    _label_axes(axes, facts, selection, named)
    shown = [NOT_MEASURED, FAILED, "shade-0", f"shade-{STEPS // 2}", f"shade-{STEPS - 1}", PASSED]
    words = ["not measured", "0 (failed)", "near 0", "near 0.5", "near 1", "1 (passed)"]
    handles = [
        Patch(
            facecolor=looks[name],
            edgecolor=MUTED if name == NOT_MEASURED else "white",
            hatch="////" if name == NOT_MEASURED else None,
            linewidth=0.0,
            label=word,
        )
        for name, word in zip(shown, words, strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))


def _find_looks() -> Mapping[str, str]:
    blues = colormaps["Blues"]
    shades = {f"shade-{n}": to_hex(blues(0.18 + 0.55 * n / (STEPS - 1))) for n in range(STEPS)}
    return {NOT_MEASURED: "#eceff1", FAILED: VERMILLION, PASSED: "#08306b", **shades}


_BOX = [int(code) for code in (Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY)]

Box = tuple[int, int, int]
"""Column, first row, and the row after the last."""


def _group_cells(selection: Selection, *, merge: bool) -> dict[str, list[Box]]:
    """The boxes of each look; equal neighbours in a column are one box when `merge` is set."""
    groups: defaultdict[str, list[Box]] = defaultdict(list)
    for place, column in enumerate(selection.columns):
        names = [classify(row.cells[column]) for row in selection.rows]
        start = 0
        for end in range(1, len(names) + 1):
            if end == len(names) or names[end] != names[start] or not merge:
                groups[names[start]].append((place, start, end))
                start = end
    return groups


def _make_patch(name: str, boxes: Sequence[Box], looks: Mapping[str, str], gap: float) -> PathPatch:
    vertices: list[tuple[float, float]] = []
    codes: list[int] = []
    for place, start, end in boxes:
        left, right = place - 0.5, place + 0.5
        top, bottom = start - 0.5, end - 0.5
        vertices += [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        codes += _BOX
    missing = name == NOT_MEASURED
    patch = PathPatch(
        Path(vertices, codes),
        facecolor=looks[name],
        edgecolor=MUTED if missing else "white",
        hatch="////" if missing else None,
        linewidth=0.0 if missing else gap,
    )
    patch.set_gid(name)
    return patch


def _label_axes(axes: Axes, facts: RunFacts, selection: Selection, named: bool) -> None:
    columns = [facts.matrix.columns[n] for n in selection.columns]
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(selection.rows) - 0.5, -0.5)
    few = len(columns) <= 8
    names = [
        f"#{column.iteration} {short(column.candidate_id, 8)}" if few else f"#{column.iteration}"
        for column in columns
    ]
    axes.set_xticks(range(len(columns)), names)
    axes.set_xlabel("candidate, by iteration (0 is the seed candidate)")
    if named:
        axes.set_yticks(range(len(selection.rows)), [fit_label(row.task_id) for row in selection.rows])
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(selection.rows)} val tasks, easiest first")
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
