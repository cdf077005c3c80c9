from __future__ import annotations

import json
import subprocess
import sys

import pytest
from sqlalchemy import select

from capevolve.canonical import canonical_json, short
from capevolve.errors import LedgerError, UserError
from capevolve.ledger import schema
from capevolve.report import projections as module
from capevolve.report import write_projections


def write(story):
    return write_projections(story.ledger, story.root, story.run_id, now=story.now)


def test_a_finished_run_leaves_all_its_files(tell):
    story = tell()
    story.improve()
    story.conclude()
    made = write(story)
    assert made.folder == story.root / ".capevolve" / "runs" / "demo-1"
    assert sorted(path.name for path in made.folder.iterdir()) == [
        "candidates",
        "final.json",
        "report.html",
        "report.md",
        "splits.json",
    ]
    assert made.report_html.read_text().startswith("<!DOCTYPE html>")
    assert made.report_md.read_text().startswith("# Run demo")
    assert len(made.candidates) == 3
    assert made.candidates[0].name == short(story.seed_id)
    assert (made.candidates[0] / "prompt.md").read_text() == "seed"
    assert {(path / "prompt.md").read_text() for path in made.candidates} == {"seed", "worse", "better"}


def test_final_json_is_the_committed_result_and_nothing_else(tell):
    story = tell()
    story.improve()
    assert write(story).final is None
    story.conclude()
    made = write(story)
    with story.ledger.read() as connection:
        stored = connection.scalar(select(schema.attempts.c.result))
    assert canonical_json(json.loads(made.final.read_text())) == stored


def test_a_final_json_without_a_result_behind_it_is_removed(tell):
    story = tell()
    folder = write(story).folder
    (folder / "final.json").write_text('{"test": {"reward": 1.0}}')
    assert write(story).final is None
    assert not (folder / "final.json").exists()


def test_test_ids_stay_out_of_every_file_until_the_commit(tell):
    story = tell()
    story.improve()
    story.open_attempt()
    made = write(story)
    splits = json.loads(made.splits.read_text())
    assert (splits["test"], splits["test_used"], splits["sizes"]["test"]) == (None, False, 8)
    assert splits["val"] == [f"val-{n}" for n in range(8)]
    for path in (made.splits, made.report_md, made.report_html):
        assert "test-3" not in path.read_text()
    story.conclude()
    splits = json.loads(write(story).splits.read_text())
    assert splits["test"] == [f"test-{n}" for n in range(8)]
    assert splits["test_used"] is True


def test_the_same_ledger_gives_the_same_bytes(tell):
    story = tell()
    story.improve()
    story.conclude()
    first = {path: path.read_bytes() for path in write(story).folder.rglob("*") if path.is_file()}
    story.tick(10_000)
    second = {path: path.read_bytes() for path in write(story).folder.rglob("*") if path.is_file()}
    assert first == second


def test_deleted_files_come_back_and_edited_candidates_are_left_alone(tell):
    story = tell()
    made = write(story)
    made.report_md.unlink()
    made.splits.write_text("{}")
    (made.candidates[0] / "prompt.md").write_text("edited")
    again = write(story)
    assert again.report_md.exists()
    assert json.loads(again.splits.read_text())["run"] == "demo-1"
    assert (made.candidates[0] / "prompt.md").read_text() == "edited"


def test_a_failed_write_leaves_the_old_file_and_no_scrap(tell, monkeypatch):
    story = tell()
    made = write(story)
    before = made.report_html.read_bytes()

    monkeypatch.setattr(module, "render_html", lambda _facts: "\ud800")  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        write(story)
    assert made.report_html.read_bytes() == before
    assert not [path for path in made.folder.iterdir() if path.name.startswith(".")]


def test_a_folder_that_cannot_be_written_is_named(tell):
    story = tell()
    (story.root / ".capevolve").write_text("a file in the way")
    with pytest.raises(UserError, match="cannot be written"):
        write(story)


def test_a_tree_that_cannot_be_read_leaves_no_half_folder(tell):
    story = tell()
    with story.ledger.write() as connection:
        connection.execute(schema.blobs.delete())
    with pytest.raises(LedgerError):
        write(story)
    folder = story.root / ".capevolve" / "runs" / "demo-1" / "candidates"
    assert list(folder.iterdir()) == []


def test_files_can_be_read_by_others(tell):
    made = write(tell())
    assert oct(made.report_md.stat().st_mode & 0o777) == "0o644"
    assert oct(made.candidates[0].stat().st_mode & 0o777) == "0o755"


def test_facts_and_status_load_neither_matplotlib_nor_jinja2():
    code = (
        "import sys, capevolve.report; "
        "print([n for n in ('matplotlib', 'jinja2', 'prefect') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
