"""`capevolve export RUN`: one file for each finished trial, under names that no task id can misuse."""

from __future__ import annotations

import asyncio
import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capevolve.canonical import short
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.finalize import finalize
from capevolve.ledger.runs import read_run
from capevolve.runs import drive_run
from capevolve.verify.rollouts import name_task


def files(run):
    return sorted((run.folder / "rollouts").rglob("*.json"))


def test_every_finished_trial_is_a_file(finished):
    said = finished.said("export")
    assert said.code == 0
    assert said.out.strip().endswith("rollouts: 60 trials")
    assert said.err == ""
    written = [json.loads(path.read_text()) for path in files(finished)]
    stored = finished.rows(
        "SELECT e.split, e.candidate_id, t.task_id, t.trial, t.seed, t.reward, t.reason FROM trials t JOIN "
        "evaluations e ON e.id = t.evaluation_id"
    )
    keys = ("split", "candidate", "task", "trial", "seed", "reward", "reason")
    assert sorted(map(str, stored)) == sorted(str(tuple(w[key] for key in keys)) for w in written)
    assert any(w["reason"] == "infra" and w["reward"] is None for w in written)
    first = written[0]
    assert first["rollout"]["output"] is not None
    assert first["cost_usd"] == 0.01
    assert first["feedback"] == "higher is better"


def test_names_tell_split_task_candidate_and_trial(finished):
    finished.said("export")
    seed = short(finished.value("SELECT seed_candidate FROM runs"))
    names = [path.relative_to(finished.folder).as_posix() for path in files(finished)]
    assert f"rollouts/test/{name_task('t04')}__{seed}__t1.json" in names
    assert name_task("t04").startswith("t04-")
    assert {name.split("/")[1] for name in names} == {"train", "val", "test"}


def test_the_test_number_can_be_computed_by_hand_from_the_files(finished):
    finished.said("export")
    result = json.loads(finished.value("SELECT result FROM attempts"))
    rewards = {}
    for path in files(finished):
        content = json.loads(path.read_text())
        if (content["split"], content["candidate"]) == ("test", result["best_id"]) and content[
            "reward"
        ] is not None:
            rewards.setdefault(content["task"], []).append(content["reward"])
    means = [sum(values) / len(values) for values in rewards.values()]
    assert sum(means) / len(means) == pytest.approx(result["test"]["reward"])


def test_exporting_again_replaces_the_folder(finished):
    finished.said("export")
    before = {path: path.read_bytes() for path in files(finished)}
    (finished.folder / "rollouts" / "test" / "forged.json").write_text("{}")
    assert finished.said("export", "r1").code == 0
    assert {path: path.read_bytes() for path in files(finished)} == before
    assert finished.said("verify").code == 0


def test_trials_of_test_are_withheld_until_their_result_is_committed(searched, monkeypatch):
    from capevolve import failpoints

    said = searched.said("export")
    assert said.code == 0
    assert "Trials of test are not among them" in said.err
    assert {path.parent.name for path in files(searched)} == {"train", "val"}

    class PowerCutError(Exception):
        pass

    def cut(name):
        if name == "seal.committing":
            raise PowerCutError

    monkeypatch.setattr(failpoints, "hook", cut)
    with drive_run(searched.root, "r1") as run, pytest.raises(PowerCutError):
        asyncio.run(finalize(run))
    monkeypatch.setattr(failpoints, "hook", None)
    assert searched.value("SELECT count(*) FROM evaluations WHERE split = 'test' AND finished_at > 0") == 2
    searched.said("export")
    assert {path.parent.name for path in files(searched)} == {"train", "val"}
    with drive_run(searched.root, "r1") as run:
        asyncio.run(finalize(run))
    assert searched.said("export").err == ""
    assert {path.parent.name for path in files(searched)} == {"train", "val", "test"}


def test_further_evaluations_of_a_candidate_have_names_of_their_own_and_the_latest_look_the_plain_ones(
    finished,
):
    async def more(run):
        with run.ledger.read() as connection:
            seed = read_run(connection, run.id).seed_candidate
        await evaluate(run, EvaluationRequest(seed, "train", 3))
        await finalize(run, override_reason="again")

    with drive_run(finished.root, "r1") as run:
        asyncio.run(more(run))
    finished.said("export")
    written = {path.name: json.loads(path.read_text()) for path in files(finished)}
    assert len(files(finished)) == 60 + 12 + 20
    seed = short(finished.value("SELECT seed_candidate FROM runs"))
    second = finished.value("SELECT max(id) FROM evaluations WHERE split = 'test' AND tag = 'FINAL_seed'")
    assert written[f"{name_task('t04')}__{seed}__t0.json"]["evaluation"] == second
    added = finished.value("SELECT id FROM evaluations WHERE num_trials = 3")
    assert written[f"{name_task('t00')}__{seed}__t2__e{added}.json"]["seed"] == 13


@pytest.mark.parametrize(
    "task_id",
    ["../../etc/passwd", "a/b", "CON", ".", "..", "x" * 1000, "\U0001f600", "a b\\c:d*?", "-rf", " "],
)
def test_a_hostile_id_makes_a_plain_name(task_id):
    name = name_task(task_id)
    assert PurePosixPath(name).name == name
    assert name.isascii()
    assert len(name) < 60
    assert all(char.isalnum() or char in "._-" for char in name)
    assert name[0].isalnum()


@given(st.lists(st.text(min_size=1, max_size=30), unique=True, min_size=2, max_size=20))
def test_different_ids_have_different_names_even_where_case_is_ignored(ids):
    assert len({name_task(task_id).lower() for task_id in ids}) == len(ids)
