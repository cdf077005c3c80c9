"""Shared fixtures: small real projects on disk, driven through the public doors."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from capevolve import failpoints
from capevolve.runs import OpenRun, drive_run

MARKER_ADAPTER = """
import os
from capevolve import Adapter as Base, Rollout, Score, Task

N = int(os.environ.get("N_TASKS", "12"))

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i, target="MARK") for i in range(N)]

    def run_target(self, task, ctx, *, seed):
        counter = os.environ.get("TARGET_CALLS")
        if counter:
            fd = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(fd, f"{task.id} {seed}\\n".encode())
            os.close(fd)
        return Rollout(task_id=task.id, output=(ctx / "prompt.md").read_text())

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(task.target in rollout.output), feedback="say the mark")
"""

MARKER_EDITS = [
    {"summary": "useless", "edits": {"prompt.md": "nothing\n"}},
    {"summary": "add the mark", "edits": {"prompt.md": "MARK\n"}},
]


@dataclass
class Project:
    """A project on disk with a counter of the target's calls outside the product."""

    root: Path
    calls_path: Path
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")

    def calls(self) -> list[str]:
        """Every call of the target so far, as `task seed`."""
        return self.calls_path.read_text().split("\n")[:-1] if self.calls_path.exists() else []

    @contextmanager
    def driven(self, run_id: str = "r1") -> Iterator[OpenRun]:
        with drive_run(self.root, run_id) as run:
            yield run


MakeProject = Callable[..., Project]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "both_ledgers: runs on SQLite and on PostgreSQL")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("both_ledgers") and "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[object]:
    """A PostgreSQL of the tests' own; without its programs the tests that need it are skipped."""
    support = load_module(Path(__file__).parent / "postgres_server.py")
    if support.find_programs() is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have PostgreSQL: .ci/run installs it")
        pytest.skip("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    with support.running_server() as server:
        yield server


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """`sqlite`, or `postgresql` for tests marked `both_ledgers`."""
    return getattr(request, "param", "sqlite")


@pytest.fixture
def make_ledger_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes URLs of new, empty ledgers."""
    if backend == "postgresql":
        return request.getfixturevalue("postgres_server").make_url
    numbers = itertools.count(1)
    return lambda: f"sqlite:///{tmp_path}/ledger{next(numbers)}.db"


@pytest.fixture
def make_project(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    make_ledger_url: Callable[[], str],
) -> MakeProject:
    """Makes a project: an adapter's source, a spec, a seed candidate. By default the marker project."""
    made = 0

    def make(
        adapter: str = MARKER_ADAPTER,
        spec: dict[str, object] | None = None,
        seed: dict[str, str] | None = None,
        edits: Sequence[dict[str, object]] = MARKER_EDITS,
    ) -> Project:
        nonlocal made
        made += 1
        root = tmp_path / f"project{made}"
        root.mkdir()
        project = Project(root, tmp_path / f"calls{made}")
        monkeypatch.setenv("TARGET_CALLS", str(project.calls_path))
        project.environment["TARGET_CALLS"] = str(project.calls_path)
        project.write("adapter.py", adapter)
        for name, text in (seed if seed is not None else {"prompt.md": "hello\n"}).items():
            project.write(f"seed/{name}", text)
        project.write("edits.yaml", json.dumps(list(edits)))  # JSON is YAML
        base: dict[str, object] = {
            "name": "marker",
            "splits": {"counts": {"train": 4, "val": 4, "test": 4}},
            "evaluation": {"num_trials": 1, "concurrency": 2, "timeout_s": 20, "retries": 0},
            "proposer": {"kind": "script", "file": "edits.yaml"},
            "search": {"max_iterations": 2},
        }
        if backend != "sqlite":
            base["ledger"] = make_ledger_url()
        project.write("capevolve.yaml", json.dumps({**base, **(spec or {})}, ensure_ascii=False))
        return project

    return make


def load_module(path: Path) -> ModuleType:
    """Loads a file beside the tests as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def complete() -> Callable[..., None]:
    """Drives a run of a project to its sealed number, without Prefect."""
    pilot = load_module(Path(__file__).parent / "faults" / "pilot.py")

    def run_to_the_end(project: Project, run_id: str = "r1") -> None:
        with project.driven(run_id) as run:
            asyncio.run(pilot.pilot(run))

    return run_to_the_end


@pytest.fixture
def search_only() -> Callable[..., None]:
    """Drives a run of a project until its search is over; nothing is finalized."""
    pilot = load_module(Path(__file__).parent / "faults" / "pilot.py")

    def run_the_search(project: Project, run_id: str = "r1") -> None:
        with project.driven(run_id) as run:
            asyncio.run(pilot.search(run))

    return run_the_search


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], None]], None]:
    """Sets what is called at every failpoint of this process."""

    def set_hook(function: Callable[[str], None]) -> None:
        monkeypatch.setattr(failpoints, "hook", function)

    return set_hook
