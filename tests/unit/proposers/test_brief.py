"""What a proposer is told: train, and nothing of val or test, whatever way one looks for it."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from capevolve.candidates import load_candidate
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.gate.record import record_verdict
from capevolve.ledger import schema
from capevolve.ledger.evaluations import find_evaluation
from capevolve.ledger.proposals import find_proposal
from capevolve.ledger.runs import read_run
from capevolve.proposers import brief as module
from capevolve.proposers.brief import build_brief
from capevolve.proposers.proposal import make_proposal
from capevolve.start import start_run

CANARY_ADAPTER = """
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [
            Task(id=f"{s}{i}", input=f"in-{s}{i}-CANARY", target=f"gold-{s}{i}-CANARY",
                 metadata={"note": f"meta-{s}{i}-CANARY", "cluster": f"cluster-{s}{i}"})
            for s in ("aa", "bb", "cc") for i in range(4)
        ]

    def run_target(self, task, ctx, *, seed):
        print(f"printed-{task.id}-CANARY")
        text = (ctx / "prompt.md").read_text()
        return Rollout(task_id=task.id, output=f"out-{task.id}-CANARY {text}", trace=[f"trace-{task.id}-CANARY"])

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(len(rollout.output) % 7) / 7, feedback=f"words-{task.id}-CANARY")
"""

DUMPING = """
import json, os, pathlib
here = pathlib.Path(os.getcwd()).parent
seen = [f"{k}={v}" for k, v in os.environ.items()]
seen += [open("/proc/self/cmdline").read()]
for path in sorted(here.rglob("*")):
    seen.append(str(path.relative_to(here)))
    if path.is_file():
        seen.append(path.read_text())
