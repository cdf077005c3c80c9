"""Finalize as a served deployment: killed, retried, resubmitted, overlapping. The target counts its calls."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import psutil
import pytest
from prefect import get_client
from prefect.deployments import run_deployment
from prefect.settings import PREFECT_API_URL
from prefect.states import Scheduled

from capevolve.errors import OutsideError
from capevolve.ledger.attempts import read_attempts
from capevolve.ledger.leases import read_holder
from capevolve.ledger.store import open_ledger
from capevolve_flows.finalize_run import finalize

SERVE = """
import warnings; warnings.simplefilter("ignore")
from capevolve_flows.finalize_run import finalize
finalize.serve(name="tested", limit=2, pause_on_shutdown=False)
"""

SLOW_ADAPTER = """
import os, time
from pathlib import Path
from capevolve import Rollout, Score, Task

HERE = Path(__file__).resolve().parent
COUNTER = HERE.with_name(HERE.name.replace("project", "calls"))  # a served flow has its own environment

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        fd = os.open(COUNTER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{task.id} {seed}\\n".encode())
        os.close(fd)
        time.sleep(float(os.environ.get("TARGET_SECONDS", "0")))
        return Rollout(task_id=task.id, output=(ctx / "prompt.md").read_text())

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float("MARK" in rollout.output))
"""
TEST_CALLS = 2 * 4  # two candidates, four test tasks, one trial


@pytest.fixture(scope="module")
def served(prefect_harness, tmp_path_factory):
    """The deployment `finalize/tested`, served by a process of its own."""
    log = (tmp_path_factory.mktemp("serve") / "log").open("w")
    environment = {
        **os.environ,
        "PREFECT_API_URL": PREFECT_API_URL.value(),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "TARGET_SECONDS": "0.7",
    }
    process = subprocess.Popen([sys.executable, "-c", SERVE], env=environment, stdout=log, stderr=log)
    wait_for(lambda: asyncio.run(is_deployed()), 60)
    yield process
    for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()
    process.kill()
    process.wait()
    log.close()


async def is_deployed():
    async with get_client() as client:
        return any(d.name == "tested" for d in await client.read_deployments())


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)
    return found


@pytest.fixture
def searched(make_project, search_only):
    """A run whose search is over and whose target counts from here on."""
    project = make_project(SLOW_ADAPTER)
    search_only(project)
    project.calls_path.unlink()
    return project


def submit(project, **options):
    parameters = {"project": str(project.root), "run": "r1"}
    return run_deployment(
        "finalize/tested",
        parameters=parameters,
        timeout=0,
        as_subflow=False,
        **options,
    )


async def read_state(flow_run_id):
    async with get_client() as client:
        return (await client.read_flow_run(flow_run_id)).state


def wait_until_ended(flow_run, seconds=90):
    def ended():
        state = asyncio.run(read_state(flow_run.id))
        return state if state is not None and state.is_final() else None

    return wait_for(ended, seconds)


def kill_in_the_middle(project, flow_run):
    """Kills the process that holds the run's lease, once it has called the target a few times."""
    wait_for(lambda: len(project.calls()) >= 3)
    with read(project) as c:
        holder = read_holder(c, "r1")
    os.kill(holder.pid, signal.SIGKILL)
    return wait_until_ended(flow_run)


@contextmanager
def read(project):
    ledger = open_ledger(f"sqlite:///{project.root}/.capevolve/ledger.db")
    try:
        with ledger.read() as connection:
            yield connection
    finally:
        ledger.close()


def check_scored_once(project, interrupted):
    with read(project) as c:
        (attempt,) = read_attempts(c, "r1")
    assert attempt.state == "committed"
    assert TEST_CALLS <= len(project.calls()) <= TEST_CALLS + interrupted
    assert max(Counter(project.calls()).values()) <= 2 + interrupted


def test_killed_and_retried_as_the_ui_does_it_continues_the_same_attempt(served, searched):
    flow_run = submit(searched)
    assert kill_in_the_middle(searched, flow_run).is_crashed()

    async def retry():
        async with get_client() as client:
            await client.set_flow_run_state(flow_run.id, Scheduled(name="AwaitingRetry"), force=True)

    asyncio.run(retry())
    wait_for(lambda: not asyncio.run(read_state(flow_run.id)).is_final())
    assert wait_until_ended(flow_run).is_completed()
    check_scored_once(searched, interrupted=2)


def test_killed_and_started_again_as_a_new_flow_run_it_continues_the_same_attempt(served, searched):
    kill_in_the_middle(searched, submit(searched))
    assert wait_until_ended(submit(searched)).is_completed()
    calls = searched.calls()
    assert wait_until_ended(submit(searched)).is_completed()  # and once more: it only reports
    assert searched.calls() == calls
    check_scored_once(searched, interrupted=2)


def test_resubmitted_with_the_same_idempotency_key_it_is_the_same_flow_run(served, searched):
    first = submit(searched, idempotency_key=f"finalize-{searched.root}")
    second = submit(searched, idempotency_key=f"finalize-{searched.root}")
    assert first.id == second.id
    assert wait_until_ended(first).is_completed()
    check_scored_once(searched, interrupted=0)


def test_two_scheduled_at_once_score_once_and_the_other_says_who_does(served, searched):
    runs = [submit(searched), submit(searched)]
    states = [wait_until_ended(flow_run) for flow_run in runs]
    check_scored_once(searched, interrupted=0)
    failed = [state for state in states if state.is_failed()]
    assert len(failed) <= 1
    assert any(state.is_completed() for state in states)
    for state in failed:
        assert "is driven by PID" in (state.message or "")


def test_a_failure_outside_in_the_middle_is_retried_by_prefect_without_a_second_result(
    searched, hook, monkeypatch
):
    from capevolve_tasks import steps

    monkeypatch.setattr(steps.finalize, "retry_delay_seconds", 0)
    monkeypatch.setattr(steps.finalize, "retry_jitter_factor", None)
    passed = Counter()

    def fail_twice(name):
        passed[name] += 1
        if name == "evaluate.after_commit" and passed[name] in (3, 6):
            raise OutsideError("the provider went away")

    hook(fail_twice)
    asyncio.run(finalize(str(searched.root), "r1"))
    check_scored_once(searched, interrupted=4)
