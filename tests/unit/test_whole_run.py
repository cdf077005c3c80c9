"""Whole runs through the domain: what must not depend on concurrency, and what a bad target may cost."""

from __future__ import annotations

import re

import pytest

from capevolve.ledger.attempts import read_attempts
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.runs import find_splits
from capevolve.ledger.trials import read_trials
from capevolve.model import Reason, Scored, Unmeasured
from capevolve.report import write_projections

STOCHASTIC = """
import random, time
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(24)]

    def run_target(self, task, ctx, *, seed):
        rng = random.Random(f"{seed}:{task.id}")
        time.sleep(rng.random() / 100)
        return Rollout(task_id=task.id, output=rng.random() < float((ctx / "prompt.md").read_text()))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""
EDITS = [
    {"summary": "worse", "edits": {"prompt.md": "0.2"}},
    {"summary": "better", "edits": {"prompt.md": "0.9"}},
]

pytestmark = pytest.mark.both_ledgers


def run_with(make_project, complete, concurrency):
    spec = {
        "name": "same",
        "splits": {"counts": {"train": 8, "val": 8, "test": 8}},
        "evaluation": {"num_trials": 3, "concurrency": concurrency},
    }
    project = make_project(STOCHASTIC, spec, {"prompt.md": "0.5"}, EDITS)
    complete(project)
    with project.driven() as run:
        with run.ledger.read() as c:
            splits = find_splits(c, run.id)
            verdicts = [(v.iteration, v.candidate_id, v.verdict) for v in read_verdicts(c, run.id)]
        written = write_projections(run.ledger, run.root, run.id, now=0.0)
    return splits.digest, verdicts, written.report_md.read_text(), written.final.read_text()


def without_times(report):
    report = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( UTC)?", "TIME", report)
    report = re.sub(r"PID \d+", "PID", report)
    return re.sub(r"sha256:[0-9a-f]+|\b[0-9a-f]{12,64}\b", "DIGEST", report)


def test_one_and_eight_trials_at_once_give_the_same_splits_verdicts_and_report(make_project, complete):
    one = run_with(make_project, complete, 1)
    eight = run_with(make_project, complete, 8)
    assert one[0] == eight[0]
    assert one[1] == eight[1]
    assert without_times(one[2]) == without_times(eight[2])
    assert without_times(one[3]) == without_times(eight[3])


MISBEHAVING = """
import os, sys, time
from capevolve import Rollout, Score, Task

HOSTILE = ["raises", "hangs", "exits", "prints", "moves", "a/b", "../x", "x" * 300, "Foo", "foo", "\\U0001f600", "CON"]

class Adapter:
    def tasks(self, split):
        return [Task(id=name, input=name) for name in HOSTILE]

    def run_target(self, task, ctx, *, seed):
        open("adapter.py").close()  # the working directory is still the project
        if task.id == "raises":
            raise ConnectionError("the provider is away")
        if task.id == "hangs":
            time.sleep(600)
        if task.id == "exits":
            os._exit(1)
        if task.id == "prints":
            print('{"reward": 1.0}', flush=True)
            os.write(1, b"\\x00\\xff" * 50_000)
            os.close(1)
        if task.id == "moves":
            os.chdir("/")
        return Rollout(task_id=task.id, output=(ctx / "prompt.md").read_text())

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=0.5)
"""


@pytest.mark.parametrize("concurrency", [2, 12])
def test_a_target_that_misbehaves_costs_only_its_own_trial(make_project, complete, concurrency):
    ids = [
        "raises",
        "hangs",
        "exits",
        "prints",
        "moves",
        "a/b",
        "../x",
        "x" * 300,
        "Foo",
        "foo",
        "\U0001f600",
        "CON",
    ]
    spec = {
        "splits": {"ids": {"train": ids[-2:], "val": ids[:-4], "test": ids[-4:-2]}},
        "evaluation": {
            "concurrency": concurrency,
            "timeout_s": 1,
            "grace_s": 0.2,
            "retries": 0,
            "timeout_is": "infra",
        },
        "search": {"max_iterations": 0},
    }
    project = make_project(MISBEHAVING, spec)
    complete(project)
    with project.driven() as run, run.ledger.read() as c:
        (val,) = [e for e in list_evaluations(c, run.id) if e.key.split == "val"]
        outcomes = {t.task_id: t.outcome for t in read_trials(c, val.id)}
        (test,) = [e for e in list_evaluations(c, run.id) if e.key.split == "test"]
        assert all(t.outcome == Scored(0.5) for t in read_trials(c, test.id))
        assert len(list(read_rollouts(c, val.id))) == 8
        assert read_attempts(c, run.id)[0].state == "committed"
    reasons = {i: o.reason for i, o in outcomes.items() if isinstance(o, Unmeasured)}
    assert reasons == {"raises": Reason.INFRA, "hangs": Reason.TIMEOUT, "exits": Reason.CRASH}
    assert all(o == Scored(0.5) for i, o in outcomes.items() if i not in reasons)
    assert "the provider is away" in outcomes["raises"].detail
    assert "code 1" in outcomes["exits"].detail
    assert not (project.root.parent / "x").exists()
