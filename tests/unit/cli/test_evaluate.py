"""`capevolve evaluate`: JSON on standard output and nothing else there."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def project(make_project, baseline):
    project = make_project()
    baseline(project)
    return project


def test_the_result_is_json_alone_on_standard_output(capevolve, project):
    said = capevolve("evaluate", "-p", project.root, "--candidate", "seed", "--split", "val")
    assert said.code == 0
    result = json.loads(said.out)
    assert (result["reward"], result["n_tasks"], result["coverage"]) == (0.0, 4, 1.0)
    assert len(result["per_task"]) == 4
    assert result["subset"] is False


def test_what_was_measured_is_not_measured_again(capevolve, project):
    before = len(project.calls())
    capevolve("evaluate", "-p", project.root, "--candidate", "seed")
    assert len(project.calls()) == before
    capevolve("evaluate", "-p", project.root, "--candidate", "seed", "--n-trials", "3")
    assert len(project.calls()) == before + 12


def test_the_test_split_exits_2_and_calls_nothing(capevolve, project):
    before = len(project.calls())
    said = capevolve("evaluate", "-p", project.root, "--candidate", "seed", "--split", "test")
    assert (said.code, said.out) == (2, "")
    assert "sealed" in said.err
    assert "finalize" in said.err
    assert len(project.calls()) == before


def test_one_trial_warns_on_standard_error_and_three_do_not(capevolve, project):
    assert "one trial" in capevolve("evaluate", "-p", project.root, "--candidate", "seed").err
    said = capevolve("evaluate", "-p", project.root, "--candidate", "seed", "--n-trials", "3")
    assert "one trial" not in said.err
    assert set(json.loads(said.out)["pass_k"]) == {"1", "2", "3"}


def test_a_prefect_limit_that_this_command_does_not_keep_is_named(capevolve, project):
    assert "prefect_limit" not in capevolve("evaluate", "-p", project.root, "--candidate", "seed").err
    path = project.root / "capevolve.yaml"
    spec = json.loads(path.read_text())
    spec["evaluation"]["prefect_limit"] = "provider"
    path.write_text(json.dumps(spec))
    said = capevolve("evaluate", "-p", project.root, "--candidate", "seed")
    assert (said.code, said.err.count("prefect_limit is not kept here")) == (0, 1)


def test_only_measured_ks_are_printed(capevolve, project):
    said = capevolve(
        "evaluate", "-p", project.root, "--candidate", "seed", "--n-trials", "2", "--ks", "1,2,5"
    )
    assert set(json.loads(said.out)["pass_k"]) == {"1", "2"}
    assert capevolve("evaluate", "-p", project.root, "--candidate", "seed", "--ks", "0").code == 2


def test_ids_make_a_subset_and_unknown_ones_are_refused_before_a_call(capevolve, project):
    ids = [t["task_id"] for t in json.loads(
        capevolve("evaluate", "-p", project.root, "--candidate", "seed").out
    )["per_task"]]  # fmt: skip
    said = capevolve("evaluate", "-p", project.root, "--candidate", "seed", "--ids", ids[0])
    result = json.loads(said.out)
    assert result["subset"] is True
    assert [t["task_id"] for t in result["per_task"]] == ids[:1]
    before = len(project.calls())
    refused = capevolve("evaluate", "-p", project.root, "--candidate", "seed", "--ids", "nobody")
    assert (refused.code, refused.out) == (2, "")
    assert "nobody" in refused.err
    assert len(project.calls()) == before


def test_a_folder_can_be_evaluated_and_a_run_folder_names_the_run(capevolve, project, tmp_path):
    folder = tmp_path / "candidate"
    folder.mkdir()
    (folder / "prompt.md").write_text("MARK")
    run_dir = project.root / ".capevolve" / "runs" / "r1"
    said = capevolve("evaluate", "--run-dir", run_dir, "--candidate", folder)
    assert json.loads(said.out)["reward"] == 1.0
    assert capevolve("evaluate", "--run-dir", tmp_path, "--candidate", folder).code == 2


def test_an_unknown_candidate_or_run_is_named(capevolve, project):
    said = capevolve("evaluate", "-p", project.root, "--candidate", "zzzz")
    assert (said.code, "zzzz" in said.err) == (2, True)
    said = capevolve("evaluate", "-p", project.root, "--run", "nope", "--candidate", "seed")
    assert (said.code, "'nope'" in said.err, "r1" in said.err) == (4, True, True)


def test_a_run_that_is_driven_is_left_alone(capevolve, project):
    with project.driven("r1"):
        said = capevolve("evaluate", "-p", project.root, "--candidate", "seed")
    assert said.code == 4
    assert "is driven by PID" in said.err
