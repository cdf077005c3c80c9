"""The flows on a real Prefect API: what they show, and what a retry or a second run may not do."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.sorting import TaskRunSort

from capevolve.errors import (
    BudgetExhaustedError,
    CandidateError,
    LeaseHeldError,
    OutsideError,
    TestSealError,
    UserError,
)
from capevolve.ledger.proposals import read_proposals, read_verdicts
from capevolve.ledger.runs import read_run
from capevolve.verify import verify_run
from capevolve_flows.finalize_run import finalize
from capevolve_flows.optimize import optimize
from capevolve_tasks import evaluate as evaluate_task

LIVE_ADAPTER = """
from contextlib import contextmanager
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(12)]

    @contextmanager
    def live(self, candidate_dir):
        text = (candidate_dir / "prompt.md").read_text()
        if "BROKEN" in text:
            raise ValueError("the format is broken")
        yield text

    def run_target(self, task, ctx, *, seed):
        return Rollout(task_id=task.id, output=ctx)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float("MARK" in rollout.output))
"""
BROKEN_TARGET = """
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        return Rollout(task_id=task.id, error="401: no key")

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=1.0)
"""


def run_flow(project, run_id="r1"):
    return asyncio.run(optimize(str(project.root), run_id))


async def read_flow_runs(name):
    async with get_client() as client:
        return [r for r in await client.read_flow_runs() if r.name == name]


async def read_task_runs(flow_run_id):
    async with get_client() as client:
        runs = await client.read_task_runs(sort=TaskRunSort.EXPECTED_START_TIME_ASC)
        return [r for r in runs if r.flow_run_id == flow_run_id]


async def read_artifacts(key):
    async with get_client() as client:
        found = await client.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key])))
    return sorted(found, key=lambda artifact: artifact.created)


def test_a_run_ends_in_a_report_and_shows_its_steps_badges_and_artifacts(make_project):
    project = make_project()
    report = Path(run_flow(project, "shown"))
    assert report.name == "report.html"
    assert report.exists()
    (flow_run,) = asyncio.run(read_flow_runs("optimize-shown"))
    tasks = asyncio.run(read_task_runs(flow_run.id))
    assert all("run:shown" in task.tags for task in tasks)
    names = Counter(task.name.split("-")[0] for task in tasks)
    assert names == {"split": 1, "evaluate": 3, "propose": 2, "gate": 2, "finalize": 1, "report": 1}
    badges = {task.name: task.state.name for task in tasks if task.name.startswith("gate")}
    assert badges == {"gate-1": "Indecisive", "gate-2": "Accepted"}
    latest = asyncio.run(read_artifacts("candidates-shown"))[-1]
    rows = json.loads(latest.data)
    assert [row["#"] for row in rows] == ["0", "1", "2"]
    assert rows[2]["verdict"].startswith("accept")
    assert all("±" in row["val ± SE"] for row in rows)
    assert asyncio.run(read_artifacts("report-shown"))
    assert asyncio.run(read_artifacts("seal-shown"))
    progress = asyncio.run(read_artifacts("progress-shown-seed-val"))
    assert float(progress[-1].data) == 100.0


def test_a_second_flow_run_on_the_same_run_calls_the_target_no_more(make_project):
    project = make_project()
    run_flow(project)
    calls = project.calls()
    run_flow(project)
    assert project.calls() == calls
    assert max(Counter(calls).values()) <= 3  # a val or test trial once per candidate


def test_a_flow_that_fails_halfway_is_continued_by_its_next_run(make_project, hook):
    project = make_project()

    def fail(name):
        if name == "gate.judged":
            raise RuntimeError("the process was killed here")

    hook(fail)
    with pytest.raises(RuntimeError):
        run_flow(project)
    hook(lambda _: None)
    before = Counter(project.calls())
    run_flow(project)
    after = Counter(project.calls())
    val_of_seed_and_first = {call for call, count in before.items() if count == 2}
    assert len(val_of_seed_and_first) == 4
    assert len(project.calls()) == 4 * 3 + 4 * 2  # val for three candidates, test for two
    assert all(after[call] == 3 for call in val_of_seed_and_first)


def test_a_failure_outside_is_retried_and_a_mistake_of_the_user_is_not(make_project, monkeypatch):
    from capevolve_tasks import steps

    project = make_project()
    monkeypatch.setattr(steps.split, "retry_delay_seconds", 0)
    monkeypatch.setattr(steps.split, "retry_jitter_factor", None)
    real, tries = steps.start_run, []

    async def flaky(run):
        tries.append(1)
        if len(tries) < 3:
            raise OutsideError("the provider is away")
        return await real(run)

    monkeypatch.setattr(steps, "start_run", flaky)
    run_flow(project, "outside")
    assert len(tries) == 3

    async def wrong(run):
        tries.append(1)
        raise UserError("this is wrong for good")

    monkeypatch.setattr(steps, "start_run", wrong)
    tries.clear()
    with pytest.raises(UserError):
        run_flow(make_project(), "wrong")
    assert len(tries) == 1


def test_a_run_that_is_driven_refuses_a_second_driver_by_name(make_project):
    project = make_project()
    with project.driven("held"), pytest.raises(LeaseHeldError, match=str(os.getpid())):
        run_flow(project, "held")
    assert project.calls() == []
    run_flow(project, "held")


def test_a_task_cannot_evaluate_test_and_finalize_still_works(make_project):
    project = make_project(spec={"search": {"max_iterations": 0}})
    run_flow_until_searched(project)

    @flow
    async def peek(root):
        from capevolve.runs import drive_run

        with drive_run(Path(root), "r1", create=False) as run:
            with run.ledger.read() as connection:
                seed_id = read_run(connection, run.id).seed_candidate
            await evaluate_task(run.ref, seed_id, "test", "peek")

    before = project.calls()
    with pytest.raises(TestSealError):
        asyncio.run(peek(str(project.root)))
    assert project.calls() == before
    asyncio.run(finalize(str(project.root), "r1"))
    assert len(project.calls()) == len(before) + 4


def run_flow_until_searched(project):
    """A run whose finalize was cut off before it opened the seal."""
    from capevolve import failpoints

    def cut(name):
        if name == "seal.admitted":
            raise RuntimeError("cut")

    failpoints.hook = cut
    try:
        with pytest.raises(RuntimeError):
            run_flow(project)
    finally:
        failpoints.hook = None


def test_a_run_without_a_name_is_found_again_by_its_flow_run(make_project):
    project = make_project()

    @flow(name="optimize", retries=0)
    async def unnamed(root):
        return await optimize(root)

    report = asyncio.run(unnamed(str(project.root)))
    assert Path(report).exists()
    run_id = Path(report).parent.name
    (flow_run,) = asyncio.run(read_flow_runs(f"optimize-{run_id}"))
    assert str(flow_run.id) == run_id


def test_without_prefects_database_report_status_and_resume_still_work(make_project):
    project = make_project()
    run_flow(project)
    calls = project.calls()
    environment = {**os.environ, "PREFECT_HOME": str(project.root / "gone")}
    environment.pop("PREFECT_API_URL", None)
    for verb in (["report"], ["status"], ["run", "--resume", "r1"]):
        done = subprocess.run(
            [sys.executable, "-c", "from capevolve.cli import main; main()", *verb],
            cwd=project.root, env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "1.000" in done.stdout
    assert project.calls() == calls
    assert not (project.root / "gone").exists()


def test_a_cap_below_the_baseline_stops_before_test_is_touched_and_a_raised_one_continues(make_project):
    project = make_project(spec={"budget": {"max_calls": 10}})  # 8 of them are set aside for test
    with pytest.raises(BudgetExhaustedError, match="no baseline"):
        run_flow(project)
    assert len(project.calls()) == 2
    spec = json.loads((project.root / "capevolve.yaml").read_text())
    spec["budget"]["max_calls"] = 16
    project.write("capevolve.yaml", json.dumps(spec))
    run_flow(project)  # 4 val calls of the seed, 4 of the first edit, 4 of test: nothing was accepted
    assert len(project.calls()) == 12


def test_a_baseline_of_which_nothing_was_measured_is_no_baseline(make_project):
    project = make_project(BROKEN_TARGET)
    with pytest.raises(OutsideError, match="Nothing of the baseline was measured"):
        run_flow(project)
    assert not list((project.root / ".capevolve").rglob("final.json"))


def test_a_proposal_that_cannot_be_made_live_costs_its_iteration_and_not_the_run(make_project):
    adapter = LIVE_ADAPTER
    edits = [
        {"summary": "breaks the format", "edits": {"prompt.md": "BROKEN MARK"}},
        {"summary": "adds the mark", "edits": {"prompt.md": "MARK"}},
    ]
    project = make_project(adapter, edits=edits)
    run_flow(project)
    with project.driven("r1") as run, run.ledger.read() as connection:
        first, second = read_proposals(connection, "r1")
        (verdict,) = read_verdicts(connection, "r1")
        verify_run(connection, "r1")
    assert (first.status, first.candidate_id) == ("invalid", None)
    assert "the format is broken" in first.detail
    assert (second.status, verdict.iteration, verdict.verdict.decision) == ("proposed", 2, "accept")


def test_a_seed_candidate_that_cannot_be_made_live_stops_the_run_and_says_why(make_project):
    project = make_project(LIVE_ADAPTER, seed={"prompt.md": "BROKEN"})
    with pytest.raises(CandidateError, match="the format is broken"):
        run_flow(project)


NOISY = """
import random
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(16)]

    def run_target(self, task, ctx, *, seed):
        rng = random.Random(f"{seed}:{task.id}")
        return Rollout(task_id=task.id, output=rng.random() < float((ctx / "prompt.md").read_text()))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""


