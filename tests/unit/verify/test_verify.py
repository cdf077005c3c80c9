"""A run as it was written passes, in whatever state it is, in words that fit; verifying writes nothing."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from sqlalchemy import event

from capevolve import failpoints
from capevolve.budget import Remaining
from capevolve.errors import BudgetExhaustedError, LedgerError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.finalize import finalize
from capevolve.ledger.runs import read_run
from capevolve.runs import drive_run
from capevolve.verify import verify_run


def test_a_finished_run_passes_and_says_what_was_checked(finished):
    said = finished.said("verify")
    assert said.code == 0
    first, *lines = said.out.splitlines()
    assert first == "PASS: run r1 is what its rows say."
    assert lines[0] == (
        "checked: the seal's chain (2 events), the plan of 1 attempt, the splits of 15 tasks, 4 candidates "
        "(5 files), 60 trials of 7 evaluations, 3 verdicts (2 accepted), the numbers of 1 result, "
        "6 of its projections"
    )
    head = finished.value("SELECT hash FROM seal_events WHERE seq = 2")
    assert lines[1] == f"head of the seal's chain: {head}"
    assert len(lines) == 2


def test_a_run_can_be_named_and_an_unknown_one_is_no_tampering(finished):
    assert finished.said("verify", "r1").code == 0
    assert finished.said("verify", "last").code == 0
    said = finished.said("verify", "r9")
    assert said.code == 4
    assert "knows no run 'r9'" in said.err
    ledger = finished.open()
    with ledger.read() as connection, pytest.raises(LedgerError):
        verify_run(connection, "r9")
    ledger.close()


def test_a_difference_ends_in_exit_code_3_and_is_told_on_standard_error(finished):
    finished.edit("UPDATE trials SET seed = 99 WHERE seed = 12")
    said = finished.said("verify")
    assert said.code == 3
    assert said.out == ""
    assert said.err.startswith("capevolve: seed is 99, should be 12.\n  where: table trials, evaluation ")
    assert "next:" in said.err
    (finished.folder / "final.json").write_text("{}")
    finished.edit("UPDATE trials SET seed = 12 WHERE seed = 99")
    said = finished.said("verify")
    assert said.code == 3
    assert "final.json" in said.err


def test_a_run_that_is_not_finalized_verifies_what_there_is_and_says_so(searched):
    said = searched.said("verify")
    assert said.code == 0
    assert "PASS: run r1 is what its rows say, as far as it went." in said.out
    assert "not checked: The run is not finalized (the test split is sealed)" in said.out
    assert "3 verdicts (2 accepted)" in said.out
    assert "result" not in said.out


@pytest.mark.parametrize("column", ["split", "digest", "task_id", "cluster", "position"])
def test_no_test_id_is_shown_while_test_is_sealed(searched, column):
    """Whatever is edited: the sealed split is read to be checked, and not told."""
    value = {"split": "val", "position": 99}.get(column, "sha256:0")
    (position,) = searched.rows("SELECT position FROM split_tasks WHERE task_id = 't05'")[0]
    searched.edit(f"UPDATE split_tasks SET {column} = ? WHERE task_id = 't05'", value)
    said = searched.refused("table split_")
    hidden = [row[0] for row in searched.rows("SELECT task_id FROM split_tasks WHERE split = 'test'")]
    assert not re.search("|".join(["t05", "t04", "t11", "t12", "t14", *hidden]), said)
    if column in ("split", "position"):
        assert f"position {position}" in said or "position" in said


def test_equal_contents_in_two_splits_are_refused_without_an_id_while_test_is_sealed(searched):
    digest = searched.value("SELECT digest FROM split_tasks WHERE task_id = 't01'")
    searched.edit("UPDATE split_tasks SET digest = ? WHERE task_id = 't05'", digest)
    said = searched.refused("table split_sets, run r1", "cannot be drawn again")
    assert "t05" not in said


@pytest.mark.parametrize("state", ["opened", "scoring"])
def test_an_interrupted_finalize_passes_and_is_no_result(searched, monkeypatch, state):
    class PowerCutError(Exception):
        pass

    def cut(name):
        if name == {"opened": "seal.opened", "scoring": "evaluate.after_commit"}[state]:
            raise PowerCutError

    monkeypatch.setattr(failpoints, "hook", cut)
    with drive_run(searched.root, "r1") as run, pytest.raises(PowerCutError):
        asyncio.run(finalize(run))
    monkeypatch.setattr(failpoints, "hook", None)
    said = searched.said("verify")
    assert said.code == 0
    assert "not checked: The run is not finalized (an attempt at test is open)" in said.out
    with drive_run(searched.root, "r1") as run:
        asyncio.run(finalize(run))
    said = searched.said("verify")
    assert said.code == 0
    assert "the numbers of 1 result" in said.out
    if state == "scoring":
        assert searched.value("SELECT sum(interrupted) FROM trials") > 0


def test_a_plan_that_was_replaced_before_any_call_leaves_nothing_that_bars_the_commit(copy_of, monkeypatch):
    run = copy_of("one-step", {"search": {"max_iterations": 1}}, to_the_end=False)

    class PowerCutError(Exception):
        pass

    def cut(name):
        if name == "evaluate.opened":
            raise PowerCutError

    monkeypatch.setattr(failpoints, "hook", cut)
    with drive_run(run.root, "r1") as opened, pytest.raises(PowerCutError):
        asyncio.run(finalize(opened))
    monkeypatch.setattr(failpoints, "hook", None)
    assert run.verify().committed is False
    spec = json.loads((run.root / "capevolve.yaml").read_text())
    (run.root / "capevolve.yaml").write_text(json.dumps({**spec, "search": {"max_iterations": 3}}))
    run.drive("r1")  # the search goes on and finds a better candidate
    assert run.rows("SELECT kind FROM seal_events ORDER BY seq") == [
        ("opened",),
        ("replanned",),
        ("committed",),
    ]
    assert run.value("SELECT count(*) FROM evaluations WHERE split = 'test' AND finished_at IS NULL") == 1
    assert run.verify().committed


def test_no_test_id_is_shown_while_an_attempt_is_open(searched, monkeypatch):
    class PowerCutError(Exception):
        pass

    def cut(name):
        if name == "seal.scored":
            raise PowerCutError

    monkeypatch.setattr(failpoints, "hook", cut)
    with drive_run(searched.root, "r1") as run, pytest.raises(PowerCutError):
        asyncio.run(finalize(run))
    monkeypatch.setattr(failpoints, "hook", None)
    evaluation, task = searched.test_trial()
    where = f"evaluation_id = {evaluation} AND task_id = '{task}' AND trial = 0"
    position = searched.value("SELECT position FROM split_tasks WHERE task_id = ?", task)
    for statement, named in (
        (f"UPDATE trials SET seed = 5 WHERE {where}", "seed is 5"),
        (f"DELETE FROM trials WHERE {where}", "is missing"),
    ):
        searched.edit(statement)
        said = searched.refused(f"table trials, evaluation {evaluation}, position {position}, trial 0", named)
        assert task not in said
    searched.edit("UPDATE split_tasks SET digest = 'sha256:0' WHERE task_id = ?", task)
    said = searched.refused(f"table split_tasks, run r1, position {position}", 'digest is "sha256:0"')
    assert task not in said


def test_a_run_that_only_began_passes(searched):
    for table in ("verdicts", "proposals", "rollouts", "trials", "evaluations"):
        searched.edit(f"DELETE FROM {table}")
    searched.edit("DELETE FROM candidates WHERE id <> (SELECT seed_candidate FROM runs)")
    verified = searched.verify()
    assert verified.committed is False
    assert "1 candidate (1 file)" in verified.checked


def test_a_run_without_a_holdout_passes_and_its_number_is_called_a_fit_metric(copy_of):
    ids = ["t00", "t01", "t02", "t03"]
    splits = {"ids": {"train": ids, "val": ids, "test": ids}, "allow_no_holdout": True}
    run = copy_of("no-holdout", {"splits": splits, "search": {"max_iterations": 1}})
    said = run.said("verify")
    assert said.code == 0
    assert "Its test number is a fit metric: test is no holdout." in said.out
    run.edit("UPDATE split_tasks SET digest = 'sha256:0' WHERE task_id = 't00' AND split = 'test'")
    run.refused("table split_tasks")


def test_ids_pinned_in_a_file_are_taken_as_stored_and_that_is_said(copy_of):
    spec = {"splits": {"ids_file": "ids.json"}, "search": {"max_iterations": 0}}
    pinned = '{"train": ["t00", "t01"], "val": ["t02", "t03"], "test": ["t04", "t05"]}'
    run = copy_of("ids-file", spec, files={"ids.json": pinned})
    (run.root / "ids.json").unlink()  # from the rows alone
    said = run.said("verify")
    assert said.code == 0
    assert "splits.ids_file" in said.out
    run.edit("UPDATE split_tasks SET split = 'val' WHERE task_id = 't00'")
    run.refused("table split_")


def look_again(run):
    with drive_run(run.root, "r1") as opened:
        asyncio.run(finalize(opened, override_reason="the scorer had a bug"))


def test_a_second_look_passes_and_both_results_are_computed_again(finished):
    look_again(finished)
    (finished.folder / "final.json").unlink()
    verified = finished.verify()
    assert "the numbers of 2 results" in verified.checked
    finished.edit_json("attempts", "result", "number = 1", lambda r: r["test"].update(reward=1.0))
    finished.refused("table attempts, run r1, attempt 1")


def test_rows_of_the_first_look_stay_under_their_seal_after_a_second(finished):
    evaluation, task = finished.test_trial()
    finished.edit("UPDATE trials SET cost_usd = 9 WHERE evaluation_id = ? AND task_id = ?", evaluation, task)
    look_again(finished)  # its digests are of the edited row
    finished.refused(
        f"table trials, evaluation {evaluation}, task '{task}', trial 0", "sealed with attempt 1"
    )


def test_what_is_measured_after_the_commit_is_no_tampering(finished):
    async def measure(run):
        with run.ledger.read() as connection:
            seed = read_run(connection, run.id).seed_candidate
        with pytest.raises(BudgetExhaustedError):  # an evaluation that is not finished
            await evaluate(run, EvaluationRequest(seed, "val", 4), remaining=Remaining(calls=3))
        assert finished.verify().committed
        await evaluate(run, EvaluationRequest(seed, "val", 4))
        await evaluate(run, EvaluationRequest(seed, "train", ids=("t00", "t02")))

    with drive_run(finished.root, "r1") as run:
        asyncio.run(measure(run))
    assert "80 trials of 9 evaluations" in finished.verify().checked


def test_trials_that_were_unfinished_at_the_commit_are_finished_later_without_alarm(searched):
    async def partly(run, remaining):
        with run.ledger.read() as connection:
            seed = read_run(connection, run.id).seed_candidate
        await evaluate(run, EvaluationRequest(seed, "train", 3), remaining=remaining)

    with drive_run(searched.root, "r1") as run:
        with pytest.raises(BudgetExhaustedError):
            asyncio.run(partly(run, Remaining(calls=5)))
        asyncio.run(finalize(run))
        assert searched.verify().committed
        asyncio.run(partly(run, Remaining()))
    assert searched.verify().committed


def test_a_run_with_an_older_commit_passes_and_says_that_no_digests_were_sealed(finished):
    finished.relink(lambda payload: payload.pop("evidence"))
    said = finished.said("verify")
    assert said.code == 0
    assert (
        "not checked: A result was committed without digests of the rows that this version knows." in said.out
    )
    finished.relink(lambda payload: payload.update(evidence={"version": 99}))
    assert finished.said("verify").code == 0


def test_verifying_writes_nothing(finished):
    before = {path: path.read_bytes() for path in finished.root.rglob("*") if path.is_file()}
    said = []
    ledger = finished.open()
    event.listen(ledger._engine, "before_cursor_execute", lambda c, cur, text, *rest: said.append(text))
    with ledger.read() as connection:
        verify_run(connection, "r1")
        assert connection.exec_driver_sql("SELECT total_changes()").scalar() == 0
    ledger.close()
    assert {text.split()[0] for text in said} == {"BEGIN", "SELECT"}
    assert finished.said("verify").code == 0
    assert {path: path.read_bytes() for path in finished.root.rglob("*") if path.is_file()} == before
