"""Whole runs in mode confirm: nothing depends on concurrency, and the result tells of val what the report does."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from capevolve.gate.confirm.seeds import fresh_seed
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.trials import read_trials
from capevolve.report import render_status, write_projections

STOCHASTIC = """
import hashlib, os, time
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        skill = int((ctx / "prompt.md").read_text())
        fd = os.open(os.environ["TARGET_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{skill} {task.id} {seed}\\n".encode())
        os.close(fd)
        draw = int(hashlib.sha256(f"{task.id} {seed}".encode()).hexdigest(), 16) % 100
        time.sleep(draw / 20000)
        return Rollout(task_id=task.id, output=draw < skill)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""
EDITS = [
    {"summary": "worse", "edits": {"prompt.md": "5"}},
    {"summary": "better", "edits": {"prompt.md": "95"}},
]
SEED = 34  # with which the first edit is lost at the race and the second confirmed in its second look
IDS = {"train": ["t08"], "val": [f"t{i:02d}" for i in range(8)], "test": ["t09", "t10", "t11"]}


@pytest.fixture
def run_with(make_project, complete):
    """Drives a whole run at this concurrency; returns its project and what it ended with."""

    def go(concurrency: int):
        spec = {
            "splits": {"ids": IDS},
            "evaluation": {"num_trials": 1, "concurrency": concurrency, "retries": 0, "base_seed": SEED},
            "gate": {"confirm": {"alpha_run": 0.4, "max_failed_confirmations": 2, "race_kill_p": 0.9}},
        }
        project = make_project(STOCHASTIC, spec, {"prompt.md": "40"}, EDITS)
        complete(project)
        with project.driven() as run:
            with run.ledger.read() as connection:
                verdicts = read_verdicts(connection, run.id)
            written = write_projections(run.ledger, run.root, run.id, now=0.0)
        return project, verdicts, written

    return go


def without_times(report: str) -> str:
    report = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( UTC)?", "TIME", report)
    report = re.sub(r"PID \d+", "PID", report)
    return re.sub(r"sha256:[0-9a-f]+|\b[0-9a-f]{12,64}\b", "DIGEST", report)


def test_one_and_three_trials_at_once_give_the_same_verdicts_calls_report_and_result(run_with, complete):
    one, three = run_with(1), run_with(3)
    assert [record.verdict for record in one[1]] == [record.verdict for record in three[1]]
    assert Counter(one[0].calls()) == Counter(three[0].calls())
    assert without_times(one[2].report_md.read_text()) == without_times(three[2].report_md.read_text())
    assert without_times(one[2].final.read_text()) == without_times(three[2].final.read_text())
    lost, won = (record.verdict for record in one[1])
    assert (lost.decision.value, lost.rule) == ("reject", "race")
    assert (won.decision.value, won.rule) == ("accept", "confirm")
    check_calls(*three[:2])
    check_val(three[1], three[2])
    calls = three[0].calls()
    complete(three[0])
    assert three[0].calls() == calls, "driven again, a finished run calls nobody"


def check_calls(project, verdicts) -> None:
    """Each trial is called once, and both arms of a look with the fresh seeds of the look."""
    calls = Counter(project.calls())
    assert set(calls.values()) == {1}
    with project.driven() as run, run.ledger.read() as connection:
        trials = [
            read_trials(connection, evaluation.id) for evaluation in list_evaluations(connection, run.id)
        ]
    assert calls.total() == sum(map(len, trials))
    looks = [stage for stage in verdicts[1].verdict.stages if stage.slot]
    assert [look.stage for look in looks] == ["peek", "look-1", "look-2"]
    for look in looks:
        assert look.base_seed == fresh_seed(SEED, verdicts[1].candidate_id, look.stage)
        for task in look.task_ids or IDS["val"]:
            assert calls[f"95 {task} {look.base_seed}"] == calls[f"40 {task} {look.base_seed}"] == 1


def check_val(verdicts, written) -> None:
    """`val` of final.json is what the report shows: the fresh trials of the best, all of the seed candidate's."""
    val = json.loads(written.final.read_text())["val"]
    facts = written.facts
    for kept, shown in ((val["best"], facts.best_val.score), (val["baseline"], facts.baseline.score)):
        assert kept["reward"] == pytest.approx(shown.mean)
        assert kept["stderr"] == pytest.approx(shown.se)
        assert (kept["n_scored"], kept["n_trials"]) == (shown.n_scored, shown.n_trials)
    assert (val["best"]["n_trials"], val["baseline"]["n_trials"]) == (16, 24)
    assert (val["selected"], val["fresh"]) == (True, True)
    assert render_status(facts)["final"]["val"] == val
    assert verdicts[1].candidate_id == facts.best_id
