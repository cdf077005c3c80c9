"""`log` and `show`: the tree of candidates, and one of them with its verdict and its edit."""

from __future__ import annotations

import pytest

from capevolve.canonical import short
from capevolve.cli.lineage import describe_stage
from capevolve.ledger.proposals import read_proposals, read_verdicts
from capevolve.ledger.runs import read_run
from capevolve.model import StageVerdict

ADAPTER = """
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        return Rollout(task_id=task.id, output=float((ctx / "prompt.md").read_text()))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=rollout.output)
"""
EDITS = [
    {"summary": "worse", "edits": {"prompt.md": "0.1"}},
    {"summary": "better", "edits": {"prompt.md": "0.5"}},
    {"summary": "the [bold]same[/bold] again", "edits": {"prompt.md": "0.1"}},
    {"summary": "worse again", "edits": {"prompt.md": "0.4"}},
]


@pytest.fixture
def finished(make_project, search_only):
    project = make_project(ADAPTER, {"search": {"max_iterations": 4}}, {"prompt.md": "0.2"}, EDITS)
    search_only(project)
    return project


def read(project):
    with project.driven() as run, run.ledger.read() as connection:
        seed = read_run(connection, run.id).seed_candidate
        return seed, read_proposals(connection, run.id), read_verdicts(connection, run.id)


def test_a_log_puts_each_candidate_below_the_one_that_it_edited(capevolve, finished):
    seed, proposals, _ = read(finished)
    said = capevolve("log", "-p", finished.root)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{short(seed)} seed candidate: val 0.200")
    depths = {line.split("#")[1].split()[0]: line.index("#") for line in lines if "#" in line}
    assert depths["1"] == depths["2"] < depths["3"] == depths["4"]
    assert f"#2 {short(proposals[1].candidate_id)} accept, incumbent: val 0.500" in said.out
    assert "#3" in said.out
    assert "duplicate" in said.out
    assert "the [bold]same[/bold] again" in said.out, "words are no markup"


def test_a_candidate_is_shown_with_its_verdict_its_files_and_its_edit(capevolve, finished):
    seed, proposals, verdicts = read(finished)
    said = capevolve("show", "best", "-p", finished.root).out
    assert said.startswith(f"candidate {proposals[1].candidate_id}\nparent    {seed}\niteration 2, ")
    assert "edit      better\n" in said
    assert f"verdict   accept, incumbent: {verdicts[1].verdict.reason}" in said
    assert "  prompt.md, 3 bytes\n" in said
    assert "-0.2" in said
    assert "+0.5" in said
    again = capevolve("show", short(proposals[1].candidate_id), "-p", finished.root).out
    assert again == said


def test_the_seed_candidate_has_no_parent_and_no_edit(capevolve, finished):
    said = capevolve("show", "seed", "-p", finished.root).out
    assert "seed candidate: val 0.200" in said
    assert "parent" not in said
    assert "---" not in said


def test_a_candidate_of_another_run_is_not_called_one_of_this(capevolve, finished, baseline):
    _, proposals, _ = read(finished)
    baseline(finished, "r2")
    said = capevolve("show", short(proposals[1].candidate_id), "--run", "r2", "-p", finished.root).out
    assert "of another run of this ledger" in said


def test_a_name_that_is_no_candidate_is_refused(capevolve, finished):
    said = capevolve("show", "nothing", "-p", finished.root)
    assert said.code == 2
    assert "No candidate is called 'nothing'" in said.err


def test_stages_of_a_confirmation_are_told_with_their_limits():
    race = StageVerdict("race", 0.125, 0.7, None, None, None, 1, 0, "8", None)
    look = StageVerdict("look-1", None, 0.25, 0.0075, 2, 0.025, 3, 9, "8", "9")
    assert describe_stage(race) == "race: p 0.125, rejects above 0.7"
    assert describe_stage(look) == "look-1: p undefined, rejects above 0.25, accepts up to 0.0075 (slot 2)"
