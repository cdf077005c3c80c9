"""Loads the modules of an example project as a host does: by their bare names, its folder on the path."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@contextmanager
def open_project(folder: Path, *names: str) -> Iterator[SimpleNamespace]:
    before, path = set(sys.modules), list(sys.path)
    assert before.isdisjoint(names), "a module of this name is loaded already"
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(folder=folder, **{name: importlib.import_module(name) for name in names})
    finally:
        sys.path[:] = path
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture(scope="package")
def examples() -> Path:
    return EXAMPLES


@pytest.fixture(scope="module")
def marker() -> Iterator[SimpleNamespace]:
    with open_project(EXAMPLES / "marker", "adapter") as project:
        yield project


@pytest.fixture(scope="module")
def style() -> Iterator[SimpleNamespace]:
    with open_project(EXAMPLES / "capevolve_style" / "adapters", "adapter") as project:
        yield project


@pytest.fixture(scope="module")
def tables() -> Iterator[SimpleNamespace]:
    names = ("agent", "database", "adapter", "course", "operators", "propose")
    with open_project(EXAMPLES / "tables", *names) as project:
        yield project
