"""A small stochastic project whose target counts its own calls, killed in every way and rerun to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from capevolve.ledger.attempts import read_attempts
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.store import open_ledger
from capevolve.ledger.trials import read_trials
from capevolve.result import FinalResult

PILOT = Path(__file__).with_name("pilot.py")

ADAPTER = """
import os, random
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(9)]

    def run_target(self, task, ctx, *, seed):
        skill = float((ctx / "prompt.md").read_text())
        fd = os.open(os.environ["TARGET_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{task.id} {seed} {skill}\\n".encode())
        os.close(fd)
        return Rollout(task_id=task.id, output=random.Random(f"{seed}:{task.id}").random() < skill)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""

SPEC = {
    "name": "faults",
    "splits": {"counts": {"train": 3, "val": 3, "test": 3}, "seed": 3},
    "evaluation": {"num_trials": 2, "concurrency": 2, "trials_per_host": 2, "retries": 0, "timeout_s": 20},
    "proposer": {"kind": "script", "file": "edits.yaml"},
    "search": {"max_iterations": 2},
    "gate": {"mode": "strict"},
}
EDITS = [
    {"summary": "worse", "edits": {"prompt.md": "0.1"}},
    {"summary": "better", "edits": {"prompt.md": "0.9"}},
]


@dataclass(frozen=True)
class Outcome:
    """What must not depend on kills."""

    numbers: dict[str, object]
    verdicts: list[tuple[int, str, str]]


@dataclass
class FaultProject:
    root: Path
    calls_path: Path
    url: str

    def start(self, run_id: str, **environment: str) -> subprocess.Popen[str]:
        environ = {**os.environ, "TARGET_CALLS": str(self.calls_path), **environment}
        return subprocess.Popen(
            [sys.executable, str(PILOT), str(self.root), run_id],
            env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, run_id: str, **environment: str) -> int:
        """Runs the pilot and returns its exit code; -9 when a failpoint killed it."""
        process = self.start(run_id, **environment)
        _, errors = process.communicate(timeout=120)
        assert process.returncode in (0, -9), errors
        return process.returncode

    def finish(self, run_id: str) -> Outcome:
        """Runs to the end without a fault and checks what kills must never break."""
        assert self.run(run_id) == 0
        self.check_calls(run_id)
        return self.outcome(run_id)

    def calls(self) -> Counter[tuple[str, str, str]]:
        lines = self.calls_path.read_text().split("\n")[:-1] if self.calls_path.exists() else []
        return Counter(tuple(line.split()) for line in lines)

    def outcome(self, run_id: str) -> Outcome:
        ledger = open_ledger(self.url)
        try:
            with ledger.read() as c:
                (attempt,) = read_attempts(c, run_id)
                verdicts = read_verdicts(c, run_id)
        finally:
            ledger.close()
        result = FinalResult.model_validate_json(attempt.result)
        numbers = result.model_dump(exclude={"run": True, "seal": True})
        return Outcome(numbers, [(v.iteration, v.candidate_id, v.verdict.decision.value) for v in verdicts])

    def check_calls(self, run_id: str) -> None:
        """The target's own count against the ledger's: calls <= 1 + times in flight at a kill."""
        skills = {"0.5", "0.1", "0.9", "0.55"}
        ledger = open_ledger(self.url)
        planned: Counter[tuple[str, str]] = Counter()
        try:
            with ledger.read() as c:
                for evaluation in list_evaluations(c, run_id):
                    for trial in read_trials(c, evaluation.id):
                        assert trial.outcome is not None
                        assert trial.calls == 1 + trial.interrupted
                        planned[trial.task_id, str(trial.seed)] += trial.calls
        finally:
            ledger.close()
        made: Counter[tuple[str, str]] = Counter()
        for (task_id, seed, skill), count in self.calls().items():
            assert skill in skills
            made[task_id, seed] += count
        for key, count in made.items():
            assert count <= planned[key], (
                f"trial {key} was called {count} times, claimed {planned[key]} times"
            )
        assert set(made) == set(planned)


def write_project(
    root: Path,
    calls: Path,
    url: str | None = None,
    tasks: int = 9,
    changes: dict[str, object] | None = None,
    edits: Sequence[dict[str, object]] = EDITS,
) -> FaultProject:
    (root / "seed").mkdir(parents=True)
    (root / "adapter.py").write_text(ADAPTER.replace("range(9)", f"range({tasks})"))
    (root / "seed" / "prompt.md").write_text("0.5")
    (root / "edits.yaml").write_text(json.dumps(list(edits)))
    spec = {**SPEC, **(changes or {}), **({} if url is None else {"ledger": url})}
    (root / "capevolve.yaml").write_text(json.dumps(spec))
    return FaultProject(root, calls, url or f"sqlite:///{root}/.capevolve/ledger.db")


@pytest.fixture(scope="session")
def write_fault_project() -> Callable[..., FaultProject]:
    """Writes a project with its own tasks, spec and edits."""
    return write_project


@pytest.fixture
def project(tmp_path: Path, backend: str, make_ledger_url: Callable[[], str]) -> FaultProject:
    url = None if backend == "sqlite" else make_ledger_url()
    return write_project(tmp_path / "project", tmp_path / "calls", url)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Counter[str], float]:
    """An uninterrupted run: its outcome, how often it passed each failpoint, its seconds."""
    import time

    folder = tmp_path_factory.mktemp("undisturbed")
    project = write_project(folder / "project", folder / "calls")
    record = folder / "failpoints"
    begun = time.monotonic()
    assert project.run("r1", CAPEVOLVE_RECORD=str(record)) == 0
    seconds = time.monotonic() - begun
    return project.outcome("r1"), Counter(record.read_text().split()), seconds
