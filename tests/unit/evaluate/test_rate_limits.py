"""Rate limits of a real HTTP server, met by the official client in real hosts."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from capevolve.budget import Remaining
from capevolve.errors import BudgetExhaustedError
from capevolve.evaluate.course import EVENT, Course, read_course
from capevolve.ledger.events import read_events
from capevolve.model import Reason, Scored, Unmeasured

SERVER = Path(__file__).parents[1] / "adapters" / "ready" / "fault_server.py"


@pytest.fixture
def server() -> Iterator[object]:
    import importlib.util

    spec = importlib.util.spec_from_file_location("fault_server_of_rates", SERVER)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with module.FaultServer() as running:
        yield running


@pytest.fixture
def make_chat_lab(make_lab, server):
    def make(model="busy", tasks=4, **evaluation):
        lab = make_lab(
            spec={
                "tasks": {"file": "tasks.jsonl"},
                "target": {
                    "kind": "openai", "model": model, "base_url": server.url, "system": "prompt.md",
                },
                "scoring": "exact",
                "splits": {"counts": {"train": 1, "val": tasks, "test": 1}},
                "evaluation": {
                    "concurrency": 1, "timeout_s": 20, "retries": 0, "retry_wait_s": 0.01, **evaluation
                },
            }
        )  # fmt: skip
        rows = [{"id": f"t{n}", "input": f"word {n}", "target": str(n)} for n in range(tasks + 2)]
        lab.project.write("tasks.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return lab

    return make


def read_log(lab):
    with lab.project.driven() as run, run.ledger.read() as connection:
        return read_course(connection, run.id), [e.payload for e in read_events(connection, run.id, EVENT)]


def gaps_after(server, number):
    """The seconds from a request to each later one."""
    return [at - server.times[number] for at in server.times[number + 1 :]]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_nothing_is_sent_before_the_seconds_of_retry_after_have_passed(make_chat_lab, server, concurrency):
    server.refused, server.wait = {3}, lambda: "0.5"
    lab = make_chat_lab(tasks=8, concurrency=concurrency)
    measurement = lab.evaluate()
    assert all(task.rewards for task in measurement.tasks)
    assert len(server.requests) == 9
    in_flight = [gap for gap in gaps_after(server, 3) if gap < 0.5]
    assert len(in_flight) < concurrency, in_flight
    assert all(gap < 0.1 for gap in in_flight)
    assert sum(row.calls for row in lab.rows()) == 9


def test_a_date_as_retry_after_is_obeyed(make_chat_lab, server):
    until = math.floor(time.time()) + 2.0
    server.refused, server.wait = {0}, lambda: formatdate(until, usegmt=True)
    lab = make_chat_lab(tasks=2)
    assert all(task.rewards for task in lab.evaluate().tasks)
    assert all(at >= until - 0.01 for at in server.times[1:])


def test_the_concurrency_halves_recovers_and_its_course_is_on_record(make_chat_lab, server):
    server.refused, server.wait = {4}, lambda: "0.1"
    lab = make_chat_lab(tasks=16, concurrency=4)
    assert all(task.rewards for task in lab.evaluate().tasks)
    course, changes = read_log(lab)
    assert course == Course(times=1, lowest=2, top=4, longest_s=0.1)
    assert [(change["was"], change["now"]) for change in changes] == [(4, 2), (2, 3), (3, 4)]
    assert changes[0]["retry_after_s"] == 0.1


def test_a_fixed_concurrency_waits_and_does_not_halve(make_chat_lab, server):
    server.refused, server.wait = {0}, lambda: "0.3"
    lab = make_chat_lab(tasks=3, concurrency=1, adaptive=False)
    assert all(task.rewards for task in lab.evaluate().tasks)
    assert min(gaps_after(server, 0)) >= 0.3
    assert read_log(lab)[0] == Course(times=1, lowest=1, top=1, longest_s=0.3)


def test_a_trial_that_stays_rate_limited_is_missing_data_that_says_so(make_chat_lab, server):
    server.refused, server.wait = set(range(100)), lambda: None
    lab = make_chat_lab(tasks=1, rate_limit_retries=2)
    lab.evaluate()
    (row,) = lab.rows()
    assert len(server.requests) == row.calls == 3
    assert isinstance(row.outcome, Unmeasured) and row.outcome.reason == Reason.INFRA
    assert "RateLimitError 429: " in row.outcome.detail
    assert row.outcome.detail.endswith("(calls that were rate limited: 3)")


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "422"])
def test_what_would_be_refused_again_is_asked_once(make_chat_lab, server, status):
    if status not in ("401", "422"):
        pytest.skip("test_refusals covers the others")
    lab = make_chat_lab(status, tasks=2, retries=3, retry_wait_s=0.0)
    lab.evaluate()
    assert len(server.requests) == 2
    assert all(status in row.outcome.detail for row in lab.rows())


def test_a_wait_that_outlasts_the_cap_on_time_ends_and_is_resumed(make_chat_lab, server):
    server.refused, server.wait = {1}, lambda: "600"
    lab = make_chat_lab(tasks=3)
    begun = time.time()
    with pytest.raises(BudgetExhaustedError, match="cap on time"):
        lab.evaluate(remaining=Remaining(deadline=begun + 1.0))
    assert time.time() - begun < 20.0
    assert len(server.requests) == 2
    assert sum(isinstance(row.outcome, Scored) for row in lab.rows()) == 1


DRIVER = """
import asyncio, sys
from pathlib import Path
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.runs import drive_run
from capevolve.start import start_run

async def go(run):
    started = await start_run(run)
    await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"))

with drive_run(Path(sys.argv[1]), "r1") as run:
    asyncio.run(go(run))
"""


def test_a_run_killed_while_it_waits_goes_on_and_still_waits(make_chat_lab, server):
    server.refused, server.wait = {1}, lambda: "2.5"
    lab = make_chat_lab(tasks=3)
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(lab.project.root)])
    limit = time.monotonic() + 60.0
    while len(server.requests) < 2 and time.monotonic() < limit:
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert all(task.rewards for task in lab.evaluate().tasks)
    assert len(server.requests) == 4
    assert min(gaps_after(server, 1)) >= 2.5
    assert sorted((row.calls, row.interrupted) for row in lab.rows()) == [(1, 0), (1, 0), (2, 1)]
