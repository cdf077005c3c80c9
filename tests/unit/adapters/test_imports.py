"""Modules that an adapter imports, also late, belong to it: editing one is editing the judge."""

from __future__ import annotations

from pathlib import Path

from capevolve.adapters.imports import find_imports


def write(root: Path, **files: str) -> list[Path]:
    made = []
    for name, source in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        made.append(path.resolve())
    return made


def test_an_import_inside_a_function_and_what_it_imports_are_found(tmp_path):
    adapter, scoring, words = write(
        tmp_path,
        adapter="import os\ndef score():\n    from scoring import grade\n",
        scoring="import words\n",
        words="import json\n",
    )
    assert find_imports([adapter], [tmp_path]) == [scoring, words]


def test_packages_and_relative_imports_are_followed(tmp_path):
    adapter, *_ = write(tmp_path, adapter="from judge.rules import strict\n")
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "__init__.py").write_text("")
    (tmp_path / "judge" / "rules.py").write_text("from . import marks\nfrom .deep import well\n")
    (tmp_path / "judge" / "marks.py").write_text("")
    (tmp_path / "judge" / "deep.py").write_text("")
    names = [path.name for path in find_imports([adapter], [tmp_path])]
    assert names == ["__init__.py", "deep.py", "marks.py", "rules.py"]


def test_what_is_not_beside_the_adapter_or_not_python_is_left_alone(tmp_path):
    adapter, broken = write(tmp_path, adapter="import numpy, broken\n", broken="def (:\n")
    (tmp_path / "data.csv").write_text("x")
    assert find_imports([adapter, tmp_path / "data.csv"], [tmp_path]) == [broken]


def test_two_modules_that_import_each_other_end(tmp_path):
    a, b = write(tmp_path, a="import b\n", b="import a\n")
    assert find_imports([a], [tmp_path]) == [a, b]
