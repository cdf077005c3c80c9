"""The parts of the example `sentiment` that need no model."""

from __future__ import annotations

import importlib.util
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from capevolve.spec import load_spec

EXAMPLE = Path(__file__).parents[4] / "examples" / "sentiment"


@pytest.fixture(scope="module")
def propose():
    spec = importlib.util.spec_from_file_location("sentiment_propose", EXAMPLE / "propose.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tasks():
    return [json.loads(line) for line in (EXAMPLE / "tasks.jsonl").read_text().splitlines()]


def test_half_of_120_different_reviews_are_good(tasks):
    assert Counter(task["target"] for task in tasks) == {"good": 60, "bad": 60}
    assert len({task["input"] for task in tasks}) == 120


def test_the_spec_asks_a_server_on_this_machine_and_states_no_price():
    spec = load_spec(EXAMPLE).spec
    assert spec.target.base_url.startswith("http://127.0.0.1:")
    assert spec.target.usd_per_million_input_tokens is None
    assert spec.evaluation.concurrency == 4


def test_the_prompt_shows_as_many_of_each_label_and_asks(propose, tasks):
    drawn = propose.draw_examples(tasks, 8, random.Random(1))
    assert Counter(task["target"] for task in drawn) == {"good": 4, "bad": 4}
    prompt = propose.compose(drawn)
    assert prompt.count("Review: ") == 9
    assert prompt.endswith("Review: {input}\nSentiment:")
    assert drawn == propose.draw_examples(tasks[::-1], 8, random.Random(1))
    assert len(propose.draw_examples(tasks[:3], 8, random.Random(1))) == 3


@pytest.mark.parametrize(("iteration", "shown"), [(1, 0), (2, 4), (3, 8), (9, 8)])
def test_each_iteration_shows_what_is_said(propose, tasks, tmp_path, iteration, shown):
    brief, note = tmp_path / "brief.json", tmp_path / "note.json"
    brief.write_text(json.dumps({"tasks": tasks[40:80]}))
    environ = {
        "CAPEVOLVE_BRIEF": str(brief),
        "CAPEVOLVE_PROPOSAL": str(note),
        "CAPEVOLVE_CANDIDATE": str(tmp_path),
        "CAPEVOLVE_ITERATION": str(iteration),
        "CAPEVOLVE_SEED": "5",
    }
    propose.main(environ)
    assert (tmp_path / "prompt.md").read_text().count("Review: ") == shown + 1
    assert json.loads(note.read_text())["summary"] == f"frame the review, {shown} examples"
