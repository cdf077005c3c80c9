"""Prepared edits, in order, and only inside the candidate."""

from __future__ import annotations

import asyncio

import pytest

from capevolve.errors import SpecError
from capevolve.proposers.draft import Draft
from capevolve.proposers.script import ScriptEdit, ScriptProposer, load_script


def _edit(folder, brief, entries, iteration=1):
    proposer = ScriptProposer(tuple(ScriptEdit(**entry) for entry in entries))
    return asyncio.run(proposer.edit(folder, brief(iteration), seed=0))


def test_each_iteration_applies_its_entry(desk, brief):
    entries = [
        {"summary": "one", "edits": {"prompt.md": "1\n", "new/file": "x"}},
        {"summary": "two", "edits": {"prompt.md": None, "missing": None}},
    ]
    assert _edit(desk.folder, brief, entries) == Draft(summary="one")
    assert (desk.folder / "prompt.md").read_text() == "1\n"
    assert (desk.folder / "new" / "file").read_text() == "x"
    assert _edit(desk.folder, brief, entries, 2) == Draft(summary="two")
    assert not (desk.folder / "prompt.md").exists()


def test_after_the_last_entry_there_is_nothing_more(desk, brief):
    draft = _edit(desk.folder, brief, [], 1)
    assert draft.exhausted
    assert draft.failure == "the script holds 0 edits"


@pytest.mark.parametrize(
    "edits",
    [
        {"tools": "x"},
        {"tools": None},
        {"prompt.md/below": "x"},
        {"": "x"},
        {".": None},
        {"a\0b": "x"},
        {"x" * 300: "x"},
    ],
    ids=repr,
)
def test_an_edit_that_cannot_be_made_costs_the_iteration_and_not_the_run(desk, brief, edits):
    (desk.folder / "tools").mkdir()
    (desk.folder / "tools" / "run.py").write_text("")
    draft = _edit(desk.folder, brief, [{"edits": edits}])
    assert draft.failure is not None
    assert "cannot be made" in draft.failure


def test_text_that_is_no_utf_8_costs_the_iteration_and_not_the_run(desk, brief):
    assert _edit(desk.folder, brief, [{"edits": {"prompt.md": "\ud800"}}]).failure is not None


def test_a_script_needs_no_evidence_and_nothing_to_check():
    proposer = ScriptProposer(())
    assert not proposer.needs_evidence
    proposer.check()


def test_a_file_is_read_in_order(tmp_path):
    path = tmp_path / "edits.yaml"
    path.write_text("- edits: {a: '1'}\n- {summary: two, edits: {b: null}}\n")
    proposer = load_script(path)
    assert [dict(entry.edits) for entry in proposer.entries] == [{"a": "1"}, {"b": None}]
    assert [entry.summary for entry in proposer.entries] == ["", "two"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"just text",
        b"{a: 1}",
        b"- 5",
        b"- edits: 5",
        b"- edits: {a: 5}",
        b"- {edits: {}, other: 1}",
        b"- summary: no edits",
        b"a: [",
        b"\xff\xfe\xfa",
        b"- edits: {/etc/passwd: x}",
        b"- edits: {../escape: x}",
        b"- edits: {a/../../escape: x}",
        b"- !!python/object/apply:os.system ['true']",
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_name(tmp_path, content):
    path = tmp_path / "edits.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_script(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused_with_its_name(tmp_path):
    for path in (tmp_path / "nowhere.yaml", tmp_path):
        with pytest.raises(SpecError, match="cannot be read"):
            load_script(path)
