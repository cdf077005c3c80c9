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

from capevolve.evaluate.course import EVENT, Course, read_course
from capevolve.ledger.events import read_events
from capevolve.model import Reason, Unmeasured

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


PLAIN = """
import json, time, urllib.request
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(TASKS)]

    def run_target(self, task, ctx, *, seed):
        time.sleep(SLEEP)
        body = {"model": "MODEL", "messages": [{"role": "user", "content": "hello"}]}
        data = json.dumps(body).encode()
        request = urllib.request.Request("URL/chat/completions", data)
        with urllib.request.urlopen(request) as answer:
            return Rollout(task_id=task.id, output=answer.status)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=1.0)
"""


@pytest.fixture
def make_plain_lab(make_lab, server):
    """The same without the client, which takes seconds to import: the adapter calls the server itself."""

    def make(model="busy", tasks=4, sleep=0.0, **evaluation):
        source = PLAIN.replace("TASKS", str(tasks + 2)).replace("SLEEP", str(sleep))
        spec = {
            "splits": {"counts": {"train": 1, "val": tasks, "test": 1}},
            "evaluation": {
                "concurrency": 1, "timeout_s": 20, "retries": 0, "retry_wait_s": 0.01, **evaluation
            },
        }  # fmt: skip
        return make_lab(source.replace("MODEL", model).replace("URL", server.url), spec)

    return make


def read_log(lab):
    with lab.project.driven() as run, run.ledger.read() as connection:
        return read_course(connection, run.id), [e.payload for e in read_events(connection, run.id, EVENT)]


def gaps_after(server, number):
    """The seconds from a request to each later one."""
    return [at - server.times[number] for at in server.times[number + 1 :]]


def test_the_client_sends_nothing_before_retry_after_has_passed_and_the_concurrency_recovers(
    make_chat_lab, server
):
    server.refused, server.wait = {4}, lambda: "0.8"
    lab = make_chat_lab(tasks=16, concurrency=4)
    assert all(task.rewards for task in lab.evaluate().tasks)
    assert len(server.requests) == sum(row.calls for row in lab.rows()) == 17
    gaps = gaps_after(server, 4)
    assert not [gap for gap in gaps if 0.4 < gap < 0.8], "only what began before the answer was read"
    assert max(gaps) >= 0.8
    course, changes = read_log(lab)
    assert course == Course(times=1, lowest=2, top=4, longest_s=0.8)
    assert [(change["was"], change["now"]) for change in changes] == [(4, 2), (2, 3), (3, 4)]
    assert changes[0]["retry_after_s"] == 0.8


def test_the_client_asks_once_what_would_be_refused_again(make_chat_lab, server):
    lab = make_chat_lab("401", tasks=2, retries=3, retry_wait_s=0.0)
    lab.evaluate()
    assert len(server.requests) == 2
    assert all("AuthenticationError 401" in row.outcome.detail for row in lab.rows())
    assert read_log(lab) == (None, [])


def test_nothing_waits_in_a_host_that_was_refused(make_plain_lab, server):
    server.refused, server.wait = {6}, lambda: "0.4"
    lab = make_plain_lab(tasks=12)  # fast enough for requests to be sent ahead
    assert all(task.rewards for task in lab.evaluate().tasks)
    assert len(server.requests) == 13
    assert min(gaps_after(server, 6)) >= 0.4


def test_a_date_as_retry_after_is_obeyed(make_plain_lab, server):
    until = math.floor(time.time()) + 2.0
    server.refused, server.wait = {0}, lambda: formatdate(until, usegmt=True)
    lab = make_plain_lab(tasks=2)
    assert all(task.rewards for task in lab.evaluate().tasks)
    assert all(at >= until - 0.01 for at in server.times[1:])


def test_a_fixed_concurrency_waits_and_does_not_halve(make_plain_lab, server):
    server.refused, server.wait = {0}, lambda: "0.8"
    lab = make_plain_lab(tasks=3, concurrency=2, adaptive=False, trials_per_host=2)
    assert all(task.rewards for task in lab.evaluate().tasks)
    gaps = gaps_after(server, 0)
    assert not [gap for gap in gaps if 0.4 < gap < 0.8], "only what began before the answer was read"
    assert max(gaps) >= 0.8
    assert read_log(lab)[0] == Course(times=1, lowest=2, top=2, longest_s=0.8)


def test_a_trial_that_stays_rate_limited_is_missing_data_that_says_so(make_plain_lab, server):
    server.refused, server.wait = set(range(100)), lambda: None
    lab = make_plain_lab(tasks=2, rate_limit_retries=2)
    lab.evaluate()
    rows = lab.rows()
    assert [row.calls for row in rows] == [3, 3]
    assert len(server.requests) == 6
    for row in rows:
        assert isinstance(row.outcome, Unmeasured) and row.outcome.reason == Reason.INFRA
        assert row.outcome.detail.startswith("HTTPError: HTTP Error 429")
        assert row.outcome.detail.endswith("(calls that were rate limited: 3)")


def test_the_calls_of_a_run_keep_to_its_rate_from_the_first_host_on(make_plain_lab, server):
    lab = make_plain_lab("ok", tasks=5, concurrency=4, requests_per_minute=150)  # burst 2, then one in 0.4 s
    begun = time.time()
    lab.evaluate()
    assert all(at - begun >= 0.4 * number for number, at in enumerate(server.times[1:]))


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


def test_a_run_killed_while_it_waits_goes_on_and_still_waits(make_plain_lab, server):
    server.refused, server.wait = {1}, lambda: "2.0"
    lab = make_plain_lab(tasks=3, sleep=0.12)  # too slow to be sent ahead
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(lab.project.root)])
    limit = time.monotonic() + 60.0
    while len(server.requests) < 2 and time.monotonic() < limit:
        time.sleep(0.02)
    time.sleep(0.6)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert all(task.rewards for task in lab.evaluate().tasks)
    assert len(server.requests) == 4
    assert min(gaps_after(server, 1)) >= 2.0
    rows = sorted((row.calls, row.interrupted) for row in lab.rows())
    assert rows == [(1, 0), (1, 0), (2, 1)], "nothing was claimed while it waited"
