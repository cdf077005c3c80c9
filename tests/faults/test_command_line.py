"""`capevolve run` with its own Prefect server, ended by Ctrl-C and by SIGKILL in the middle of an evaluation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

MAIN = "from capevolve.cli import main; main()"
SLOW = ("        skill =", "        import time; time.sleep(0.4)\n        skill =")


@pytest.fixture
def slow(project):
    source = (project.root / "adapter.py").read_text()
    (project.root / "adapter.py").write_text(source.replace(*SLOW))
    return project


def start(project, *words):
    environment = {**os.environ, "TARGET_CALLS": str(project.calls_path), "PYTHONWARNINGS": "ignore"}
    environment.pop("PREFECT_API_URL", None)
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", str(project.root), *words],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def wait_for_calls(project, count):
    deadline = time.monotonic() + 90
    while sum(project.calls().values()) < count:
        assert time.monotonic() < deadline, "the target was not called"
        time.sleep(0.05)


def find_left(project):
    """Processes that still name the project, or sit in it."""
    left = []
    for process in psutil.process_iter(["cmdline", "cwd", "environ"]):
        text = " ".join(process.info["cmdline"] or []) + str(process.info["cwd"])
        if str(project.root) in text + str((process.info["environ"] or {}).get("PREFECT_HOME")):
            left.append(process)
    return [process for process in left if process.is_running() and process.status() != "zombie"]


def wait_until_none_is_left(project, seconds):
    deadline = time.monotonic() + seconds
    while (left := find_left(project)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def stop(process, number, code):
    """Signals a run and sees it end in good order, saying how to go on."""
    begun = time.monotonic()
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - begun < 10
    assert process.returncode == code
    assert "Traceback" not in errors
    assert "--resume r1" in errors


def test_ctrl_c_and_sigterm_stop_within_seconds_leave_nothing_running_and_can_be_resumed(slow):
    process = start(slow, "--run", "r1")
    wait_for_calls(slow, 3)
    stop(process, signal.SIGINT, 130)
    wait_until_none_is_left(slow, 5)
    called = len(slow.calls())
    process = start(slow, "--resume", "r1")
    wait_for_calls(slow, called + 1)
    stop(process, signal.SIGTERM, 143)
    wait_until_none_is_left(slow, 5)
    resumed = start(slow, "--resume", "r1")
    out, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    assert "test delta" in out
    slow.check_calls("r1")


def test_a_killed_run_is_resumed_calls_nothing_twice_and_ends_as_if_undisturbed(slow, undisturbed):
    outcome, _, _ = undisturbed
    process = start(slow, "--run", "r1")
    wait_for_calls(slow, 4)
    tree = [process, *psutil.Process(process.pid).children(recursive=True)]
    for victim in tree:
        victim.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    resumed = start(slow, "--resume", "r1")
    _, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    assert "Traceback" not in errors
    slow.check_calls("r1")
    assert slow.outcome("r1").numbers["test"] == outcome.numbers["test"]
    assert slow.outcome("r1").verdicts == outcome.verdicts
    wait_until_none_is_left(slow, 10)


def test_a_server_left_by_a_killed_run_ends_by_itself(slow):
    process = start(slow, "--run", "r1")
    wait_for_calls(slow, 1)
    assert any("prefect" in str(p.info["environ"]) for p in find_left(slow))
    process.kill()
    process.communicate(timeout=10)
    wait_until_none_is_left(slow, 20)
