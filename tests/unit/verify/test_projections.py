"""Files on disk say what the ledger says, or are named; files that are not there are none of anybody's business."""

from __future__ import annotations

import json
import shutil

import pytest

FIX = "capevolve report r1"


def edit_file(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_an_edited_number_in_final_json_is_named_with_both_values(finished):
    reward = json.loads((finished.folder / "final.json").read_text())["test"]["reward"]
    edit_file(finished.folder / "final.json", lambda f: f["test"].update(reward=0.987))
    finished.refused("final.json", f"test.reward is 0.987, should be {reward}", FIX)


@pytest.mark.parametrize(
    "edit",
    [
        lambda f: f.update(test_looks=0),
        lambda f: f.pop("seal"),
        lambda f: f.update(more=1),
        lambda f: f["test"].update(reward=f["test"]["reward"] + 1e-12),
    ],
)
def test_any_other_edit_of_final_json_is_named(finished, edit):
    edit_file(finished.folder / "final.json", edit)
    finished.refused("final.json", FIX)


@pytest.mark.parametrize("text", ["", "null", "[", '{"run": "r1"', "\ud7ff"])
def test_a_final_json_that_cannot_be_read_is_named(finished, text):
    (finished.folder / "final.json").write_text(text)
    finished.refused("final.json")


def test_a_key_given_twice_hides_nothing(finished):
    path = finished.folder / "final.json"
    path.write_text('{"test_looks": 0,' + path.read_text().lstrip("{"))
    finished.refused("final.json", "given twice")


def test_layout_is_no_difference(finished):
    edit_file(finished.folder / "final.json", lambda f: None)
    assert finished.said("verify").code == 0


def test_a_final_json_without_a_result_is_named(searched, finished):
    shutil.copy(finished.folder / "final.json", searched.folder / "final.json")
    searched.refused("final.json", "no committed result")


@pytest.mark.parametrize(
    "edit",
    [
        lambda s: s.update(seed=1),
        lambda s: s["train"].append("t04"),
        lambda s: s.update(test=s["val"]),
        lambda s: s.update(test_digest="sha256:0"),
        lambda s: s.update(holdout=False),
        lambda s: s.update(test_used=False),
        lambda s: s.pop("val"),
    ],
)
def test_an_edited_splits_json_is_named(finished, edit):
    edit_file(finished.folder / "splits.json", edit)
    finished.refused("splits.json", FIX)


def test_a_splits_json_from_before_the_commit_is_right_as_well(finished, searched):
    shutil.copy(searched.folder / "splits.json", finished.folder / "splits.json")
    assert finished.said("verify").code == 0
    edit_file(finished.folder / "splits.json", lambda s: s.update(val=[]))
    finished.refused("splits.json", "val")


def test_a_splits_json_that_tells_sealed_ids_is_named(searched):
    edit_file(searched.folder / "splits.json", lambda s: s.update(test=["t04"], test_used=True))
    searched.refused("splits.json")


@pytest.fixture
def tree(finished):
    """The folder of the candidate with two files."""
    (path,) = (finished.folder / "candidates").glob("*/notes")
    return path.parent


def test_an_edited_removed_or_added_file_of_a_candidate_is_named(finished, tree):
    path = tree / "notes" / "why.md"
    path.write_text("because of me")
    finished.refused(str(path), "missing or was edited", "Delete the folder")
    path.unlink()
    finished.refused(str(path))
    path.write_text("because")
    assert finished.said("verify").code == 0
    (tree / "more.md").write_text("")
    finished.refused(str(tree / "more.md"), "has no such file")


def test_a_link_or_another_mode_in_a_candidate_is_named(finished, tree):
    (tree / "prompt.md").chmod(0o755)
    finished.refused(str(tree / "prompt.md"), "executable is true, should be false")
    (tree / "prompt.md").chmod(0o644)
    (tree / "link.md").symlink_to(tree / "prompt.md")
    finished.refused("link.md")


def test_a_folder_of_no_candidate_is_named(finished):
    (finished.folder / "candidates" / "0123456789ab").mkdir()
    finished.refused("0123456789ab", "no such candidate")


def test_files_that_are_not_there_are_no_difference(finished):
    (finished.folder / "final.json").unlink()
    shutil.rmtree(next((finished.folder / "candidates").iterdir()))
    assert "4 of its projections" in finished.said("verify").out
    shutil.rmtree(finished.folder)
    said = finished.said("verify")
    assert said.code == 0
    assert "projection" not in said.out


def test_the_reports_are_made_again_and_not_compared(finished):
    (finished.folder / "report.md").write_text("everything is fine")
    assert finished.said("verify").code == 0
