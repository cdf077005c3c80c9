"""What no surface may ever say, whatever became of the run."""

from __future__ import annotations

import re

import pytest

from capevolve.report import render_html, render_markdown, render_status

HELD_OUT = re.compile(r"held[-_ ]out", re.IGNORECASE)
ONCE = re.compile(r"scored\s+(exactly\s+)?once", re.IGNORECASE)
REWARD = re.compile(r"(?<![\d.])[+-]?[01]\.\d{3}(?!\d)")


def test_no_surface_prints_a_missing_value_of_python(gallery, state):
    for name, text in gallery(state).surfaces.items():
        shown = text[text.index("<body>") :] if name == "html" else text
        assert not re.search(r"\b(nan|NaN|None|inf|Infinity)\b", shown), name


def test_an_unfinished_run_claims_nothing_of_test(gallery, unfinished_state):
    for name, text in gallery(unfinished_state).surfaces.items():
        assert not HELD_OUT.search(text), name
        assert not ONCE.search(text), name


def test_an_unfinished_run_says_so_before_its_first_number(gallery, unfinished_state):
    exhibit = gallery(unfinished_state)
    assert exhibit.status["final"] is None
    for text in (exhibit.markdown, exhibit.html[exhibit.html.index("<body>") :]):
        said = text.index("Not finalised")
        first = REWARD.search(text)
        assert first is None or said < first.start()


def test_a_fit_metric_is_never_called_held_out(gallery):
    exhibit = gallery("fit_metric")
    for name, text in exhibit.surfaces.items():
        assert not HELD_OUT.search(text), name
        assert not ONCE.search(text), name
    assert exhibit.status["final"]["kind"] == "fit_metric"


@pytest.mark.parametrize("state_with_banner", ["fit_metric", "override"])
def test_a_banner_comes_before_the_first_number(gallery, state_with_banner):
    exhibit = gallery(state_with_banner)
    for text in (exhibit.markdown, exhibit.html[exhibit.html.index("<body>") :]):
        word = "Fit metric" if state_with_banner == "fit_metric" else "the scorer had a bug"
        assert text.index(word) < REWARD.search(text).start()


def test_only_a_first_look_at_unseen_tasks_is_called_held_out(gallery):
    assert "Held-out test delta" in gallery("accepted").markdown
    assert "It was scored once." in gallery("accepted").markdown
    again = gallery("override")
    for name, text in again.surfaces.items():
        assert not ONCE.search(text), name
    assert "Held-out" not in again.markdown
    assert "Test delta at look 2" in again.markdown


def _claims(markdown: str) -> list[str]:
    """The lines with rewards, without the gate's own sentences, intervals and p-values."""
    lines = []
    for line in markdown.splitlines():
        cells = line.split(" | ")
        text = " | ".join(cells[:-1]) if len(cells) == 7 else line
        text = re.sub(r"\S+ to \S+\d", "", text)
        lines.append(re.sub(r"(flip|t|permutation) (< )?\d\.\d{3}", "", text))
    return [line for line in lines if REWARD.search(line)]


def test_every_reward_has_its_error_and_its_n(gallery, state):
    for line in _claims(gallery(state).markdown):
        for reward in REWARD.finditer(line):
            before, after = line[: reward.start()], line[reward.end() :]
            assert before.endswith("± ") or after.startswith(" ± "), line
        assert re.search(r"\d+ of \d+|n = \d+", line), line


def test_an_error_of_zero_is_undefined(gallery):
    score = gallery("one_task").status["final"]["test"]
    assert score["stderr"] is None
    assert "1.000 ± undefined" in gallery("one_task").markdown
    assert not re.search(r"± 0(\.0+)?\b(?!\.)", gallery("one_task").markdown)


def test_a_run_without_change_has_no_delta_of_zero(gallery):
    exhibit = gallery("no_accept")
    assert "No candidate was accepted" in exhibit.markdown
    assert "delta not applicable" in exhibit.markdown
    assert exhibit.status["final"]["test_delta"] is None


def test_unknown_cost_is_not_free(gallery):
    exhibit = gallery("missing")
    assert [spend["cost_usd"] for spend in exhibit.status["spend"]] == [None, 0.02]
    target = next(line for line in exhibit.markdown.splitlines() if line.startswith("| target"))
    assert target.count("not reported") == 2
    assert "$0.00" not in exhibit.markdown


def test_missing_data_is_disclosed_with_its_reasons(gallery):
    text = gallery("missing").markdown
    assert "the seed candidate on val was measured on 7 of 8 tasks; 3 trials ended without" in text
    assert "(3 timeout)" in text
    assert "the best candidate on val was measured on 8 of 8 tasks; 1 trial ended without" in text
    assert "(1 crash)" in text
    assert "2 test tasks entered no delta" in text


def test_indecisive_is_not_a_rejection(gallery):
    exhibit = gallery("indecisive")
    assert {iteration["state"] for iteration in exhibit.status["iterations"]} == {"indecisive"}
    assert "No verdict was decisive" in exhibit.markdown
    assert "reject" not in exhibit.surfaces["cells"]


def test_the_same_facts_give_the_same_bytes(gallery, state):
    exhibit = gallery(state)
    again = exhibit.story.facts()
    assert again == exhibit.facts
    assert render_markdown(again) == exhibit.markdown
    assert render_status(again) == exhibit.status
    if state in ("missing", "open_attempt"):  # together they have every figure
        assert render_html(again) == exhibit.html
