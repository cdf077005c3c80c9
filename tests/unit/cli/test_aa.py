"""`capevolve aa`: the noise floor on standard output, and an exit code that says whether the gate held."""

from __future__ import annotations

import pytest

from capevolve.gate.confirm.seeds import AA, fresh_seed

# The first session passes fewer tasks than every later one: see tests/unit/gate/test_control.py.
LUCKY = """
import os
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        fd = os.open(os.environ["TARGET_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{task.id} {seed}\\n".encode())
        os.close(fd)
        return Rollout(task_id=task.id, output=task.input % 4 < (1 if seed < 1000 else 2))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""
ONE = {"num_trials": 1, "concurrency": 1, "retries": 0}
IDS = {"train": ["t08"], "val": [f"t{i:02d}" for i in range(8)], "test": ["t09", "t10", "t11"]}


@pytest.fixture
def make(make_project):
    return lambda **gate: make_project(LUCKY, {"splits": {"ids": IDS}, "gate": gate, "evaluation": ONE})


def test_a_gate_that_accepts_the_copy_exits_2_with_the_floor_on_standard_output(capevolve, make):
    project = make(mode="strict")
    said = capevolve("aa", project.root)
    assert said.code == 2
    # 2 of 8 tasks moved by 1: mean 1/4, standard error sqrt((1/4 * 3/4) / 7).
    floor = "Noise floor: the copy differs from the seed candidate by +0.250 ± 0.164 on val; accept: "
    assert said.out.startswith(floor)
    assert said.out.count("\n") == 1
    assert "The A/A control failed: the gate accepted a byte-identical copy" in said.err
    assert "A/A control of gate strict; test stays sealed" in said.err
    assert "Traceback" not in said.err


def test_a_gate_that_holds_exits_0_and_calls_the_target_for_val_alone(capevolve, make):
    project = make(mode="paired", k_se=3.0)
    said = capevolve("aa", project.root, "--run", "noise")
    assert said.code == 0
    assert said.out.startswith(
        "Noise floor: the copy differs from the seed candidate by +0.250 ± 0.164 on val; reject: "
    )
    calls = project.calls()
    assert sorted(calls) == sorted(
        f"{i} {seed}" for i in IDS["val"] for seed in (0, fresh_seed(0, AA, "control"))
    )
    again = capevolve("aa", project.root, "--run", "noise")
    assert (again.code, again.out) == (0, said.out)
    assert project.calls() == calls


def test_the_run_that_keeps_the_control_is_named_after_the_project_and_has_ended(capevolve, make):
    project = make(mode="paired", k_se=3.0)
    said = capevolve("aa", project.root)
    assert said.code == 0
    name = said.err.split()[1].rstrip(":")
    assert name.startswith("marker-aa-")
    status = capevolve("status", name, "-p", project.root)
    assert status.code == 0
    assert "stopped" in status.out
    assert "A/A control" in status.out


def test_mode_confirm_holds_against_the_same_luck(capevolve, make):
    project = make(confirm={"screen_p": 1.0, "race_kill_p": 1.0})
    said = capevolve("aa", project.root)
    assert said.code == 0
    assert "differs from the seed candidate by +0.000 " in said.out
    assert "reject: not confirmed in its peek: p " in said.out


def test_a_project_that_cannot_be_loaded_exits_2_and_calls_nobody(capevolve, make):
    project = make(mode="strict")
    (project.root / "seed" / "prompt.md").unlink()
    (project.root / "seed").rmdir()
    said = capevolve("aa", project.root)
    assert (said.code, said.out) == (2, "")
    assert "seed" in said.err
    assert "Usage" not in said.err
    assert project.calls() == []
