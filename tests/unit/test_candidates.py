"""The same files are the same candidate; what is no candidate is refused; what was changed is noticed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from capevolve import candidates
from capevolve.candidates import (
    Candidate,
    CandidateFile,
    diff_candidates,
    find_changes,
    load_candidate,
    read_file,
    read_tree,
    resolve_candidate,
    store_candidate,
    write_candidate,
)
from capevolve.canonical import digest_bytes
from capevolve.errors import LedgerError, TamperError, UserError
from capevolve.ledger import schema
from capevolve.ledger.store import Ledger, open_ledger

FILES = {"prompt.md": "hello\n", "tools/run.py": "print(1)\n", "a.txt": ""}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


def _folder(path: Path, files: dict[str, str | bytes] | None = None) -> Path:
    path.mkdir(parents=True)
    for name, text in (FILES if files is None else files).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _store(ledger: Ledger, folder: Path) -> Candidate:
    with ledger.write() as connection:
        return store_candidate(connection, read_tree(folder))


def _diff(ledger: Ledger, tmp_path: Path, old: dict[str, str | bytes], new: dict[str, str | bytes]) -> str:
    before, after = _folder(tmp_path / "old", old), _folder(tmp_path / "new", new)
    return _diff_folders(ledger, before, after)


def _diff_folders(ledger: Ledger, before: Path, after: Path) -> str:
    a, b = _store(ledger, before), _store(ledger, after)
    with ledger.read() as connection:
        return diff_candidates(connection, a, b)


def test_the_id_does_not_depend_on_the_place_the_order_or_the_times(tmp_path):
    one = _folder(tmp_path / "one")
    two = _folder(tmp_path / "elsewhere" / "zwei ü", dict(reversed(FILES.items())))
    for path in two.rglob("*"):
        os.utime(path, (1, 1))
    assert read_tree(one).candidate == read_tree(two).candidate


def test_the_id_is_made_of_names_contents_and_executable_bits(tmp_path):
    ids = {read_tree(_folder(tmp_path / "base")).candidate.id}
    for number, change in enumerate(
        (
            lambda d: (d / "prompt.md").write_text("hello"),
            lambda d: (d / "prompt.md").rename(d / "Prompt.md"),
            lambda d: (d / "a.txt").unlink(),
            lambda d: (d / "new").write_text(""),
            lambda d: (d / "a.txt").chmod(0o755),
            lambda d: (d / "a.txt").rename(d / "tools" / "a.txt"),
        )
    ):
        folder = _folder(tmp_path / str(number))
        change(folder)
        ids.add(read_tree(folder).candidate.id)
    assert len(ids) == 7


def test_only_the_owners_executable_bit_counts(tmp_path):
    folder = _folder(tmp_path / "one", {"run": "x"})
    seen = {}
    for mode in (0o644, 0o600, 0o611, 0o755, 0o700, 0o744):
        (folder / "run").chmod(mode)
        seen[mode] = read_tree(folder).candidate.files[0].executable
    assert seen == {0o644: False, 0o600: False, 0o611: False, 0o755: True, 0o700: True, 0o744: True}


def test_the_id_is_the_same_where_nothing_may_be_executed(tmp_path, monkeypatch):
    folder = _folder(tmp_path / "one", {"run": "x"})
    (folder / "run").chmod(0o755)
    expected = read_tree(folder).candidate
    monkeypatch.setattr(os, "access", lambda *_a, **_k: False)  # as on a file system mounted noexec
    assert read_tree(folder).candidate == expected


def test_an_empty_folder_is_a_candidate_without_files(tmp_path, ledger):
    candidate = _store(ledger, _folder(tmp_path / "one", {}))
    assert candidate.files == ()
    with ledger.read() as connection:
        assert load_candidate(connection, candidate.id) == candidate
        write_candidate(connection, candidate, tmp_path / "again")
    assert read_tree(tmp_path / "again").candidate == candidate


def test_empty_folders_inside_do_not_count(tmp_path):
    one, two = _folder(tmp_path / "one"), _folder(tmp_path / "two")
    (two / "nothing" / "in" / "here").mkdir(parents=True)
    assert read_tree(one).candidate == read_tree(two).candidate


def test_git_and_caches_are_left_out_at_any_depth_and_nothing_else_is(tmp_path):
    noise = {
        ".git/config": "x",
        "tools/.git/HEAD": "x",
        "__pycache__/a.pyc": "x",
        "tools/deep/__pycache__/b.pyc": "x",
    }
    kept = {".gitignore": "x", ".hidden/file": "x", "tools/STATE.md": "x", "git/__pycache__.txt": "x"}
    candidate = read_tree(_folder(tmp_path / "one", {**noise, **kept})).candidate
    assert [file.path for file in candidate.files] == sorted(kept)


def test_hostile_but_legal_names_come_back_from_the_ledger(tmp_path, ledger):
    names = [
        "ü🎈.md",
        "with space",
        "new\nline",
        "quote'\"",
        "-rf",
        "a\\b",
        "CON",
        "%41",
        "x" * 200,
        "Foo",
        "foo",
    ]
    candidate = _store(ledger, _folder(tmp_path / "one", {name: name for name in names}))
    with ledger.read() as connection:
        write_candidate(connection, load_candidate(connection, candidate.id), tmp_path / "again")
    assert read_tree(tmp_path / "again").candidate == candidate
    assert (tmp_path / "again" / "new\nline").read_text() == "new\nline"


@pytest.mark.parametrize("name", [b"caf\xe9.md", b"d\xe9/file"])
def test_a_name_that_is_not_utf_8_is_refused_by_name(tmp_path, name):
    folder = _folder(tmp_path / "one")
    path = os.fsencode(folder) + b"/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w"):
        pass
    with pytest.raises(UserError, match="not UTF-8"):
        read_tree(folder)


@pytest.mark.parametrize("target", ["prompt.md", "tools", "/etc/passwd", "nowhere"])
def test_a_link_is_refused_wherever_it_points(tmp_path, target):
    folder = _folder(tmp_path / "one")
    (folder / "tools" / "link").symlink_to(target)
    with pytest.raises(UserError, match=r"(?s)holds no links.*link"):
        read_tree(folder)


def test_what_is_neither_file_nor_folder_is_refused_without_opening_it(tmp_path):
    folder = _folder(tmp_path / "one")
    os.mkfifo(folder / "pipe")
    with pytest.raises(UserError, match="only files and folders"):
        read_tree(folder)


def test_a_folder_that_is_missing_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("nowhere", "file"):
        with pytest.raises(UserError, match="does not exist"):
            read_tree(tmp_path / name)


def test_a_candidate_that_is_too_large_is_refused_without_reading_all_of_it(tmp_path, monkeypatch):
    folder = _folder(tmp_path / "one", {})
    with (folder / "data").open("wb") as file:
        file.truncate(candidates.MAX_BYTES + 1)
    read = []
    plain = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or plain(path))
    with pytest.raises(UserError, match="larger than 64 MiB"):
        read_tree(folder)
    assert read == []


def test_many_small_files_together_are_too_large_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "MAX_BYTES", 10)
    read_tree(_folder(tmp_path / "fits", {"a": "12345", "b": "67890"}))
    with pytest.raises(UserError, match="larger"):
        read_tree(_folder(tmp_path / "not", {"a": "12345", "b": "678901"}))


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    folder = _folder(tmp_path / "one")

    def fail(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", fail)  # root may read everything, so the mode is no obstacle
    with pytest.raises(UserError, match=r"(?s)cannot be read: Permission denied.*a\.txt"):
        read_tree(folder)


def test_storing_the_same_tree_again_changes_nothing(tmp_path, ledger):
    folder = _folder(tmp_path / "one")
    assert _store(ledger, folder) == _store(ledger, folder)


def test_a_candidate_nobody_stored_is_unknown(ledger):
    for name in ("sha256:" + "0" * 64, "nonsense", ""):
        with ledger.read() as connection, pytest.raises(LedgerError, match="knows no candidate"):
            load_candidate(connection, name)


@pytest.mark.parametrize(
    "manifest", ["[]", '[["prompt.md","sha256:0",false]]', "not json", "{}", '[["a"]]', "[1]"]
)
def test_a_manifest_that_was_changed_is_tampering(tmp_path, ledger, manifest):
    candidate = _store(ledger, _folder(tmp_path / "one"))
    with ledger.write() as connection:
        connection.execute(update(schema.candidates).values(manifest=manifest))
    with ledger.read() as connection, pytest.raises(TamperError, match="manifest does not match"):
        load_candidate(connection, candidate.id)


def test_a_file_that_was_changed_in_the_ledger_is_tampering_wherever_it_is_used(tmp_path, ledger):
    candidate = _store(ledger, _folder(tmp_path / "one"))
    with ledger.write() as connection:
        connection.execute(update(schema.blobs).values(data=b"return 1.0"))
    with ledger.read() as connection:
        with pytest.raises(TamperError, match="does not match its digest"):
            read_file(connection, candidate.files[0])
        with pytest.raises(TamperError):
            write_candidate(connection, candidate, tmp_path / "again")
        with pytest.raises(TamperError):
            diff_candidates(connection, Candidate("sha256:0", ()), candidate)


@pytest.mark.parametrize("path", ["../escape", "/tmp/escape", "a/../../escape", "a/.."])
def test_a_manifest_cannot_write_outside_its_folder(tmp_path, ledger, path):
    data = digest_bytes(b"x")
    with ledger.write() as connection:
        connection.execute(schema.blobs.insert().values(digest=data, data=b"x"))
    with ledger.read() as connection, pytest.raises(TamperError, match="leaves its folder"):
        write_candidate(
            connection, Candidate("sha256:0", (CandidateFile(path, data, False),)), tmp_path / "w"
        )
    assert not (tmp_path / "escape").exists()


def test_a_candidate_is_found_by_the_beginning_of_its_digest(tmp_path, ledger):
    one = _store(ledger, _folder(tmp_path / "one"))
    two = _store(ledger, _folder(tmp_path / "two", {}))
    with ledger.read() as connection:
        for name in (one.id, one.label, one.label[:5], one.id[:13]):
            assert resolve_candidate(connection, name) == one
        for name in ("", "sha256:", "zz", "%", "_" * 12):
            with pytest.raises(UserError, match="No candidate"):
                resolve_candidate(connection, name)
    with ledger.write() as connection:
        connection.execute(schema.candidates.insert().values(id=one.id[:-1] + "!", manifest="[]"))
        with pytest.raises(UserError, match="More than one"):
            resolve_candidate(connection, one.label)
    assert one.id != two.id


def test_changes_are_named_and_new_files_are_not_changes(tmp_path, ledger):
    candidate = _store(ledger, _folder(tmp_path / "one"))
    folder = tmp_path / "copy"
    with ledger.read() as connection:
        write_candidate(connection, candidate, folder)
    (folder / "cache.tmp").write_text("new")
    assert find_changes(folder, candidate) == []
    (folder / "prompt.md").write_text("other")
    (folder / "a.txt").unlink()
    shutil.rmtree(folder / "tools")
    assert find_changes(folder, candidate) == ["a.txt", "prompt.md", "tools/run.py"]


def test_a_file_replaced_by_a_link_to_its_like_is_a_change(tmp_path, ledger):
    candidate = _store(ledger, _folder(tmp_path / "one"))
    folder = tmp_path / "copy"
    with ledger.read() as connection:
        write_candidate(connection, candidate, folder)
    (folder / "prompt.md").rename(tmp_path / "moved")
    (folder / "prompt.md").symlink_to(tmp_path / "moved")
    assert find_changes(folder, candidate) == ["prompt.md"]


def test_a_diff_shows_what_changed_and_nothing_else(tmp_path, ledger):
    text = _diff(ledger, tmp_path, {"a": "1\n2\n3\n", "same": "x"}, {"a": "1\nzwei\n3\n", "same": "x"})
    assert text == "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+zwei\n 3\n"


def test_a_diff_of_equals_is_empty(tmp_path, ledger):
    assert _diff(ledger, tmp_path, dict(FILES), dict(FILES)) == ""


def test_a_diff_shows_added_and_removed_files(tmp_path, ledger):
    text = _diff(ledger, tmp_path, {"old": "1\n"}, {"new": "2\n"})
    assert "--- /dev/null\n+++ b/new\n" in text and "+2\n" in text
    assert "--- a/old\n+++ /dev/null\n" in text and "-1\n" in text


def test_a_diff_does_not_keep_silent_about_empty_files(tmp_path, ledger):
    text = _diff(ledger, tmp_path, {"old": ""}, {"new": ""})
    assert "/dev/null" in text
    assert "a/old" in text and "b/new" in text


def test_a_diff_only_names_binary_files(tmp_path, ledger):
    text = _diff(
        ledger, tmp_path, {"a": b"\xff\x00", "b": "text"}, {"a": b"\xff\x01", "b": b"te\x00xt", "c": b"\xfe"}
    )
    assert text == "binary file a differs\nbinary file b differs\nbinary file c differs\n"


def test_a_diff_shows_a_changed_executable_bit_also_beside_a_changed_text(tmp_path, ledger):
    one, two = (
        _folder(tmp_path / "1", {"run": "1\n", "b": "x"}),
        _folder(tmp_path / "2", {"run": "2\n", "b": "x"}),
    )
    (two / "run").chmod(0o755)
    (two / "b").chmod(0o755)
    text = _diff_folders(ledger, one, two)
    assert text.count("executable False -> True") == 2
    assert "+2\n" in text


def test_a_diff_splits_lines_at_newlines_only(tmp_path, ledger):
    text = _diff(
        ledger, tmp_path, {"a": "one\x0ctwo\u2028three\rfour\n"}, {"a": "one\x0ctwo\u2028three\rfive"}
    )
    assert text.count("No newline at end of file") == 1
    assert "-one\x0ctwo\u2028three\rfour\n" in text


def test_labels_are_short_and_safe_for_folder_names(tmp_path):
    label = read_tree(_folder(tmp_path / "one")).candidate.label
    assert len(label) == 12
    assert label.isalnum()
