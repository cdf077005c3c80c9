"""The figures of the HTML report. Importing this imports matplotlib, which is slow: do it where needed."""

from __future__ import annotations

from dataclasses import dataclass

from capevolve.report.figures.comparison import draw_comparison
from capevolve.report.figures.deltas import draw_deltas
from capevolve.report.figures.heatmap import draw_heatmap, select
from capevolve.report.figures.spend import draw_spend
from capevolve.report.figures.trajectory import draw_trajectory
from capevolve.report.values import RunFacts


@dataclass(frozen=True, slots=True)
class DrawnFigure:
    """A figure as an `<svg>` element, the section it belongs to, and its caption."""

    key: str
    section: str
    caption: str
    svg: str


def draw_figures(facts: RunFacts) -> tuple[DrawnFigure, ...]:
    """Returns the figures that the facts are enough for."""
    selection = select(facts)
    drawn: list[tuple[str, str, str, str | None]] = []
    if facts.final is not None:
        drawn += [
            (
                "comparison",
                "result",
                "Mean rewards with 95 % intervals: filled on test, hollow on val, where the best candidate "
                "was selected. Right: the paired test delta.",
                draw_comparison(facts, facts.final),
            ),
            (
                "deltas",
                "tasks",
                "What each test task gained or lost, sorted, where both sides have a reward.",
                draw_deltas(facts.final),
            ),
        ]
    drawn += [
        (
            "trajectory",
            "candidates",
            "The incumbent's mean reward on val after every iteration, and each candidate ± 1 SE by verdict.",
            draw_trajectory(facts),
        ),
        (
            "heatmap",
            "candidates",
            "Mean reward per val task and candidate, easiest tasks first. Hatched is not measured, which is "
            f"no failure. {selection.note}".strip(),
            draw_heatmap(facts, selection),
        ),
        ("spend", "spend", "Spend by role, as far as it was reported.", draw_spend(facts.spend)),
    ]
    return tuple(DrawnFigure(key, section, text, svg) for key, section, text, svg in drawn if svg is not None)
