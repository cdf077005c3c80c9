"""SIGKILL at every named step and at random instants; rerun to the end; nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

STEPS = (
    "lease.read", "start.listed", "start.inserted", "start.frozen",
    "evaluate.opened", "evaluate.before_commit", "evaluate.after_commit", "evaluate.executed",
    "evaluate.finished",
    "propose.started", "propose.edited", "propose.finished",
    "gate.measured", "gate.judged", "gate.recorded",
    "seal.admitted", "seal.opened", "seal.scored", "seal.committing", "seal.committed",
)  # fmt: skip

ON_POSTGRESQL = (
    "lease.read", "start.inserted", "evaluate.before_commit", "evaluate.after_commit",
    "seal.opened", "seal.committing", "seal.committed",
)  # fmt: skip
"""Where the ledger's own transactions and locks matter; CAPEVOLVE_ALL_KILLS=1 kills at every step there too."""

KILLS = [
    *(("sqlite", step) for step in STEPS),
    *(("postgresql", step) for step in (STEPS if os.environ.get("CAPEVOLVE_ALL_KILLS") else ON_POSTGRESQL)),
]

VARYING = ("evaluate.before_commit", "evaluate.after_commit")
RANDOM_KILLS = int(os.environ.get("CAPEVOLVE_RANDOM_KILLS", "4"))


def test_the_list_of_steps_is_complete(undisturbed):
    _, steps, _ = undisturbed
    assert set(steps) == set(STEPS)


@pytest.mark.parametrize(("backend", "step"), KILLS, indirect=["backend"])
def test_a_kill_at_the_first_and_at_a_late_pass_of_a_step_changes_nothing(project, undisturbed, step):
    outcome, steps, _ = undisturbed
    # How many results share a commit varies, so the last commit is not known by its number.
    late = steps[step] * 2 // 3 if step in VARYING else steps[step]
    # On PostgreSQL only the late one: what differs there are the ledger's transactions.
    first = set() if project.url.startswith("postgresql") else {1}
    for occurrence in sorted((first | {late}) - {0}) or [1]:
        run_id = f"killed-{occurrence}"
        project.calls_path.unlink(missing_ok=True)
        assert project.run(run_id, CAPEVOLVE_FAILPOINT=f"{step}:{occurrence}") == -9
        assert project.finish(run_id).verdicts == outcome.verdicts
        assert project.outcome(run_id).numbers["test"] == outcome.numbers["test"]
        assert project.outcome(run_id).numbers["test_delta"] == outcome.numbers["test_delta"]


@pytest.mark.both_ledgers
def test_three_kills_deep_a_recovery_from_a_recovery_still_ends_the_same(project, undisturbed):
    outcome, _, _ = undisturbed
    for step in ("evaluate.after_commit", "propose.edited", "gate.judged"):
        assert project.run("r1", CAPEVOLVE_FAILPOINT=step) == -9
    for step in ("seal.opened", "seal.scored", "seal.committing"):
        assert project.run("r1", CAPEVOLVE_FAILPOINT=step) == -9
    ended = project.finish("r1")
    assert ended.verdicts == outcome.verdicts
    assert ended.numbers["test"] == outcome.numbers["test"]


@pytest.mark.both_ledgers
@pytest.mark.timeout(60 + 20 * RANDOM_KILLS)
def test_kills_at_random_instants_change_nothing(project, undisturbed):
    outcome, _, seconds = undisturbed
    rng = random.Random(20261130)
    for number in range(RANDOM_KILLS):
        project.calls_path.unlink(missing_ok=True)
        run_id = f"r{number}"
        process = project.start(run_id)
        time.sleep(rng.uniform(0.1, seconds))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        ended = project.finish(run_id)
        assert ended.verdicts == outcome.verdicts, f"kill {number}"
        assert ended.numbers["test"] == outcome.numbers["test"], f"kill {number}"
