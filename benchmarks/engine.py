"""What the engine costs beside the target: recorded no-op rollouts, short trials in parallel, one straggler.

    python benchmarks/engine.py [noop] [parallel] [straggler]

Each figure is a ratio measured in one run: against the ideal (trials * seconds / slots), against the
critical path, or, for no-ops, against the same hosts without a ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import TrialRequest
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.evaluate.progress import Progress
from capevolve.ledger.runs import read_split
from capevolve.runs import OpenRun, drive_run
from capevolve.start import start_run

ADAPTER = """
import asyncio, os, time
from capevolve import Rollout, Score, Task

N = int(os.environ["BENCH_TASKS"])
SECONDS = float(os.environ["BENCH_SECONDS"])
SLOW = float(os.environ["BENCH_SLOW"])

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(N)]

    DEF run_target(self, task, ctx, *, seed):
        pause = SLOW if SLOW and task.id == "t7" else SECONDS
        if pause:
            PAUSE
        return Rollout(task_id=task.id, output="x")

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=1.0)
"""


def write_project(root: Path, *, tasks: int, trials: int, slots: int, asynchronous: bool) -> None:
    (root / "seed").mkdir(parents=True)
    (root / "seed" / "prompt.md").write_text("x")
    source = ADAPTER.replace("DEF", "async def" if asynchronous else "def")
    pause = "await asyncio.sleep(pause)" if asynchronous else "time.sleep(pause)"
    (root / "adapter.py").write_text(source.replace("PAUSE", pause))
    spec = {
        "splits": {"counts": {"train": 2, "val": tasks, "test": 2}},
        "evaluation": {"num_trials": trials, "concurrency": slots, "retries": 0},
    }
    (root / "capevolve.yaml").write_text(json.dumps(spec))


@dataclass(frozen=True)
class Timing:
    """Seconds of an evaluation: all of it, and from its first recorded result to its last."""

    wall: float
    steady: float
    steady_trials: int


async def time_evaluation(run: OpenRun, seed_id: str) -> Timing:
    marks: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        marks.append((time.perf_counter(), progress.done))

    begun = time.perf_counter()
    await evaluate(run, EvaluationRequest(seed_id, "val"), on_progress=note)
    wall = time.perf_counter() - begun
    first = next(mark for mark in marks if mark[1] > 0)
    return Timing(wall, marks[-1][0] - first[0], marks[-1][1] - first[1])


async def time_pool(run: OpenRun, slots: int, trials: int) -> float:
    """The same trials through the same hosts, nothing recorded."""
    with run.ledger.read() as connection:
        tasks = [task.ref for task in read_split(connection, run.id, "val")]
    requests = [
        TrialRequest(i * trials + k, task.id, task.digest, k, k)
        for i, task in enumerate(tasks)
        for k in range(trials)
    ]
    async with HostPool(run.adapter, run.root / "seed", slots=slots, timeout_s=60, grace_s=1) as pool:
        await pool.facts()
        begun, done, sent = time.perf_counter(), 0, 0
        while done < len(requests):
            free = pool.free()
            pool.submit(requests[sent : sent + free])
            sent += min(free, len(requests) - sent)
            done += len(await pool.replies())
        return time.perf_counter() - begun


def measure(
    work: Callable[[OpenRun, str], Awaitable[dict[str, float]]],
    *,
    tasks: int,
    trials: int,
    slots: int,
    seconds: float,
    slow: float = 0.0,
    asynchronous: bool = False,
) -> dict[str, float]:
    os.environ.update(
        BENCH_TASKS=str(tasks + 4), BENCH_SECONDS=str(seconds), BENCH_SLOW=str(slow), PYTHONWARNINGS="ignore"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        write_project(root, tasks=tasks, trials=trials, slots=slots, asynchronous=asynchronous)

        async def go() -> dict[str, float]:
            with drive_run(root, "bench") as run:
                started = await start_run(run)
                return await work(run, started.record.seed_candidate)

        return asyncio.run(go())


def noop(asynchronous: bool) -> None:
    tasks, trials, slots = 2000, 10, 2

    async def work(run: OpenRun, seed_id: str) -> dict[str, float]:
        bare = await time_pool(run, slots, trials)
        timing = await time_evaluation(run, seed_id)
        return {"bare": bare, "wall": timing.wall, "steady": timing.steady, "n": timing.steady_trials}

    found = measure(work, tasks=tasks, trials=trials, slots=slots, seconds=0, asynchronous=asynchronous)
    total = tasks * trials
    kind = "async" if asynchronous else "sync"
    sys.stdout.write(
        f"noop {kind}: {found['n'] / found['steady']:,.0f} recorded rollouts/s steady, "
        f"{total / found['wall']:,.0f}/s with host start; hosts alone {total / found['bare']:,.0f}/s; "
        f"ratio recorded/alone {found['n'] / found['steady'] / (total / found['bare']):.2f}\n"
    )


def parallel() -> None:
    tasks, seconds, slots = 640, 0.05, 32

    async def work(run: OpenRun, seed_id: str) -> dict[str, float]:
        timing = await time_evaluation(run, seed_id)
        return {"wall": timing.wall, "steady": timing.steady, "n": timing.steady_trials}

    for asynchronous in (False, True):
        found = measure(work, tasks=tasks, trials=1, slots=slots, seconds=seconds, asynchronous=asynchronous)
        ideal = tasks * seconds / slots
        steady_ideal = found["n"] * seconds / slots
        kind = "async" if asynchronous else "sync"
        sys.stdout.write(
            f"parallel {kind}: {tasks} x {seconds * 1000:.0f} ms at {slots}: "
            f"{found['wall'] / ideal:.3f} x ideal with host start, "
            f"{found['steady'] / steady_ideal:.3f} x from the first result on\n"
        )


def straggler() -> None:
    """Asked twice: at first nobody knows which task is slow; then it is known and runs first."""
    tasks, seconds, slow, slots = 160, 0.05, 1.5, 8

    async def work(run: OpenRun, seed_id: str) -> dict[str, float]:
        await time_evaluation(run, seed_id)
        begun = time.perf_counter()
        await evaluate(run, EvaluationRequest(seed_id, "val", tag="again"))
        return {"wall": time.perf_counter() - begun}

    found = measure(work, tasks=tasks, trials=1, slots=slots, seconds=seconds, slow=slow)
    critical = max(slow, ((tasks - 1) * seconds + slow) / slots)
    sys.stdout.write(
        f"straggler: {tasks} x {seconds * 1000:.0f} ms and one of {slow} s at {slots}, durations known: wall "
        f"{found['wall']:.3f} s = {found['wall'] / critical:.3f} x critical path {critical:.2f} s, "
        "host start included\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["noop", "parallel", "straggler"])
    for what in parser.parse_args().what:
        if what == "noop":
            noop(False)
            noop(True)
        elif what == "parallel":
            parallel()
        else:
            straggler()


if __name__ == "__main__":
    main()
