"""`capevolve rescore`: the table, the words about what it does not change, and the sealed split."""

from __future__ import annotations

import sqlite3

import pytest


@pytest.fixture
def finished(make_project, complete):
    project = make_project()
    complete(project)
    return project


def test_old_and_new_means_are_shown_for_each_candidate_and_nothing_else_changes(capevolve, finished):
    calls = finished.calls()
    text = (finished.root / "adapter.py").read_text()
    (finished.root / "adapter.py").write_text(text.replace("float(task.target in rollout.output)", "0.25"))
    said = capevolve("rescore", "r1", "-p", finished.root)
    assert said.code == 0, said.err
    assert "(a changed adapter): 12 rollouts now, the target was not called" in said.out
    rows = [line for line in said.out.splitlines() if " val" in line and "tasks)" in line]
    assert [line.split()[2] for line in rows] == ["0.000", "0.000", "1.000"]
    assert all("0.250 (4 tasks)" in line for line in rows)
    assert "4 of 4 (0 up, 4 down)" in rows[2]
    assert "needs a new run" in said.err
    assert finished.calls() == calls
    again = capevolve("rescore", "r1", "-p", finished.root)
    assert "0 rollouts now" in again.out
    (finished.root / "adapter.py").write_text(text)
    assert capevolve("verify", "r1", "-p", finished.root).code == 0
    assert "the adapter of the run" in capevolve("rescore", "-p", finished.root, "--candidate", "best").out
    # The sealed split: refused by name, and in no row.
    said = capevolve("rescore", "r1", "-p", finished.root, "--split", "test")
    assert (said.code, said.out) == (3, "")
    assert "never scored again" in said.err
    with sqlite3.connect(finished.root / ".capevolve" / "ledger.db") as connection:
        splits = connection.execute(
            "SELECT DISTINCT e.split FROM rescores r JOIN evaluations e ON e.id = r.evaluation_id"
        ).fetchall()
    connection.close()
    assert splits == [("val",)]


def test_what_is_not_there_to_score_exits_2(capevolve, make_project, baseline):
    project = make_project()
    baseline(project)
    for words in (("--split", "dev"), ("--candidate", "zzzz"), ("--split", "train")):
        assert capevolve("rescore", "-p", project.root, *words).code == 2
