"""What an evaluator is to the comparison, and the two that are always in it.

A third is any object like these, named by its dotted path: `comparison.py --with package.module:factory`.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.evaluate.progress import Progress
from capevolve.gate.record import find_ask, measure_ask, record_verdict
from capevolve.ledger.trials import count_finished
from capevolve.proposers.proposal import make_proposal
from capevolve.runs import OpenRun, drive_run
from capevolve.search.planning import plan_next, read_remaining
from capevolve.start import start_run


@dataclass(frozen=True)
class Workload:
    """Trials to run.

    Attributes:
        seconds: For each task the seconds of each of its trials; 0 is a target that does nothing.
        concurrency: Trials at once.
    """

    name: str
    seconds: tuple[tuple[float, ...], ...]
    concurrency: int

    @property
    def rollouts(self) -> int:
        return sum(map(len, self.seconds))

    @property
    def shortest(self) -> float:
        """The seconds of the shortest trial."""
        return min(seconds for task in self.seconds for seconds in task)

    @property
    def critical_path(self) -> float:
        """The seconds below which no order of the trials can be."""
        flat = [seconds for task in self.seconds for seconds in task]
        return max(max(flat), sum(flat) / self.concurrency)


@dataclass(frozen=True)
class Timing:
    """One evaluation, timed.

    Attributes:
        wall: Seconds of all of it, the workers' start and end included.
        first: Seconds until the first rollouts were recorded.
        first_rollouts: How many these were.
        last: Seconds until the last ones were.
        recorded: Rollouts found in what the evaluator keeps, afterwards.
    """

    wall: float
    first: float
    first_rollouts: int
    last: float
    recorded: int


class Evaluator(Protocol):
    """Runs trials and records a rollout of each."""

    name: str

    def evaluate(self, workload: Workload, folder: Path) -> Timing:
        """Evaluates once, in a new and empty folder; what prepares the evaluation is not timed."""
        ...

    def iterate(self, workload: Workload, folder: Path, iterations: int) -> Sequence[float]:
        """Makes so many iterations that each evaluate a new candidate; returns the seconds of each."""
        ...


class Plain:
    """cap-evolve's shape of work: threads of this process, one pool an evaluation, JSON lines in a file."""

    name = "plain"

    def evaluate(self, workload: Workload, folder: Path) -> Timing:
        lock, log = threading.Lock(), folder / "rollouts.jsonl"
        firsts: list[float] = []

        def run(job: tuple[int, int, float]) -> float:
            task, trial, seconds = job
            if seconds:
                time.sleep(seconds)
            line = {"task_id": f"t{task}", "trial": trial, "output": "x", "reward": 1.0, "feedback": ""}
            with lock, log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                if not firsts:
                    firsts.append(time.perf_counter())
            return 1.0

        jobs = [(i, k, s) for i, task in enumerate(workload.seconds) for k, s in enumerate(task)]
        begun = time.perf_counter()
        with ThreadPoolExecutor(workload.concurrency) as pool:
            rewards = list(pool.map(run, jobs))
            last = time.perf_counter()
        result = {"mean": sum(rewards) / len(rewards), "n": len(rewards)}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        ended = time.perf_counter()
        recorded = len(log.read_text(encoding="utf-8").splitlines())
        return Timing(ended - begun, firsts[0] - begun, 1, last - begun, recorded)

    def iterate(self, workload: Workload, folder: Path, iterations: int) -> Sequence[float]:
        walls = []
        for number in range(iterations):
            place = folder / f"candidate{number}"
            place.mkdir()
            walls.append(self.evaluate(workload, place).wall)
        return walls


ADAPTER = """
import asyncio, json, time
from pathlib import Path
from capevolve import Rollout, Score, Task

class Adapter:
    def tasks(self, split):
        rows = json.loads((Path(__file__).parent / "seconds.json").read_text())
        return [Task(id=f"t{i}", input={"number": i, "seconds": row}) for i, row in enumerate(rows)]

    DEF run_target(self, task, ctx, *, seed):
        seconds = task.input["seconds"][seed]
        if seconds:
            PAUSE
        return Rollout(task_id=task.id, output="x")

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=0.5)
"""


