"""Finished runs with real hosts, made once, and words to edit copies of their ledgers behind capevolve's back."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capevolve.canonical import digest
from capevolve.cli import main
from capevolve.errors import TamperError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.ledger.store import Ledger, open_ledger
from capevolve.report import write_projections
from capevolve.report.agreement import check_projections
from capevolve.runs import OpenRun, drive_run
from capevolve.start import start_run
from capevolve.verify import Verified, verify_run

ADAPTER = """
import hashlib
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [
            Task(id=f"t{i:02d}", input=i, metadata={"cluster": f"c{i % 7}", "kind": f"k{i}"}) for i in range(15)
        ]

    def run_target(self, task, ctx, *, seed):
        skill = int((ctx / "prompt.md").read_text())
        draw = int(hashlib.sha256(f"9 {task.id} {seed}".encode()).hexdigest(), 16) % 100
        error = "the network was down" if draw < 8 else None
        return Rollout(task_id=task.id, output=20 + draw * skill // 60, error=error, cost_usd=0.01)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=rollout.output / 100, feedback="higher is better")
"""

SPEC = {
    "name": "verified",
    "splits": {"counts": {"train": 4, "val": 4, "test": 5}, "group_by": "kind", "seed": 11},
    "evaluation": {"num_trials": 2, "concurrency": 4, "timeout_s": 20, "retries": 0},
    "proposer": {"kind": "script", "file": "edits.yaml"},
    "search": {"max_iterations": 3},
}
EDITS = [
    {"summary": "better", "edits": {"prompt.md": "30"}},
    {"summary": "worse", "edits": {"prompt.md": "20"}},
    {"summary": "best", "edits": {"prompt.md": "45", "notes/why.md": "because"}},
]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@dataclass
class Copy:
    """A copy of a project with a run `r1`, its ledger open to everybody."""

    root: Path
    call: Callable[..., Said]

    @property
    def ledger_path(self) -> Path:
        return self.root / ".capevolve" / "ledger.db"

    @property
    def folder(self) -> Path:
        return self.root / ".capevolve" / "runs" / "r1"

    def open(self) -> Ledger:
        return open_ledger(f"sqlite:///{self.ledger_path}", create=False)

    def edit(self, statement: str, *values: object) -> None:
        """Edits rows as somebody with the file would; every statement must meet at least one row."""
        with closing(sqlite3.connect(self.ledger_path)) as connection:
            connection.execute("PRAGMA ignore_check_constraints=ON")
            done = connection.execute(statement, values)
            assert done.rowcount > 0, f"nothing was edited by {statement}"
            connection.commit()

    def rows(self, statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.ledger_path)) as connection:
            return connection.execute(statement, values).fetchall()

    def value(self, statement: str, *values: object) -> Any:
        return self.rows(statement, *values)[0][0]

    def edit_json(self, table: str, column: str, where: str, edit: Callable[[Any], object]) -> None:
        content = json.loads(self.value(f"SELECT {column} FROM {table} WHERE {where}"))
        edit(content)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self.edit(f"UPDATE {table} SET {column} = ? WHERE {where}", text)

    def relink(self, edit: Callable[[Any], object]) -> None:
        """Edits the payload of the commit and hashes its link again, as capevolve would."""
        self.edit_json("seal_events", "payload", "seq = 2", edit)
        (body,) = self.rows("SELECT run_id, seq, kind, payload, at, previous FROM seal_events WHERE seq = 2")
        self.edit("UPDATE seal_events SET hash = ? WHERE seq = 2", digest(body))

    def test_trial(self, trial: int = 0, *, state: str = "scored", split: str = "test") -> tuple[int, str]:
        """The evaluation and the task of a trial of a split."""
        (row,) = self.rows(
            "SELECT t.evaluation_id, t.task_id FROM trials t JOIN evaluations e ON e.id = t.evaluation_id "
            "WHERE e.split = ? AND t.trial = ? AND t.state = ? ORDER BY e.id, t.task_id LIMIT 1",
            split, trial, state,
        )  # fmt: skip
        return row

    def drive(self, run_id: str) -> None:
        """Drives another run of the project to its end."""
        drive(self.root, run_id)

    def verify(self) -> Verified:
        ledger = self.open()
        try:
            with ledger.read() as connection:
                return verify_run(connection, "r1")
        finally:
            ledger.close()

    def said(self, *words: object) -> Said:
        return self.call(*words, "-p", self.root)

    def refused(self, *named: str) -> str:
        """Verifies what `capevolve verify` does; it must be refused, and all of this be named."""
        ledger = self.open()
        try:
            with pytest.raises(TamperError) as refusal:
                with ledger.read() as connection:
                    verify_run(connection, "r1")
                check_projections(ledger, self.root, "r1", now=0.0)
        finally:
            ledger.close()
        said = str(refusal.value)
        missing = [word for word in named if word not in said]
        assert not missing, f"{missing} not named in:\n{said}"
        return said


def _load_pilot() -> Any:
    path = Path(__file__).parents[2] / "faults" / "pilot.py"
    spec = importlib.util.spec_from_file_location("verify_pilot", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_project(root: Path, spec: dict[str, Any], files: dict[str, str]) -> Path:
    (root / "seed").mkdir(parents=True)
    (root / "adapter.py").write_text(ADAPTER)
    for name, text in files.items():
        (root / name).write_text(text)
    (root / "seed" / "prompt.md").write_text("10")
    (root / "edits.yaml").write_text(json.dumps(EDITS))
    (root / "capevolve.yaml").write_text(json.dumps({**SPEC, **spec}))
    return root


def drive(root: Path, run_id: str = "r1", *, to_the_end: bool = True) -> None:
    pilot = _load_pilot()

    async def go(run: OpenRun) -> None:
        started = await start_run(run)
        await evaluate(run, EvaluationRequest(started.record.seed_candidate, "train"))
        await (pilot.pilot(run) if to_the_end else pilot.search(run))

    with drive_run(root, run_id) as run:
        asyncio.run(go(run))
        write_projections(run.ledger, run.root, run.id, now=0.0)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes each kind of project once."""
    made: dict[str, Path] = {}

    def make(name: str, spec: dict[str, Any], files: dict[str, str], *, to_the_end: bool) -> Path:
        if name not in made:
            made[name] = write_project(tmp_path_factory.mktemp("template") / name, spec, files)
            drive(made[name], to_the_end=to_the_end)
        return made[name]

    return make


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs `capevolve WORDS...` in this process, as a shell would."""

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["capevolve", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capfd.readouterr()
        return Said(end.value.code if isinstance(end.value.code, int) else 0, said.out, said.err)

    return run


@pytest.fixture
def copy_of(templates: Callable[..., Path], tmp_path: Path, call: Callable[..., Said]) -> Callable[..., Copy]:
    def make(
        name: str,
        spec: dict[str, Any] | None = None,
        files: dict[str, str] | None = None,
        *,
        to_the_end: bool = True,
    ) -> Copy:
        root = tmp_path / name
        shutil.copytree(templates(name, spec or {}, files or {}, to_the_end=to_the_end), root)
        return Copy(root, call)

    return make


@pytest.fixture
def finished(copy_of: Callable[..., Copy]) -> Copy:
    """A finished run: three verdicts, the last of them accepted, a result on five test tasks."""
    return copy_of("finished")


@pytest.fixture
def searched(copy_of: Callable[..., Copy]) -> Copy:
    """A run whose search is over and whose test split is sealed."""
    return copy_of("searched", to_the_end=False)
