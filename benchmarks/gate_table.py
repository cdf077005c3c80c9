"""Makes capevolve/gate/error_table.json: the chance that a run of edits without effect accepts at least one.

    python benchmarks/gate_table.py

Null runs of the uncontrolled modes through the shipped `gate.rules.judge`, task pass rates and target as in
gate_streams.py and gate_simulation.py, no session effects. A run counts for every number of candidates: what
matters is which of its candidates was the first to be accepted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.gate_error import open_workers
from benchmarks.gate_simulation import GATES, Target
from benchmarks.gate_streams import draw_seed_rates
from capevolve.gate import judge
from capevolve.model import Decision

TABLE = Path(__file__).parents[1] / "capevolve" / "gate" / "error_table.json"
TASKS = (10, 20, 50, 100, 300)
TRIALS = (1, 3, 5)
CANDIDATES = (1, 5, 10, 20, 40)
MODES = ("paired", "significant", "strict")


def find_firsts(n_tasks: int, num_trials: int, seed: int, number: int) -> tuple[int, ...]:
    """Returns which no-op a null run accepts first, from 1, mode by mode; one more than there are if none."""
    sequence = np.random.SeedSequence(seed, spawn_key=(n_tasks, num_trials, number))
    ideas, trials, sessions = (np.random.default_rng(child) for child in sequence.spawn(3))
    rates = draw_seed_rates(n_tasks, ideas)
    target = Target(trials, sessions, drift=0.0)
    reference = target.measure("seed", rates, num_trials, 0.0)
    firsts: dict[str, int] = {}
    for place in range(1, CANDIDATES[-1] + 1):
        waiting = [mode for mode in MODES if mode not in firsts]
        if not waiting:
            break
        measured = target.measure(f"c{place}", rates, num_trials, 0.0)
        for mode in waiting:
            if judge(measured, reference, GATES[mode]).decision is Decision.ACCEPT:
                firsts[mode] = place
    return tuple(firsts.get(mode, CANDIDATES[-1] + 1) for mode in MODES)


def count_accepts(firsts: Sequence[int]) -> list[float]:
    """Returns the share of runs that have accepted one by each number of candidates."""
    return [sum(first <= count for first in firsts) / len(firsts) for count in CANDIDATES]


def make_cells(runs: int, seed: int, pool: Executor | None) -> list[dict[str, object]]:
    """Returns the cells of the table, mode by mode."""
    found: dict[tuple[str, int, int], list[float]] = {}
    for n_tasks in TASKS:
        for num_trials in TRIALS:
            play = partial(find_firsts, n_tasks, num_trials, seed)
            rows = (
                [play(i) for i in range(runs)] if pool is None else pool.map(play, range(runs), chunksize=20)
            )
            for mode, firsts in zip(MODES, zip(*rows, strict=True), strict=True):
                found[mode, n_tasks, num_trials] = count_accepts(firsts)
                sys.stdout.write(
                    f"{mode:12s} {n_tasks:4d} x {num_trials}: {found[mode, n_tasks, num_trials]}\n"
                )
            sys.stdout.flush()
    return [
        {"mode": mode, "n_tasks": n, "num_trials": k, "chances": found[mode, n, k]}
        for mode in MODES
        for n in TASKS
        for k in TRIALS
    ]


def write_table(cells: Sequence[dict[str, object]], runs: int, seed: int) -> None:
    about = {
        "source": "benchmarks/gate_table.py",
        "seed": seed,
        "runs": runs,
        "rates": "Beta(.8, .6), rewards 0 or 1",
        "k_se": 1.0,
        "candidates": CANDIDATES,
    }
    head = ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in about.items())
    rows = ",\n".join(f"    {json.dumps(cell)}" for cell in cells)
    TABLE.write_text(f'{{\n{head},\n  "cells": [\n{rows}\n  ]\n}}\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    args = parser.parse_args()
    begun = time.perf_counter()
    with open_workers(args.workers) as pool:
        write_table(make_cells(args.runs, args.seed, pool), args.runs, args.seed)
    sys.stdout.write(f"{time.perf_counter() - begun:.0f} s\n")


if __name__ == "__main__":
    main()
