"""Many rollouts in one evaluation: time per rollout as it fills, memory, `status`, and the scan before a resume.

python benchmarks/scale.py [--rollouts 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from engine import write_project

from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.evaluate.progress import Progress
from capevolve.runs import drive_run
from capevolve.start import start_run

PER_TASK = 10
CAPEVOLVE = [sys.executable, "-c", "from capevolve.cli import main; main()"]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def megabytes() -> float:
    return psutil.Process().memory_info().rss / 1e6


async def fill(root: Path, rollouts: int) -> None:
    marks: list[tuple[float, float, int]] = []

    def note(progress: Progress) -> None:
        marks.append((time.perf_counter(), time.process_time(), progress.done))

    with drive_run(root, "bench") as run:
        started = await start_run(run)
        await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"), on_progress=note)
    marks = [mark for mark in marks if mark[2] > 0]
    tenths = []
    for part in range(10):
        low, high = rollouts * part // 10, rollouts * (part + 1) // 10
        inside = [mark for mark in marks if low < mark[2] <= high]
        wall, cpu, count = (b - a for a, b in zip(inside[0], inside[-1], strict=True))
        tenths.append((wall / count * 1e6, cpu / count * 1e6))
    say(
        f"{rollouts:,} rollouts; each tenth in us per rollout, wall: {' '.join(f'{w:.0f}' for w, _ in tenths)}"
    )
    say(f"    the driver's processor time: {' '.join(f'{c:.0f}' for _, c in tenths)}")
    say(f"    RSS of the driver {megabytes():.0f} MB")


async def scan(root: Path) -> tuple[float, float]:
    """Seconds until what is left is known, and until the evaluation is answered."""
    with drive_run(root, "bench") as run:
        started = await start_run(run)
        begun = time.perf_counter()
        known: list[float] = []
        await evaluate(
            run,
            EvaluationRequest(started.record.seed_candidate, "val"),
            on_progress=lambda _: known.append(time.perf_counter() - begun),
        )
        return known[0], time.perf_counter() - begun


def drop_one_percent(root: Path) -> None:
    with sqlite3.connect(root / ".capevolve" / "ledger.db") as connection:
        for table in ("rollouts", "trials"):
            connection.execute(f"DELETE FROM {table} WHERE trial = 3 AND task_id LIKE '%7'")
        connection.execute("UPDATE evaluations SET finished_at = NULL")
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    tasks = parser.parse_args().rollouts // PER_TASK
    os.environ.update(BENCH_TASKS=str(tasks + 4), BENCH_SECONDS="0", BENCH_SLOW="0", PYTHONWARNINGS="ignore")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        write_project(root, tasks=tasks, trials=PER_TASK, slots=2, asynchronous=False)
        asyncio.run(fill(root, tasks * PER_TASK))
        for _ in range(2):
            begun = time.perf_counter()
            subprocess.run([*CAPEVOLVE, "status", "-p", str(root)], check=True, stdout=subprocess.DEVNULL)
            say(f"capevolve status: {time.perf_counter() - begun:.2f} s, its start included")
        known, answered = asyncio.run(scan(root))
        say(
            f"asked again, nothing missing: {known:.2f} s until this is known, {answered:.2f} s to the answer"
        )
        drop_one_percent(root)
        known, answered = asyncio.run(scan(root))
        say(
            f"asked again, 1 % missing: {known:.2f} s until this is known, {answered:.2f} s with running them"
        )
        say(f"RSS of the driver {megabytes():.0f} MB")


if __name__ == "__main__":
    main()
