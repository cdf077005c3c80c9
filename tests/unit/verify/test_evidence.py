"""The digests sealed with a result: what they cover, and that they do not depend on how rows are stored."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from capevolve.canonical import canonical_json
from capevolve.ledger.evidence import MARK_LENGTH, RunDigests, digest_run, parse_payload
from capevolve.ledger.store import open_ledger
from capevolve.verify import verify_run


def digests(run, run_id="r1"):
    ledger = run.open()
    with ledger.read() as connection:
        found = digest_run(connection, run_id)
    ledger.close()
    return found


def test_a_commit_seals_every_row_of_the_run(finished):
    payload = json.loads(finished.value("SELECT payload FROM seal_events WHERE kind = 'committed'"))
    sealed = parse_payload(payload["evidence"])
    counts = {table: sum(name[0] == table for name in sealed.marks) for table in {n[0] for n in sealed.marks}}
    assert counts == {
        "runs": 1, "split_sets": 1, "split_tasks": 15, "proposals": 3, "verdicts": 3, "trials": 60
    }  # fmt: skip
    now = digests(finished)
    assert sealed.digest == now.combine()
    assert {name: full[:MARK_LENGTH] for name, full in now.rows.items()} == sealed.marks


def test_the_order_in_which_rows_lie_does_not_matter(finished):
    before = digests(finished)
    rows = finished.rows("SELECT * FROM trials ORDER BY trial DESC, task_id DESC")
    finished.edit("DELETE FROM trials")
    for row in rows:
        finished.edit(f"INSERT INTO trials VALUES ({', '.join('?' * len(row))})", *row)
    assert digests(finished) == before


def test_other_runs_and_what_can_still_change_are_not_covered(searched):
    before = digests(searched)
    evaluation, task = searched.test_trial(split="val")
    searched.edit(
        "INSERT INTO trials (evaluation_id, task_id, trial, seed, state, epoch, session, calls, interrupted, "
        "claimed_at) VALUES (?, ?, 5, 16, 'claimed', 1, 1, 1, 0, 1.0)",
        evaluation, task,
    )  # fmt: skip
    searched.edit(
        "INSERT INTO proposals (run_id, iteration, parent_id, status, summary, detail, calls, started_at) "
        "VALUES ('r1', 4, 'x', 'started', '', '', 1, 1.0)"
    )
    searched.edit("UPDATE runs SET status = 'stopped', stop_reason = 'x', spec = '{}'")
    searched.edit("UPDATE evaluations SET session = session + 1")
    assert digests(searched) == before
    assert digests(searched, "r2").rows == {}


def test_a_long_text_is_not_its_own_digest(finished):
    """A text put in the place of a long one must not look like it."""
    from capevolve.ledger.evidence import _shorten

    long = "x" * 300
    assert _shorten(long) != canonical_json(_shorten(long))
    assert len(json.dumps(_shorten(long))) < 100
    assert _shorten("short") == "short"
    evaluation, task = finished.test_trial()
    where = f"evaluation_id = {evaluation} AND task_id = '{task}' AND trial = 0"
    finished.edit(f"UPDATE rollouts SET payload = ? WHERE {where}", long)
    before = digests(finished)
    finished.edit(f"UPDATE rollouts SET payload = ? WHERE {where}", long[:-1] + "y")
    changed = {name for name, full in digests(finished).rows.items() if full != before.rows[name]}
    assert changed == {("trials", str(evaluation), task, "0")}


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda rows: None, None),
        (lambda rows: rows.update({("verdicts", "1"): "f" * 64}), ("verdicts", "1")),
        (lambda rows: rows.pop(("trials", "3", "a", "0")), ("trials", "3", "a", "0")),
        (lambda rows: rows.update({("trials", "9", "b", "0"): "e" * 64}), None),  # added later
    ],
)
def test_the_first_edited_row_is_found(edit, found):
    rows = {
        ("verdicts", "1"): "a" * 64,
        ("trials", "3", "a", "0"): "b" * 64,
        ("trials", "3", "a", "1"): "c" * 64,
    }
    sealed = parse_payload(json.loads(canonical_json(RunDigests(rows).to_payload())))
    now = dict(rows)
    edit(now)
    assert sealed.find_edited(RunDigests(now)) == found
    if found is None:
        assert sealed.agrees(RunDigests(now))


def test_marks_only_locate_and_the_digest_proves():
    rows = {("verdicts", "1"): "a" * 64}
    sealed = parse_payload(RunDigests(rows).to_payload())
    collision = RunDigests({("verdicts", "1"): "a" * MARK_LENGTH + "b" * 56})
    assert sealed.find_edited(collision) is None
    assert not sealed.agrees(collision)


def test_the_digests_of_an_old_ledger_are_computed_as_they_were_then(tmp_path):
    """A change of what is covered must be a new version: nothing sealed may turn into tampering."""
    dump = Path(__file__).parents[1] / "ledger" / "old" / "ledger-v1.sql"
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.executescript(dump.read_text())
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db", create=False)
    with ledger.read() as connection:
        verified = verify_run(connection, "old-1")
    ledger.close()
    assert verified.committed
    assert not any("digests" in sentence for sentence in verified.unchecked)
