"""What cap-evolve's own contract says of evaluate, the gate and finalize, asked of capevolve.

8 tasks at 50/25/25; the target's reward is 1 on even and 0 on odd seeds; 2 trials.
"""

from __future__ import annotations

import asyncio

import pytest

from capevolve.errors import TestSealError, TrainGateError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.finalize import finalize
from capevolve.gate import GateSettings, judge
from capevolve.ledger.evaluations import find_evaluation
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.runs import read_split
from capevolve.model import Measurement
from capevolve.stats import summarize

SEED_PARITY = """
import os
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=t, input={"name": t}) for t in "abcdefgh"]

    def run_target(self, task, ctx, *, seed=0):
        if task.id == os.environ.get("DEAD_TASK"):
            return Rollout(task_id=task.id, error="infra: runner exploded")
        return Rollout(task_id=task.id, output=str(seed))

    def score(self, task, rollout):
        if os.environ.get("DISAGREE"):
            return Score(task_id=task.id, reward=1.0 if task.id in os.environ["DISAGREE"] else 0.0)
        return Score(task_id=task.id, reward=1.0 if int(rollout.output) % 2 == 0 else 0.0)
"""

SPEC = {
    "splits": {"ratios": {"train": 0.5, "val": 0.25, "test": 0.25}},
    "evaluation": {"num_trials": 2, "concurrency": 2, "retries": 0, "timeout_s": 20},
}

pytestmark = pytest.mark.both_ledgers


@pytest.fixture
def project(make_project):
    return make_project(SEED_PARITY, SPEC)


def _evaluate(project, split="val", **changes) -> Measurement:
    from capevolve.start import start_run

    async def go(run):
        started = await start_run(run)
        return await evaluate(run, EvaluationRequest(started.record.seed_candidate, split, **changes))

    with project.driven() as run:
        return asyncio.run(go(run))


def _val_ids(project) -> list[str]:
    with project.driven() as run, run.ledger.read() as connection:
        return [task.ref.id for task in read_split(connection, run.id, "val")]


def test_exactly_the_val_tasks_are_scored_with_both_trials_each(project):
    measurement = _evaluate(project)
    assert [task.task_id for task in measurement.tasks] == _val_ids(project)
    assert len(measurement.tasks) == 2
    for task in measurement.tasks:
        assert sorted(task.rewards) == [0.0, 1.0]
    summary = summarize(measurement)
    assert summary.mean == 0.5
    assert summary.n_scored == summary.n_tasks == 2


def test_a_task_whose_runner_always_errors_is_missing_data_and_its_rollouts_are_kept(project, monkeypatch):
    _evaluate(project, "train")  # starts the run, so that the val ids are known
    dead = _val_ids(project)[0]
    monkeypatch.setenv("DEAD_TASK", dead)
    summary = summarize(_evaluate(project))
    assert summary.coverage == 0.5
    assert summary.mean == 0.5
    with project.driven() as run, run.ledger.read() as connection:
        from capevolve.ledger.runs import read_run

        evaluation = find_evaluation(connection, run.key(read_run(connection, run.id).seed_candidate, "val"))
        assert evaluation is not None
        kept = [r for r in read_rollouts(connection, evaluation.id) if r.task_id == dead]
    assert len(kept) == 2
    assert "runner exploded" in kept[0].payload


def test_tasks_that_disagree_give_a_standard_error_above_zero(project, monkeypatch):
    monkeypatch.setenv("DISAGREE", "-")
    _evaluate(project, "train")
    monkeypatch.setenv("DISAGREE", _val_ids(project)[0])
    summary = summarize(_evaluate(project))
    assert summary.se is not None
    assert summary.se > 0


def test_a_k_above_the_trials_is_absent_from_pass_k(project):
    summary = summarize(_evaluate(project), ks=(1, 2, 3))
    assert set(summary.pass_k) == {1, 2}
    assert set(summary.pass_at_k) == {1, 2}


def test_gating_on_train_is_refused(project):
    train = _evaluate(project, "train")
    with pytest.raises(TrainGateError):
        judge(train, train, GateSettings())


def test_a_second_finalize_is_refused_and_calls_nothing(project):
    _evaluate(project)

    with project.driven() as run:
        result = asyncio.run(finalize(run))
        with pytest.raises(TestSealError, match="scored once"):
            asyncio.run(finalize(run))
    assert result.test.reward == 0.5
    assert result.test.n_tasks == 2
    assert result.test_delta is None
    assert result.test_delta_reason == "no_change"
