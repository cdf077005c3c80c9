"""A run in every state a report must tell the truth about."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from capevolve.model import Reason
from capevolve.report import RunFacts, candidate_rows, render_html, render_markdown, render_status


def tell_accepted(story: Any) -> None:
    story.improve()
    story.conclude()


def tell_baseline_only(story: Any) -> None:
    story.measure_seed()


def tell_nothing(_story: Any) -> None:
    pass


def tell_indecisive(story: Any) -> None:
    story.measure_seed()
    for text in ("one", "two"):
        lost = [Reason.INFRA] * 6 + [1.0, 1.0]
        story.iterate(text, story.per_task("val", lost))
    story.end("stopped", "interrupted by the user")


def tell_no_accept(story: Any) -> None:
    story.measure_seed()
    story.iterate("worse", story.per_task("val", [0] * 8))
    story.finalize(story.per_task("test", [0, 1, 0, 0, 1, 0, 0, 1]))
    story.end()


def tell_open_attempt(story: Any) -> None:
    story.improve()
    ticket = story.open_attempt()
    some = dict(list(story.per_task("test", [1, 1, 0, 1, 1, 0, 1, 0]).items())[:5])
    story.measure(some, story.best_id, split="test", tag="FINAL", attempt_id=ticket.attempt_id, in_flight=2)


def tell_override(story: Any) -> None:
    tell_accepted(story)
    story.resume()
    story.conclude(override="the scorer had a bug")


def tell_one_task(story: Any) -> None:
    story.measure(story.same("val", 1.0))
    story.finalize(story.same("test", 1.0))
    story.end()


def tell_no_budget(story: Any) -> None:
    """No call was ever made."""
    story.end("stopped", "the cap on calls is reached (0 were left)")


HOSTILE = (
    "<!--<script>alert(1)</script> \x1b]0;title\x07 a|b\n## forged\u202e $\\frac{ `code` [x](y) \U0001f600"
)


def tell_hostile(story: Any) -> None:
    story.measure_seed()
    story.propose("x", status="failed", summary=HOSTILE, detail=HOSTILE, cost=None, tokens=None)
    story.iterate("better", story.per_task("val", [1] * 8), summary=HOSTILE)
    story.conclude()
    story.end("finished", HOSTILE)


def tell_missing(story: Any) -> None:
    """Three trials per task, with some of everything missing, and no price ever reported."""
    lost, partly = (Reason.TIMEOUT,) * 3, (1.0, Reason.CRASH, 0.0)
    seed = {ref.id: (0.0, 0.0, 1.0) for ref in story.refs["val"]}
    best = {ref.id: (1.0, 1.0, 1.0) for ref in story.refs["val"]}
    seed["val-0"], best["val-1"] = lost, partly
    story.cost = story.tokens = None
    story.measure(seed)
    story.iterate("better", best)
    test = {ref.id: (1.0, 0.0, 1.0) for ref in story.refs["test"]}
    story.finalize({**test, "test-0": lost}, {**story.same("test", 0.0, 0.0, 1.0), "test-1": lost})
    story.end()


CLUSTERS = {f"{split}-{n}": f"c{n // 2}" for split in ("val", "test") for n in range(8)}

STATES: dict[str, tuple[Callable[[Any], None], dict]] = {
    "nothing": (tell_nothing, {}),
    "baseline_only": (tell_baseline_only, {}),
    "indecisive": (tell_indecisive, {}),
    "no_accept": (tell_no_accept, {}),
    "accepted": (tell_accepted, {}),
    "open_attempt": (tell_open_attempt, {}),
    "override": (tell_override, {}),
    "fit_metric": (tell_accepted, {"holdout": False}),
    "one_task": (tell_one_task, {"sizes": (1, 1, 1)}),
    "no_budget": (tell_no_budget, {"budget": {"max_calls": 0}}),
    "hostile": (tell_hostile, {"name": "demo <b>&amp;| run"}),
    "missing": (tell_missing, {"num_trials": 3}),
    "clustered": (tell_accepted, {"clusters": CLUSTERS}),
}
FINAL = ("no_accept", "accepted", "override", "fit_metric", "one_task", "hostile", "missing", "clustered")
UNFINISHED = tuple(name for name in STATES if name not in FINAL)


@dataclass(frozen=True)
class Exhibit:
    """A run in some state, and what each surface says of it."""

    story: Any
    facts: RunFacts
    markdown: str
    html: str
    status: dict

    @property
    def surfaces(self) -> dict[str, str]:
        cells = "\n".join(cell for row in candidate_rows(self.facts) for cell in row.cells)
        status = json.dumps(self.status, ensure_ascii=False)
        return {"markdown": self.markdown, "html": self.html, "status": status, "cells": cells}


@pytest.fixture(scope="session")
def gallery(tmp_path_factory, story_type) -> Callable[[str], Exhibit]:
    """A run in each of `STATES`, told once and rendered once."""
    shown: dict[str, Exhibit] = {}

    def show(name: str) -> Exhibit:
        if name not in shown:
            happen, changes = STATES[name]
            story = story_type(tmp_path_factory.mktemp(name), **changes)
            happen(story)
            facts = story.facts()
            shown[name] = Exhibit(
                story, facts, render_markdown(facts), render_html(facts), render_status(facts)
            )
        return shown[name]

    yield show
    for exhibit in shown.values():
        exhibit.story.ledger.close()


def pytest_generate_tests(metafunc) -> None:
    """`state` is every state, `final_state` those with a result, `unfinished_state` the others."""
    for name, states in (("state", tuple(STATES)), ("final_state", FINAL), ("unfinished_state", UNFINISHED)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, states)
