"""What a file's name promises is looked at before a target call is paid, and nothing of it is run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capevolve.proposers.syntax import find_fault, find_unreadable

SKILL = b"---\nname: tables\ndescription: Reads tables.\n---\n\n# Tables\n"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("tool.py", b"def run(x):\n    return x\n"),
        ("tool.py", b"# -*- coding: latin-1 -*-\ntext = '\xe9'\n"),
        ("tool.py", b"assert (1, 'a warning is no fault')\n"),
        ("a/b.JSON", b'\xef\xbb\xbf{"a": [1, 2]}'),
        ("a.toml", b"a = 1\n"),
        ("a.yaml", b"a: 1\n---\nb: !anything [1]\n"),
        ("a.yml", b""),
        ("SKILL.md", SKILL),
        ("skills/x/SKILL.md", SKILL.replace(b"\n", b"\r\n")),
        ("README.md", b"no front matter"),
        ("prompt.txt", b"\xff\x00"),
    ],
)
def test_a_file_that_is_what_its_name_says_has_no_fault(path: str, data: bytes):
    assert find_fault(path, data) is None


@pytest.mark.parametrize(
    ("path", "data", "fault"),
    [
        ("tool.py", b"def run(:\n", "does not compile: "),
        ("tool.py", b"a = 1\nif a:\nb = 2\n", "(line 3)"),
        ("tool.py", b"a = '\x00'\n", "does not compile"),
        ("tool.py", b"a = '\xff'\n", "does not compile"),
        ("tool.py", b"x = " + b"(" * 5000 + b")" * 5000, ""),
        ("a.json", b'{"a": }', "is not JSON: Expecting value (line 1)"),
        ("a.json", b"", "is not JSON"),
        ("a.json", b"\xff", "is not UTF-8 text"),
        ("a.json", b"[" * 200_000, "is nested too deeply"),
        ("a.json", b"9" * 5000, "is not JSON"),
        ("a.toml", b"a = \n", "is not TOML"),
        ("a.yaml", b"a: [1\nb: 2\n", "is not YAML: "),
        ("a.yaml", b"a: \x00", "is not YAML"),
        ("SKILL.md", b"# Tables\n", "does not begin with front matter"),
        ("SKILL.md", b"", "does not begin with front matter"),
        ("SKILL.md", b"---\nname: x\n", "front matter that does not end"),
        ("SKILL.md", b"---\nname: [x\n---\n", "front matter that is not YAML"),
        ("SKILL.md", b"---\nname: x\n---\n", "front matter without description"),
        ("SKILL.md", b"---\n- name\n---\n", "front matter without name and description"),
        ("SKILL.md", SKILL.replace(b"tables\n", b"' '\n"), "front matter without name"),
    ],
)
def test_a_fault_is_named(path: str, data: bytes, fault: str):
    said = find_fault(path, data)
    assert said is not None
    assert fault in said


def test_nothing_of_a_proposal_is_run(tmp_path):
    mark = tmp_path / "ran"
    assert find_fault("tool.py", f"open({str(mark)!r}, 'w')".encode()) is None
    assert find_fault("a.yaml", f"!!python/object/apply:os.mkdir ['{mark}']".encode()) is None
    assert not mark.exists()


def test_a_bomb_of_aliases_is_not_unfolded():
    rows = [b"a0: &a0 [x, x]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]".encode() for n in range(1, 40)
    ]
    assert find_fault("a.yaml", b"\n".join(rows)) is None


def test_only_new_and_changed_files_are_looked_at_and_only_against_what_they_were():
    broken, whole = b"{", b"{}"
    before = {"same.json": broken, "template.json": b"{{ a }}", "good.json": whole, "gone.py": b""}
    after = {"same.json": broken, "template.json": b"{{ b }}", "good.json": broken, "new.py": b"def"}
    found = find_unreadable(before, after)
    assert [words.split()[0] for words in found] == ["good.json", "new.py"]
    assert find_unreadable(before, {**before, "template.json": whole}) == []


@given(st.sampled_from(["a.py", "a.json", "a.toml", "a.yaml", "SKILL.md"]), st.binary(max_size=60))
def test_whatever_a_file_holds_there_is_an_answer(path: str, data: bytes):
    said = find_fault(path, data)
    assert said is None or "\n" not in said
