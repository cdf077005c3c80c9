from __future__ import annotations

import re
from dataclasses import replace

from capevolve.report.figures import draw_figures
from capevolve.report.figures.heatmap import (
    MAX_CANDIDATES,
    MAX_TASKS,
    classify,
    draw_heatmap,
    select,
)
from capevolve.report.measured import Cell, Matrix, MatrixColumn, MatrixRow


def find_group(svg: str, name: str) -> str:
    found = re.search(rf'<g id="heatmap-{name}">.*?</g>', svg, re.DOTALL)
    return found[0] if found else ""


def test_not_measured_looks_unlike_failed_and_unlike_every_shade():
    cells = [Cell(mean, 1, "") for mean in (None, 0.0, 0.01, 0.5, 0.99, 1.0)]
    looks = [classify(cell) for cell in cells]
    assert looks[:2] == ["not-measured", "failed"]
    assert looks[-1] == "passed"
    assert len(set(looks)) == len(looks)


def test_the_figure_hatches_what_was_not_measured(gallery):
    facts = gallery("missing").facts
    svg = draw_heatmap(facts, select(facts))
    missing, passed = find_group(svg, "not-measured"), find_group(svg, "passed")
    assert "fill: url(#heatmap-" in missing
    assert "fill: url(" not in passed and "fill: #" in passed
    assert find_group(svg, "failed") == ""


def test_failed_cells_have_a_colour_of_their_own(gallery):
    facts = gallery("accepted").facts
    svg = draw_heatmap(facts, select(facts))
    fills = {name: re.findall(r"fill: (#\w+)", find_group(svg, name)) for name in ("failed", "passed")}
    assert fills["failed"] and fills["passed"] and fills["failed"] != fills["passed"]
    assert find_group(svg, "not-measured") == ""


def _large(facts, tasks: int, candidates: int):
    names = [facts.seed_id, *(f"sha256:{n:064x}" for n in range(1, candidates))]
    columns = tuple(MatrixColumn(n, name) for n, name in enumerate(names))
    rows = tuple(
        MatrixRow(f"val-{t}", tuple(Cell((t * c % 7) / 7, 1, "") for c in range(candidates)))
        for t in range(tasks)
    )
    return replace(facts, matrix=Matrix(columns, rows))


def test_a_large_matrix_is_cut_with_a_note(gallery):
    facts = _large(gallery("accepted").facts, 2000, 60)
    selection = select(facts)
    assert (len(selection.rows), len(selection.columns)) == (MAX_TASKS, MAX_CANDIDATES)
    assert selection.columns[0] == 0
    assert "200 of 2000" in selection.note and "30 of 60" in selection.note
    figure = next(figure for figure in draw_figures(facts) if figure.key == "heatmap")
    assert selection.note in figure.caption
    assert len(figure.svg) < 400_000


def test_tasks_on_which_candidates_differ_are_kept(gallery):
    facts = _large(gallery("accepted").facts, 300, 4)
    kept = {row.task_id for row in select(facts).rows}
    assert "val-0" not in kept  # every candidate scores 0 on it
