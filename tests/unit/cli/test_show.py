"""`status`, `report`, `diff` and a finished run: read from the ledger, without Prefect."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def finished(make_project, complete):
    project = make_project()
    complete(project)
    return project


def test_status_tells_how_a_run_stands_and_its_candidates(capevolve, finished):
    said = capevolve("status", "-p", finished.root)
    assert said.code == 0
    assert said.out.startswith("run r1: finished")
    assert "accept, incumbent" in said.out
    assert "Held-out test delta: +1.000" in said.out


def test_status_as_json_is_one_document(capevolve, finished):
    said = capevolve("status", "-p", finished.root, "--json")
    document = json.loads(said.out)
    assert document["run"]["id"] == "r1"


def test_status_of_an_unfinished_run_makes_no_claim_about_test(capevolve, make_project, baseline):
    project = make_project()
    baseline(project)
    said = capevolve("status", "-p", project.root)
    assert "Not finalised" in said.out
    assert "held-out" not in said.out.lower()


def test_report_makes_its_files_again(capevolve, finished):
    folder = finished.root / ".capevolve" / "runs" / "r1"
    said = capevolve("report", "-p", finished.root)
    assert said.code == 0
    first = (folder / "final.json").read_bytes()
    assert json.loads(first)["test"]["reward"] == 1.0
    (folder / "final.json").unlink()
    (folder / "report.html").unlink()
    capevolve("report", "-p", finished.root)
    assert (folder / "final.json").read_bytes() == first
    assert (folder / "report.html").exists()


def test_diff_shows_what_changed_from_the_seed_to_the_best(capevolve, finished):
    said = capevolve("diff", "-p", finished.root)
    assert "-hello" in said.out
    assert "+MARK" in said.out
    assert "same candidate" in capevolve("diff", "seed", "seed", "-p", finished.root).out


def test_a_finished_run_is_shown_again_without_a_call_or_a_server(capevolve, finished):
    calls = finished.calls()
    for words in (("run", finished.root, "--resume", "r1"), ("finalize", "-p", finished.root)):
        said = capevolve(*words)
        assert said.code == 0
        assert "nothing was called" in said.err
        assert "Held-out test delta: +1.000" in said.out
    assert finished.calls() == calls
    assert not (finished.root / ".capevolve" / "prefect").exists()


def test_an_override_without_a_reason_is_refused(capevolve, finished, monkeypatch):
    assert capevolve("finalize", "-p", finished.root, "--allow-test-rescore", " ").code == 2
    monkeypatch.setenv("CAPEVOLVE_ALLOW_TEST_RESCORE", "1")
    said = capevolve("finalize", "-p", finished.root)
    assert said.code == 2
    assert "CAPEVOLVE_RESCORE_REASON" in said.err


def test_a_project_without_a_run_and_a_folder_without_a_project_say_what_to_do(
    capevolve, make_project, tmp_path
):
    said = capevolve("status", "-p", make_project().root)
    assert said.code == 4
    assert "capevolve run" in said.err
    said = capevolve("status", "-p", tmp_path)
    assert said.code == 2
    assert "capevolve.yaml" in said.err


def test_a_run_that_is_driven_cannot_be_started_twice(capevolve, make_project, baseline):
    project = make_project()
    baseline(project)
    with project.driven("r1"):
        said = capevolve("run", project.root, "--resume", "r1")
    assert said.code == 4
    assert "is driven by PID" in said.err
    assert not (project.root / ".capevolve" / "prefect").exists()


def test_the_version_is_shown(capevolve):
    assert capevolve("--version").out.startswith("capevolve 0.1.0")
