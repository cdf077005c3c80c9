"""Several processes at one run: one attempt, one set of results, and a clear answer for everybody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from capevolve.ledger.attempts import read_attempts
from capevolve.ledger.events import read_events
from capevolve.ledger.store import open_ledger

pytestmark = pytest.mark.both_ledgers

ASKER = Path(__file__).with_name("asker.py")
EIGHT = 8


@pytest.fixture
def searched(project):
    """A run whose process was killed when it was about to open the seal."""
    assert project.run("r1", CAPEVOLVE_FAILPOINT="seal.admitted") == -9
    project.calls_path.unlink()
    return project


def ask(project, gate, step):
    environment = {**os.environ, "TARGET_CALLS": str(project.calls_path)}
    return subprocess.Popen(
        [sys.executable, str(ASKER), str(project.root), "r1", str(gate), step],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def attempts(project):
    ledger = open_ledger(project.url)
    try:
        with ledger.read() as c:
            return read_attempts(c, "r1")
    finally:
        ledger.close()


# Between the check and the write of the seal; before the first test task; before the commit.
@pytest.mark.parametrize("step", ["seal.admitted", "evaluate.opened", "seal.scored", "seal.committing"])
def test_of_eight_that_ask_at_once_one_scores_and_seven_are_told_who_does(searched, tmp_path, step):
    gate = tmp_path / "gate"
    first = ask(searched, gate, step)
    wait_for(lambda: list(tmp_path.glob("gate.*")))  # it is inside the window, and stays there
    others = [ask(searched, tmp_path / "never", step) for _ in range(EIGHT - 1)]
    if step in ("seal.admitted", "seal.committing"):
        # The window is inside a write transaction: the others wait for its end, so it must come.
        time.sleep(1.0)
        gate.touch()
    answers = [other.communicate(timeout=90)[0] for other in others]
    gate.touch()
    out, errors = first.communicate(timeout=90)
    assert first.returncode == 0, errors
    assert out.startswith("fresh")
    told = Counter(answer.split()[0] for answer in answers)
    assert sum(told.values()) == EIGHT - 1
    assert set(told) <= {"refused", "known"}
    pids = {process.pid for process in (first, *others)}
    for answer in answers:
        holder = re.search(r"is driven by PID (\d+) on \S+ since .*, last heartbeat \d+ s ago", answer)
        assert (holder and int(holder[1]) in pids) or answer == out.replace("fresh", "known")
    (attempt,) = attempts(searched)
    assert (attempt.number, attempt.look, attempt.state) == (1, 1, "committed")
    assert sum(searched.calls().values()) == 3 * 2 * 2
    assert max(searched.calls().values()) == 1


def test_eight_that_ask_with_nobody_first_still_make_one_attempt(searched, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    askers = [ask(searched, gate, "none") for _ in range(EIGHT)]
    answers = [asker.communicate(timeout=120)[0] for asker in askers]
    told = Counter(answer.split()[0] for answer in answers)
    assert told["fresh"] == 1
    assert told["refused"] + told["known"] == EIGHT - 1
    assert len(attempts(searched)) == 1
    assert max(searched.calls().values()) == 1


def test_after_a_killed_driver_the_next_one_takes_over_at_once_and_says_so(searched):
    assert searched.run("r1") == 0
    ledger = open_ledger(searched.url)
    with ledger.read() as c:
        (takeover,) = read_events(c, "r1", "takeover")
    assert takeover.payload["from_epoch"] == 1
    assert searched.outcome("r1").numbers["test_looks"] == 1
    ledger.close()