def make_noisy(make_project, gate):
    spec = {
        "splits": {"counts": {"train": 2, "val": 10, "test": 4}},
        "evaluation": {"num_trials": 2, "concurrency": 4, "timeout_s": 20},
        "gate": gate,
    }
    edits = [{"edits": {"prompt.md": "0.1"}}, {"edits": {"prompt.md": "0.95"}}]
    return make_project(NOISY, spec, {"prompt.md": "0.4"}, edits)


def test_a_confirmation_is_one_task_run_per_stage_and_ends_in_the_same_badges(make_project):
    project = make_noisy(make_project, "confirm")
    run_flow(project, "confirmed")
    (flow_run,) = asyncio.run(read_flow_runs("optimize-confirmed"))
    tasks = asyncio.run(read_task_runs(flow_run.id))
    stages = [task.name.rsplit("-", 2)[1:] for task in tasks if task.name.startswith("evaluate-2-")]
    assert ["look", "1"] in stages
    badges = {task.name: task.state.name for task in tasks if task.name.startswith("gate")}
    assert badges == {"gate-1": "Rejected", "gate-2": "Accepted"}


def test_a_run_whose_gate_accepts_a_copy_of_its_seed_candidate_stops_before_anything_is_proposed(
    make_project,
):
    for seed in range(1, 9):
        gate = {"mode": "strict", "aa_control": True}
        project = make_noisy(make_project, gate)
        spec = json.loads((project.root / "capevolve.yaml").read_text())
        spec["evaluation"]["base_seed"] = seed
        (project.root / "capevolve.yaml").write_text(json.dumps(spec))
        try:
            run_flow(project, f"noisy{seed}")
        except UserError as error:
            assert "byte-identical copy" in str(error)
            assert "Noise floor" in str(error)
            break
    else:
        pytest.fail("a gate that accepts any gain accepted no copy in eight runs")
    (flow_run,) = asyncio.run(read_flow_runs(f"optimize-noisy{seed}"))
    names = {task.name.split("-")[0] for task in asyncio.run(read_task_runs(flow_run.id))}
    assert "propose" not in names
