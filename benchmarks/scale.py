"""Many rollouts in one evaluation: time per rollout as it fills, memory, `status`, and a resume's scan.

python benchmarks/scale.py [--rollouts 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
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


class Clock:
    """Seconds from its making: on the wall, and of the processor, which a busy machine stretches less."""

    def __init__(self, who: int = resource.RUSAGE_SELF) -> None:
        self._who = who
        self._begun = time.perf_counter(), self._spent()

    def _spent(self) -> float:
        usage = resource.getrusage(self._who)
        return usage.ru_utime + usage.ru_stime

    def read(self) -> str:
        wall, spent = time.perf_counter() - self._begun[0], self._spent() - self._begun[1]
        return f"{wall:.2f} s ({spent:.2f} s of the processor)"


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
    say(f"{rollouts:,} rollouts; us per rollout in each tenth: {' '.join(f'{w:.0f}' for w, _ in tenths)}")
    say(f"    of these the driver's processor time: {' '.join(f'{c:.0f}' for _, c in tenths)}")
    say(f"    RSS of the driver {megabytes():.0f} MB")


async def scan(root: Path, what: str) -> None:
    """Asks for the evaluation again: until what is left is known, and until it is answered."""
    with drive_run(root, "bench") as run:
        started = await start_run(run)
        begun = Clock()
        known: list[str] = []
        await evaluate(
            run,
            EvaluationRequest(started.record.seed_candidate, "val"),
            on_progress=lambda _: known.append(begun.read()),
        )
        say(f"asked again, {what}: {known[0]} until this is known, {begun.read()} to the answer")


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
        for words in (["--help"], ["status", "-p", str(root)]):
            begun = Clock(resource.RUSAGE_CHILDREN)
            subprocess.run([*CAPEVOLVE, *words], check=True, stdout=subprocess.DEVNULL)
            say(f"capevolve {words[0]}: {begun.read()}, its start included")
        asyncio.run(scan(root, "nothing missing"))
        drop_one_percent(root)
        asyncio.run(scan(root, "1 % missing"))
        say(f"RSS of the driver {megabytes():.0f} MB")


if __name__ == "__main__":
    main()
