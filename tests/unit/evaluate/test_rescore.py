"""Stored rollouts scored again in real hosts: no call of the target, no change of what was recorded."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from capevolve.errors import AdapterError, TestSealError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.evaluate.comparison import compare
from capevolve.evaluate.rescore import AGENT_FAILED, rescore
from capevolve.evaluate.stored import Unfit
from capevolve.start import start_run

ADAPTER = """
import os
from capevolve import Adapter as Base, AgentFailure, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i, target=CONTENT) for i in range(12)]

    ASYNC def run_target(self, task, ctx, *, seed):
        with open(os.environ["TARGET_CALLS"], "a") as file:
            file.write(f"{task.id} {seed}\\n")
        if task.input == 3:
            raise AgentFailure("gave up")
        if task.input == 4:
            return Rollout(task_id=task.id, error="429")
        trace = ["x" * 1000] * (2000 if task.input == 5 else 6)
        return Rollout(task_id=task.id, output=task.input, trace=trace, metadata={"k": "ü"}, tokens=9)

    ASYNC def score(self, task, rollout):
        SCORE
"""

OLD = 'return Score(task_id=task.id, reward=0.5, feedback="old")'
NEW = """assert len(rollout.trace) == 6 and rollout.metadata == {"k": "ü"} and rollout.tokens == 9
        assert rollout.error is None and rollout.output == task.input
        return Score(task_id=task.id, reward=1.0 if task.input % 2 else 0.5, feedback="new",
                     metrics=[{"name": "m", "value": 1.0 if task.input % 2 else 0.5, "primary": True,
                               "direction": "higher"}])"""


def source(score=OLD, *, asynchronous=False, content="1"):
    kind = "async def" if asynchronous else "def"
    return ADAPTER.replace("ASYNC def", kind).replace("SCORE", score, 1).replace("CONTENT", content)


ALL = {"splits": {"counts": {"train": 2, "val": 8, "test": 2}}}


class Bench:
    def __init__(self, project):
        self.project = project

    def measure(self):
        async def go(run):
            started = await start_run(run)
            await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"))

        with self.project.driven() as run:
            asyncio.run(go(run))

    def rescore(self, **options):
        with self.project.driven() as run:
            return asyncio.run(
                rescore(run.ledger, "r1", run.adapter, run.spec.evaluation, clock=lambda: 1.0, **options)
            )

    def rows(self, statement):
        connection = sqlite3.connect(self.project.root / ".capevolve" / "ledger.db")
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def recorded(self):
        return [
            self.rows(f"SELECT * FROM {name} ORDER BY 1, 2, 3") for name in ("trials", "rollouts", "blobs")
        ]


@pytest.fixture
def bench(make_project):
    def make(**options):
        bench = Bench(make_project(source(**options), ALL))
        bench.measure()
        return bench

    return make


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_changed_scorer_scores_what_is_stored_and_the_target_is_not_called(bench, asynchronous):
    lab = bench(asynchronous=asynchronous)
    calls, recorded = lab.project.calls(), lab.recorded()
    lab.project.write("adapter.py", source(NEW, asynchronous=asynchronous))
    found = lab.rescore()
    assert lab.project.calls() == calls
    assert lab.recorded() == recorded
    (done,) = found.evaluations
    numbers = {int(ref.id[1:]) for ref in done.tasks}
    for number in numbers:
        row = done.again.get((f"t{number:02d}", 0))
        if number == 3:
            assert (row.reward, row.detail) == (0.0, AGENT_FAILED)
        elif number == 4:
            assert row is None
        elif number == 5:
            assert row.reason == Unfit.TRUNCATED
        else:
            assert (row.reward, row.feedback, row.detail) == (1.0 if number % 2 else 0.5, "new", "")
            assert '"primary":true' in row.metrics
    assert found.scored_now == len(numbers - {3, 4, 5})
    # Asked again it shows what is recorded.
    again = lab.rescore()
    assert (again.scored_now, again.evaluations) == (0, found.evaluations)


def test_a_scorer_that_fails_is_asked_again_and_its_first_words_stay_on_record(bench):
    lab = bench()
    flag = lab.project.root / "up"
    flaky = f'if not os.path.exists({str(flag)!r}):\n            raise OSError("the judge is down")\n        {OLD}'
    lab.project.write("adapter.py", source(flaky))
    first = lab.rescore()
    reasons = {row.reason for row in first.evaluations[0].again.values()}
    assert "scorer_error" in reasons
    assert compare(first.evaluations[0]).new.n_tasks == sum(
        row.reward is not None for row in first.evaluations[0].again.values()
    )
    flag.touch()
    second = lab.rescore()
    assert second.scored_now == first.scored_now
    assert not {row.reason for row in second.evaluations[0].again.values()} & {"scorer_error"}
    asked = lab.rows("SELECT asked, count(*) FROM rescores WHERE reason = 'scorer_error' GROUP BY asked")
    assert asked == [(1, first.scored_now)]


def test_a_scorer_whose_data_changed_is_asked_about_everything_when_told_to(bench):
    lab = bench()
    (lab.project.root / "grade.txt").write_text("0.25")
    graded = 'return Score(task_id=task.id, reward=float(open("grade.txt").read()))'
    lab.project.write("adapter.py", source(graded))
    first = lab.rescore()
    (lab.project.root / "grade.txt").write_text("0.75")
    assert lab.rescore().evaluations == first.evaluations
    second = lab.rescore(again=True)
    assert second.scored_now == first.scored_now
    assert {row.reward for row in second.evaluations[0].again.values()} - {0.0, None} == {0.75}
    assert lab.rows("SELECT count(*) FROM rescores WHERE reward = 0.25") == [(first.scored_now,)]


def test_a_task_whose_content_changed_is_refused_before_anything_is_scored(bench):
    lab = bench()
    lab.project.write("adapter.py", source(content="2"))
    with pytest.raises(
        AdapterError, match="changed since the splits were frozen, so its rollouts answer another"
    ):
        lab.rescore()
    assert lab.rows("SELECT * FROM rescores") == []


def test_the_test_split_is_refused(bench):
    lab = bench()
    with pytest.raises(TestSealError, match="never scored again"):
        lab.rescore(split="test")


@pytest.mark.both_ledgers
def test_one_split_or_one_candidate_can_be_chosen(bench):
    lab = bench()
    assert lab.rescore(split="train").evaluations == ()
    assert lab.rescore(candidate_id="sha256:another").evaluations == ()
    assert len(lab.rescore(split="val").evaluations) == 1
