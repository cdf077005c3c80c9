from __future__ import annotations

from dataclasses import replace

import matplotlib
import pytest

from capevolve.model import Estimate
from capevolve.report.figures import draw_figures
from capevolve.report.figures.canvas import draw, fit_label
from capevolve.report.figures.deltas import draw_deltas
from capevolve.report.figures.spend import draw_spend
from capevolve.report.measured import RoleSpend, TaskScore
from capevolve.report.values import TestTaskFacts


def keys(facts) -> list[str]:
    return [figure.key for figure in draw_figures(facts)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nothing", []),
        ("no_budget", []),
        ("baseline_only", ["trajectory", "heatmap", "spend"]),
        ("open_attempt", ["trajectory", "heatmap", "spend"]),
        ("no_accept", ["comparison", "trajectory", "heatmap", "spend"]),
        ("accepted", ["comparison", "deltas", "trajectory", "heatmap", "spend"]),
    ],
)
def test_figures_are_drawn_when_there_is_something_to_show(gallery, name, expected):
    assert keys(gallery(name).facts) == expected


def test_drawing_leaves_the_settings_of_matplotlib_alone(gallery):
    before = dict(matplotlib.rcParams)
    matplotlib.rcParams["font.size"] = 31.0
    try:
        first = draw_spend(gallery("accepted").facts.spend)
        assert matplotlib.rcParams["font.size"] == 31.0
    finally:
        matplotlib.rcParams.update(before)
    assert draw_spend(gallery("accepted").facts.spend) == first


def test_dollar_signs_are_no_formulas():
    svg = draw("t", 1.0, "label", lambda figure: figure.text(0.1, 0.5, r"$\frac{$ <b>&"))
    assert r"$\frac{$ &lt;b&gt;&amp;" in svg


def test_characters_that_the_font_lacks_become_boxes():
    assert fit_label("task 語 ä") == "task □ ä"
    assert fit_label("x" * 60, 10) == "x" * 9 + "…"


def test_unreported_cost_is_a_word_and_not_a_bar():
    spend = (RoleSpend("target", 5, None, 5, None), RoleSpend("proposer", 0, None, 0, None))
    svg = draw_spend(spend)
    assert svg.count("not reported") == 2
    assert "no calls" in svg
    assert "$0" not in svg


def test_many_test_tasks_are_drawn_without_names_and_stay_small(gallery):
    final = gallery("accepted").facts.final
    cell = TaskScore(1.0, None, 1, "")
    tasks = tuple(
        TestTaskFacts(f"test-{n}", cell, cell, Estimate((500 - n) / 500, None), "") for n in range(1000)
    )
    svg = draw_deltas(replace(final, tasks=tasks))
    assert "1000 test tasks, sorted, in 400 groups" in svg
    assert "test-7" not in svg
    assert len(svg) < 80_000