class Capevolve:
    """The engine as it is: hosts, the ledger on disk with `synchronous=FULL`.

    Args:
        asynchronous: The target is `async def`.
    """

    def __init__(self, *, asynchronous: bool = False) -> None:
        self.name = "capevolve async" if asynchronous else "capevolve"
        self._asynchronous = asynchronous

    def evaluate(self, workload: Workload, folder: Path) -> Timing:
        self._write_project(workload, folder, iterations=0)

        async def go() -> Timing:
            with drive_run(folder, "bench") as run:
                started = await start_run(run)
                return await _time_evaluation(run, started.record.seed_candidate)

        return asyncio.run(go())

    def iterate(self, workload: Workload, folder: Path, iterations: int) -> Sequence[float]:
        """Whole iterations of a search: plan, proposal, evaluation, verdict; the baseline is not timed."""
        self._write_project(workload, folder, iterations=iterations)

        async def go() -> list[float]:
            with drive_run(folder, "bench") as run:
                started = await start_run(run)
                await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"))
                return [await _time_iteration(run) for _ in range(iterations)]

        return asyncio.run(go())

    def _write_project(self, workload: Workload, folder: Path, *, iterations: int) -> None:
        trials = len(workload.seconds[0])
        rows = [*workload.seconds, *([[0.0] * trials] * 4)]  # 2 train and 2 test tasks
        ids = [f"t{i}" for i in range(len(rows))]
        (folder / "seconds.json").write_text(json.dumps(rows))
        (folder / "seed").mkdir()
        (folder / "seed" / "prompt.md").write_text("x")
        source = ADAPTER.replace("DEF", "async def" if self._asynchronous else "def")
        pause = "await asyncio.sleep(seconds)" if self._asynchronous else "time.sleep(seconds)"
        (folder / "adapter.py").write_text(source.replace("PAUSE", pause))
        edits = [{"summary": f"edit {n}", "edits": {"prompt.md": f"x{n}"}} for n in range(iterations)]
        (folder / "edits.yaml").write_text(json.dumps(edits))
        (folder / "splits.json").write_text(
            json.dumps({"train": ids[-4:-2], "val": ids[:-4], "test": ids[-2:]})
        )
        spec = {
            "splits": {"ids_file": "splits.json"},
            "evaluation": {
                "num_trials": trials,
                "concurrency": workload.concurrency,
                "retries": 0,
                "base_seed": 0,
            },
            "proposer": {"kind": "script", "file": "edits.yaml"},
            "search": {"max_iterations": iterations},
        }
        (folder / "capevolve.yaml").write_text(json.dumps(spec))


async def _time_evaluation(run: OpenRun, seed_id: str) -> Timing:
    marks: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        if progress.done:
            marks.append((time.perf_counter(), progress.done))

    begun = time.perf_counter()
    measured = await evaluate(run, EvaluationRequest(seed_id, "val"), on_progress=note)
    ended = time.perf_counter()
    with run.ledger.read() as connection:
        recorded = count_finished(connection, int(measured.evaluation_id))
    return Timing(ended - begun, marks[0][0] - begun, marks[0][1], marks[-1][0] - begun, recorded)


async def _time_iteration(run: OpenRun) -> float:
    begun = time.perf_counter()
    step = plan_next(run)
    assert step.iteration is not None, step.stop_reason
    await make_proposal(run, step.iteration, step.parent_id)
    while (asked := find_ask(run, step.iteration))[1] is not None:
        await measure_ask(run, *asked, remaining=read_remaining(run))
    record_verdict(run, step.iteration)
    return time.perf_counter() - begun


os.environ.setdefault("PYTHONWARNINGS", "ignore")
