"""Long traces through the real engine: the driver's memory while they are recorded, and the ledger's size.

python benchmarks/traces.py [--trials 20000] [--length 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import psutil

from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.evaluate.progress import Progress
from capevolve.runs import drive_run
from capevolve.start import start_run

PER_TASK = 10

ADAPTER = """
import os, random
from capevolve import Rollout, Score, Task

TASKS, LENGTH = int(os.environ["BENCH_TASKS"]), int(os.environ["BENCH_LENGTH"])
PIECE = 2000
rng = random.Random(1)
words = ["".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(2, 9))) for _ in range(3000)]
weights = [1 / (rank + 1) for rank in range(len(words))]  # as in real text a few words make up most of it
TEXT = " ".join(rng.choices(words, weights, k=400_000))

class Adapter:
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(TASKS)]

    def run_target(self, task, ctx, *, seed):
        draw = random.Random(f"{task.id} {seed}")
        trace = []
        for _ in range(LENGTH // PIECE):
            start = draw.randrange(len(TEXT) - PIECE)
            trace.append({"id": f"{draw.getrandbits(64):x}", "content": TEXT[start : start + PIECE]})
        return Rollout(task_id=task.id, output="x", trace=trace)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=1.0)
"""


def write_project(root: Path, tasks: int) -> None:
    (root / "seed").mkdir(parents=True)
    (root / "seed" / "prompt.md").write_text("x")
    (root / "adapter.py").write_text(ADAPTER)
    spec = {
        "splits": {"counts": {"train": 2, "val": tasks, "test": 2}},
        "evaluation": {"num_trials": PER_TASK, "concurrency": 2, "retries": 0},
    }
    (root / "capevolve.yaml").write_text(json.dumps(spec))


def megabytes() -> float:
    return psutil.Process().memory_info().rss / 1e6


async def measure(root: Path, trials: int) -> None:
    marks = [trials // 10, trials // 2, trials]
    begun = time.perf_counter()

    def note(progress: Progress) -> None:
        while marks and progress.done >= marks[0]:
            done = marks.pop(0)
            rate = done / (time.perf_counter() - begun)
            sys.stdout.write(
                f"{done:>7,} trials ({done / trials:.0%}): driver {megabytes():.0f} MB, {rate:.0f} trials/s\n"
            )
            sys.stdout.flush()

    with drive_run(root, "bench") as run:
        started = await start_run(run)
        sys.stdout.write(f"before: driver {megabytes():.0f} MB\n")
        await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"), on_progress=note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=100_000)
    asked = parser.parse_args()
    tasks = asked.trials // PER_TASK
    os.environ.update(BENCH_TASKS=str(tasks + 4), BENCH_LENGTH=str(asked.length), PYTHONWARNINGS="ignore")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        write_project(root, tasks)
        asyncio.run(measure(root, tasks * PER_TASK))
        size = (root / ".capevolve" / "ledger.db").stat().st_size
    whole = tasks * PER_TASK * asked.length
    sys.stdout.write(f"ledger: {size / 1e6:.0f} MB for {whole / 1e6:.0f} MB of traces ({size / whole:.2f})\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    sys.stdout.write(f"peak of the driver: {peak:.0f} MB\n")


if __name__ == "__main__":
    main()
