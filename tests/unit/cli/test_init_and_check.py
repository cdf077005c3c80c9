"""`init` makes a project that runs; `check` names each problem of an adapter with its fix."""

from __future__ import annotations

import json

import pytest

GOOD = """
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        return Rollout(task_id=task.id, output=(ctx / "prompt.md").read_text() + str(seed))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=0.5)
"""


def test_a_new_project_passes_its_check(capevolve, tmp_path):
    folder = tmp_path / "mine"
    assert capevolve("init", folder).code == 0
    said = capevolve("check", folder)
    assert said.code == 0
    assert "fit to run" in said.out
    assert 'name: "mine"' in (folder / "capevolve.yaml").read_text()
    assert "{" not in (folder / "README.md").read_text()


def test_a_folder_that_holds_something_is_not_touched(capevolve, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    said = capevolve("init", tmp_path)
    assert said.code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_good_adapter_is_proved_point_by_point(capevolve, make_project):
    said = capevolve("check", make_project(GOOD).root)
    assert said.code == 0
    for proof in (
        "12 tasks",
        "ran 3 times",
        "scorer is deterministic",
        "candidate reaches",
        "seed is forwarded",
    ):
        assert proof in said.out


@pytest.mark.parametrize(
    ("change", "problem", "fix"),
    [
        (("reward=0.5", "reward=__import__('random').random()"), "scorer gave the same", "deterministic"),
        (('(ctx / "prompt.md").read_text()', '"x"'), "no file of the candidate was opened", "ctx"),
        (("+ str(seed)", "+ __import__('uuid').uuid4().hex"), "never looks at `seed`", "Forward `seed`"),
        (("reward=0.5", "reward=2.0"), "invalid_score", "from 0 to 1"),
        (("reward=0.5", "reward=float('nan')"), "invalid_score", "from 0 to 1"),
        (("return Rollout(", "raise OSError('no key'); return Rollout("), "no key", "AgentFailure"),
        (("return Score(", "raise KeyError('gold'); return Score("), "scorer_error", "score(task, rollout)"),
        (("return Rollout(", "__import__('os')._exit(3); return Rollout("), "crash", "ended its process"),
    ],
)  # fmt: skip
def test_a_problem_is_named_with_its_fix(capevolve, make_project, change, problem, fix):
    said = capevolve("check", make_project(GOOD.replace(*change)).root)
    assert said.code == 2
    assert problem in said.out
    assert fix in said.out
    assert "Traceback (most recent call last)" not in said.err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('id=f"t{i}"', 'id="same"'), "same"),
        (("range(12)", "range(2)"), "2"),
        (("range(12)", "range(0)"), "no tasks"),
        (("class Adapter:", "class Adapter\n"), "adapter.py"),
        (("input=i", "input=float('nan')"), "t0"),
        (('id=f"t{i}"', "id=i"), "id"),
        (("input=i", "input=__import__('random').random()"), "t"),
    ],
)
def test_tasks_that_cannot_be_used_are_refused_before_a_call(capevolve, make_project, change, problem):
    project = make_project(GOOD.replace(*change))
    said = capevolve("check", project.root)
    assert said.code == 2
    assert problem in said.err
    assert "next:" in said.err


def test_a_missing_adapter_seed_folder_or_proposer_is_named(capevolve, make_project):
    project = make_project(GOOD)
    (project.root / "adapter.py").unlink()
    said = capevolve("check", project.root)
    assert (said.code, "adapter.py" in said.err) == (2, True)
    project = make_project(GOOD, {"seed_candidate": "elsewhere"})
    said = capevolve("check", project.root)
    assert (said.code, "elsewhere" in said.err) == (2, True)
    project = make_project(GOOD, {"proposer": {"kind": "command", "command": ["no-such-program"]}})
    said = capevolve("check", project.root)
    assert (said.code, "no-such-program" in said.err) == (2, True)


def test_a_mistyped_key_is_refused_with_the_nearest_named(capevolve, make_project):
    project = make_project(GOOD, {"evaluation": {"num_trails": 3}})
    said = capevolve("check", project.root)
    assert said.code == 2
    assert "num_trials" in said.err


def test_as_json_a_check_is_one_object_with_its_findings_and_calls(capevolve, make_project):
    said = capevolve("check", make_project(GOOD).root, "--json")
    found = json.loads(said.out)
    assert (said.code, found["ok"], found["schema_version"]) == (0, True, 1)
    assert found["calls"] == {"target": 4, "scorer": 9, "cost_usd": None, "tokens": None}
    assert {"what", "level", "fix"} == found["findings"][0].keys()
    bad = make_project(GOOD.replace("reward=0.5", "reward=2.0")).root
    said = capevolve("check", bad, "--json")
    found = json.loads(said.out)
    assert (said.code, found["ok"]) == (2, False)
    assert [f["level"] for f in found["findings"]].count("problem") == 1


def test_what_was_called_is_said(capevolve, make_project):
    said = capevolve("check", make_project(GOOD).root)
    assert "4 calls of the target (cost not reported), 9 of the scorer" in said.out


def test_several_trials_of_a_deterministic_target_are_a_waste(capevolve, make_project):
    same = GOOD.replace(" + str(seed)", "")
    options = {"num_trials": 3, "deterministic": True, "timeout_s": 20}
    said = capevolve("check", make_project(same, {"evaluation": options}).root)
    assert said.code == 0
    assert "the second says nothing that the first did not" in said.out
    said = capevolve("check", make_project(GOOD, {"evaluation": options}).root)
    assert said.code == 2
    assert "declared deterministic, but two seeds gave different outputs" in said.out