number = os.environ["CAPEVOLVE_ITERATION"]
pathlib.Path(os.environ["CAPEVOLVE_PROJECT"], f"dump{number}").write_text("\\n".join(seen))
pathlib.Path("prompt.md").write_text("edit " + number)
json.dump({"summary": f"edit {number}"}, open(os.environ["CAPEVOLVE_PROPOSAL"], "w"))
"""


async def _iterate(run, iteration, parent):
    await evaluate(run, EvaluationRequest(parent, "train"))
    proposal = await make_proposal(run, iteration, parent)
    await evaluate(run, EvaluationRequest(proposal.candidate_id, "val"))
    record_verdict(run, iteration)


def test_nothing_of_val_or_test_reaches_a_program_by_brief_folder_environment_or_arguments(
    make_project, command
):
    ids = {
        name: [f"{letter}{i}" for i in range(4)]
        for name, letter in (("train", "aa"), ("val", "bb"), ("test", "cc"))
    }
    project = make_project(CANARY_ADAPTER, {"proposer": command, "splits": {"ids": ids}})
    project.write("propose.py", DUMPING)

    async def go(run):
        seed = (await start_run(run)).record.seed_candidate
        await evaluate(run, EvaluationRequest(seed, "val"))
        await _iterate(run, 1, seed)
        await _iterate(run, 2, seed)

    with project.driven() as run:
        asyncio.run(go(run))
    for number in ("1", "2"):
        dump = (project.root / f"dump{number}").read_text()
        for part in ("in-aa0", "gold-aa1", "meta-aa2", "out-aa3", "trace-aa0", "words-aa1"):
            assert f"{part}-CANARY" in dump
        assert set(re.findall(r"(..)\d-CANARY", dump)) == {"aa"}
        assert not re.search(r"\b(bb|cc|cluster-bb|cluster-cc)[0-3]", dump)
    brief = json.loads(re.search(r"^\{\n.*^\}", dump, re.DOTALL | re.MULTILINE).group())
    [attempt] = brief["history"]
    assert set(attempt) == {"iteration", "candidate", "decision", "summary"}
    assert (attempt["iteration"], attempt["summary"]) == (1, "edit 1")
    assert attempt["decision"] in ("accept", "reject", "indecisive")


def _brief(made, iteration=1):
    with made.project.driven() as run, run.ledger.read() as connection:
        seed = made_seed(connection, run)
        evidence = find_evaluation(connection, run.key(seed, "train"))
        return build_brief(
            connection,
            run_id=run.id,
            iteration=iteration,
            max_iterations=3,
            incumbent=load_candidate(connection, seed),
            evidence=evidence,
        )


def made_seed(connection, run):
    return read_run(connection, run.id).seed_candidate


def test_a_brief_tells_the_train_tasks_with_what_the_incumbent_made_of_them(make_run):
    made = make_run()
    brief = _brief(made)
    assert (brief.train.mean, brief.train.n_tasks, brief.train.n_scored) == (0.5, 4, 4)
    assert len(brief.tasks) == 4
    task = brief.tasks[0]
    assert task.input == int(task.task_id[1:])
    assert task.target == "MARK"
    [trial] = task.trials
    assert (trial.reward, trial.unmeasured, trial.output) == (0.5, None, "train output")
    assert trial.feedback == f"words on {task.task_id}"
    assert brief.candidate.files == ["prompt.md"]
    assert json.loads(brief.to_json())["schema"] == 1


def test_a_brief_says_how_much_is_left_and_which_is_the_last(make_run):
    made = make_run()
    told = [_brief(made, iteration) for iteration in (1, 2, 3, 4)]
    assert [(b.remaining_iterations, b.last) for b in told] == [(2, False), (1, False), (0, True), (0, True)]


def test_evidence_from_any_other_split_is_refused(make_run):
    made = make_run(evidence=False)
    with made.project.driven() as run:
        made.measure(run, "val")
        with run.ledger.read() as connection:
            seed = made_seed(connection, run)
            evidence = find_evaluation(connection, run.key(seed, "val"))
            with pytest.raises(ValueError, match="train evidence only"):
                build_brief(
                    connection,
                    run_id=run.id,
                    iteration=1,
                    max_iterations=3,
                    incumbent=load_candidate(connection, seed),
                    evidence=evidence,
                )


def test_the_history_tells_what_became_of_each_attempt_without_a_number(make_run):
    edits = [{"summary": "one", "edits": {"prompt.md": "1"}}, {"summary": "two", "edits": {}}]
    made = make_run(edits=edits)
    first, second = made.propose(1), made.propose(2)
    with made.project.driven() as run:
        for candidate in (first.candidate_id, first.parent_id):
            made.measure(run, "val", candidate)
        record_verdict(run, 1)
        with run.ledger.read() as connection:
            assert find_proposal(connection, run.id, 2) == second
    told = [(a.iteration, a.candidate, a.decision, a.summary) for a in _brief(made, 3).history]
    assert told == [(1, first.candidate_id, "indecisive", "one"), (2, None, "empty", "two")]
    assert [a.iteration for a in _brief(made, 2).history] == [1]


def test_the_worst_task_comes_first_and_what_was_not_measured_last(make_run):
    made = make_run()
    with made.project.driven() as run, run.ledger.write() as connection:
        table = schema.trials
        ids = sorted(connection.scalars(table.select().with_only_columns(table.c.task_id)))
        for task, reward in zip(ids, (0.75, 0.0, 1.0), strict=False):
            connection.execute(table.update().where(table.c.task_id == task).values(reward=reward))
        missing = {"state": "unmeasured", "reward": None, "reason": "timeout", "detail": "3 s"}
        connection.execute(table.update().where(table.c.task_id == ids[3]).values(missing))
    brief = _brief(made)
    assert [task.task_id for task in brief.tasks] == [ids[1], ids[0], ids[2], ids[3]]
    last = brief.tasks[3]
    assert (last.mean, last.trials[0].reward, last.trials[0].unmeasured) == (None, None, "timeout: 3 s")
    assert (brief.train.n_scored, brief.train.n_tasks) == (3, 4)


@pytest.mark.parametrize("depth", [50, 100, 400, 5000])
def test_an_output_nested_however_deeply_can_be_told(make_run, depth):
    made = make_run()
    payload = '{"output": ' + "[" * depth + "1" + "]" * depth + "}"
    with made.project.driven() as run, run.ledger.write() as connection:
        connection.execute(schema.rollouts.update().values(payload=payload))
    text = _brief(made).to_json()
    assert ("nested too deeply" in text) == (depth > module.MAX_DEPTH)
    json.loads(text)
