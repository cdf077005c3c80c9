"""SIGKILL inside a confirmation; rerun: the look goes on, no trial runs twice, the slots are as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from capevolve.gate.confirm.history import count_failures
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.store import open_ledger
from capevolve.model import Decision
from capevolve.verify.run import verify_run

CHANGES = {
    "splits": {"counts": {"train": 2, "val": 10, "test": 3}, "seed": 3},
    "evaluation": {"num_trials": 2, "concurrency": 3, "retries": 0, "timeout_s": 20},
    "search": {"max_iterations": 2},
    "gate": {"confirm": {"screen_p": 1.0, "race_kill_p": 1.0, "look_futility": [1.0, 1.0]}},
}
EDITS = [
    {"summary": "hardly", "edits": {"prompt.md": "0.55"}},
    {"summary": "better", "edits": {"prompt.md": "0.9"}},
]


def read_stages(project, run_id: str) -> tuple[list[object], int]:
    """Every verdict with its stages, ids of rows left aside, and the slots used up."""
    ledger = open_ledger(project.url)
    try:
        with ledger.read() as connection:
            records = read_verdicts(connection, run_id)
    finally:
        ledger.close()
    rows = []
    for record in records:
        stages = [asdict(stage) for stage in record.verdict.stages]
        for stage in stages:
            del stage["candidate_evaluation"], stage["incumbent_evaluation"]
        rows.append((record.iteration, record.verdict.decision, record.verdict.reason, stages))
    return rows, count_failures(records)


@pytest.fixture(scope="module")
def undisturbed_confirm(tmp_path_factory: pytest.TempPathFactory, write_fault_project):
    folder = tmp_path_factory.mktemp("confirm")
    project = write_fault_project(folder / "project", folder / "calls", None, 15, CHANGES, EDITS)
    record = folder / "failpoints"
    assert project.run("r1", CAPEVOLVE_RECORD=str(record)) == 0
    return read_stages(project, "r1"), Counter(record.read_text().split())


def test_the_project_goes_through_every_kind_of_stage(undisturbed_confirm):
    (rows, failures), _ = undisturbed_confirm
    names = [stage["stage"] for _, _, _, stages in rows for stage in stages]
    assert {"race", "screen", "peek", "look-1", "look-2", "look-3"} <= set(names)
    assert [decision for _, decision, _, _ in rows].count(Decision.ACCEPT) == 1
    assert failures >= 1


def check_kills(project, undisturbed_confirm, step: str, thirds: tuple[int, ...]) -> None:
    expected, passes = undisturbed_confirm
    for third in thirds:
        run_id = f"killed{third}"
        project.calls_path.unlink(missing_ok=True)
        assert project.run(run_id, CAPEVOLVE_FAILPOINT=f"{step}:{max(1, passes[step] * third // 3)}") == -9
        project.finish(run_id)
        assert read_stages(project, run_id) == expected
    ledger = open_ledger(project.url)
    try:
        with ledger.read() as connection:
            assert verify_run(connection, run_id).committed
    finally:
        ledger.close()


@pytest.mark.parametrize(("step", "thirds"), [("evaluate.after_commit", (1, 2)), ("gate.measured", (2,))])
def test_a_killed_confirmation_resumes_inside_its_look(
    tmp_path: Path, undisturbed_confirm, write_fault_project, step: str, thirds: tuple[int, ...]
):
    project = write_fault_project(tmp_path / "project", tmp_path / "calls", None, 15, CHANGES, EDITS)
    check_kills(project, undisturbed_confirm, step, thirds)


@pytest.mark.both_ledgers
def test_a_confirmation_killed_between_claims_and_results_resumes_on_either_ledger(
    tmp_path: Path, backend: str, make_ledger_url: Callable[[], str], undisturbed_confirm, write_fault_project
):
    url = None if backend == "sqlite" else make_ledger_url()
    project = write_fault_project(tmp_path / "project", tmp_path / "calls", url, 15, CHANGES, EDITS)
    check_kills(project, undisturbed_confirm, "evaluate.before_commit", (2,))
