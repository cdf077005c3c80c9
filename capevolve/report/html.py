"""The report as one self-contained HTML file: no script, no font, no address to fetch from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capevolve.report.measured import TaskScore
from capevolve.report.rows import candidate_rows
from capevolve.report.sections import build_sections
from capevolve.report.values import FinalFacts, RunFacts
from capevolve.report.wording import (
    NOT_MEASURED,
    format_error,
    format_estimate,
    format_number,
    format_value,
    shorten,
)

if TYPE_CHECKING:
    from capevolve.report.figures import DrawnFigure

TEMPLATE = "report.html.j2"
MAX_LISTED = 500
"""Test tasks in the table; `capevolve export` writes all of them."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A test task as finished cells."""

    task: str
    best: str
    seed: str
    delta: str
    note: str


def render_html(facts: RunFacts) -> str:
    """Returns the report of a run as an HTML page. The same facts give the same bytes."""
    # Both take long to import; `capevolve status` comes by here without rendering a page.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from capevolve.report.figures import draw_figures

    environment = Environment(
        loader=PackageLoader("capevolve.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    figures: dict[str, list[DrawnFigure]] = {}
    for figure in draw_figures(facts):
        figures.setdefault(figure.section, []).append(figure)
    return environment.get_template(TEMPLATE).render(
        facts=facts,
        sections=build_sections(facts),
        candidates=candidate_rows(facts),
        figures=figures,
        tasks=() if facts.final is None else _task_rows(facts.final),
        tasks_left=0 if facts.final is None else max(0, len(facts.final.tasks) - MAX_LISTED),
    )


def _task_rows(final: FinalFacts) -> tuple[TaskRow, ...]:
    return tuple(
        TaskRow(
            task=shorten(task.task_id, 80),
            best=_show_score(task.best),
            seed="the same candidate" if task.baseline is None else _show_score(task.baseline),
            delta="not applicable" if task.baseline is None else format_estimate(task.delta),
            note=task.note,
        )
        for task in final.tasks[:MAX_LISTED]
    )


def _show_score(score: TaskScore) -> str:
    if score.mean is None:
        return NOT_MEASURED
    return f"{format_value(score.mean)} {format_error(score.se)} ({format_number(score.n_trials, 'trial')})"
