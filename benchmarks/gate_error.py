"""What every gate mode accepts wrongly, what it gains and what it costs, over simulated runs.

    python benchmarks/gate_error.py --short
    python benchmarks/gate_error.py --runs 2000 --n 20 50 100 --streams null mixed --drift 0 0.04

The gates are the shipped ones (see gate_simulation.py), the edits are those of gate_streams.py. One line per
stream, n, drift and mode; ± is one Monte Carlo standard error:

- false bank: share of runs in which an edit was accepted that truly gains nothing, or harms.
- gain: true mean of the last incumbent minus the seed candidate's. rollouts: all val trials of the run.
- of paired: gain and rollouts as shares of those of `paired` on the same edits.

`--stages` adds where candidates ended, by their true effect. Results depend on --seed, never on --workers.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from benchmarks.gate_simulation import GATES, Outcome, Setup, simulate_run
from benchmarks.gate_streams import STREAMS
from capevolve.gate import GateSettings

CHUNK = 10
EFFECTS = (-1.0, -0.005, 1e-12, 0.02, 0.04, 0.06, 0.08, 1.0)
"""Borders of the groups of true effects that --stages shows; no-ops are a group of their own."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A Monte Carlo estimate with its standard error."""

    value: float
    se: float


@dataclass(frozen=True, slots=True)
class Cell:
    """What a gate did in one setup."""

    false_bank: Figure
    gain: Figure
    rollouts: Figure
    per_thousand: Figure
    """Gain per 1,000 rollouts: the ratio of the means."""


Play = Callable[[int], Outcome]


@contextmanager
def open_workers(count: int) -> Iterator[Executor | None]:
    """Opens the processes that runs are shared between; one worker is this process."""
    if count <= 1:
        yield None
        return
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def play_runs(setup: Setup, settings: GateSettings, runs: int, pool: Executor | None) -> list[Outcome]:
    """Returns the outcomes of the first `runs` runs of a cell, in order."""
    play: Play = partial(simulate_run, setup, settings)
    if pool is None:
        return [play(number) for number in range(runs)]
    return list(pool.map(play, range(runs), chunksize=CHUNK))


def summarise(outcomes: Sequence[Outcome]) -> Cell:
    gains = np.array([outcome.gain for outcome in outcomes])
    rollouts = np.array([float(outcome.rollouts) for outcome in outcomes])
    share = sum(outcome.false_bank for outcome in outcomes) / len(outcomes)
    ratio = float(gains.mean() / rollouts.mean())
    # Delta method: the error of a ratio of means is that of its residuals.
    residuals = _mean(gains - ratio * rollouts).se / float(rollouts.mean())
    return Cell(
        false_bank=Figure(share, math.sqrt(share * (1.0 - share) / len(outcomes))),
        gain=_mean(gains),
        rollouts=_mean(rollouts),
        per_thousand=Figure(1000.0 * ratio, 1000.0 * residuals),
    )


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Figure:
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Figure(float(values.mean()), spread / math.sqrt(len(values)))


def show_cell(setup: Setup, mode: str, cell: Cell, paired: Cell | None) -> str:
    rate, gain, rollouts, per = cell.false_bank, cell.gain, cell.rollouts, cell.per_thousand
    line = (
        f"{setup.stream:8s} {setup.n_tasks:4d} {setup.num_trials:2d} {setup.drift:5.2f}  {mode:15s}"
        f"{rate.value:6.3f} ±{rate.se:.3f}  {gain.value:+.4f} ±{gain.se:.4f}"
        f"{rollouts.value:9.0f} ±{rollouts.se:3.0f}  {per.value:+.4f} ±{per.se:.4f}"
    )
    if paired is None or mode == "paired":
        return line
    gained = f"{gain.value / paired.gain.value:5.2f}" if paired.gain.value > 0.0 else "    -"
    return f"{line}  {gained} {rollouts.value / paired.rollouts.value:5.2f}"


HEADER = (
    f"{'stream':8s} {'n':>4s} {'k':>2s} {'drift':>5s}  {'mode':15s}{'false bank':>13s}  {'true gain':>15s}"
    f"{'rollouts':>14s}  {'gain per 1000':>15s}  of paired: gain, rollouts"
)


def show_stages(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns where candidates ended, by true effect: share of them, and their mean rollouts."""
    lines = []
    for low, high in pairwise(EFFECTS):
        steps = [step for outcome in outcomes for step in outcome.steps if low < step.effect <= high]
        if not steps:
            continue
        ends = Counter("accepted" if step.accepted else step.ended for step in steps)
        shares = " · ".join(f"{end} {count / len(steps):.3f}" for end, count in sorted(ends.items()))
        cost = sum(step.rollouts for step in steps) / len(outcomes)
        lines.append(
            f"    effect in ({low:+.3f}, {high:+.3f}]: {len(steps) / len(outcomes):5.2f} a run, "
            f"{cost:6.0f} rollouts a run: {shares}"
        )
    return lines


def show_setup(
    setup: Setup, modes: Sequence[str], runs: int, pool: Executor | None, *, stages: bool
) -> Iterator[str]:
    """Plays one setup in every mode, yielding the lines as they come."""
    paired = None
    for mode in modes:
        outcomes = play_runs(setup, GATES[mode], runs, pool)
        cell = summarise(outcomes)
        paired = cell if mode == "paired" else paired
        yield show_cell(setup, mode, cell, paired)
        if stages:
            yield from show_stages(outcomes)


def list_setups(args: argparse.Namespace) -> list[Setup]:
    if args.short:
        null = [Setup("null", drift=drift, seed=args.seed) for drift in (0.0, 0.04)]
        return null + [Setup(stream, seed=args.seed) for stream in STREAMS if stream != "null"]
    return [
        Setup(stream, n, k, args.candidates, drift, args.seed)
        for stream in args.streams
        for n in args.n
        for k in args.k
        for drift in args.drift
    ]


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="200 runs of 50 x 3 in under a minute")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--n", type=int, nargs="+", default=[50], help="val tasks")
    parser.add_argument("--k", type=int, nargs="+", default=[3], help="trials of an evaluation")
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--modes", nargs="+", choices=GATES, default=list(GATES))
    parser.add_argument("--drift", type=float, nargs="+", default=[0.0], help="sd of a session's effect")
    parser.add_argument("--stages", action="store_true", help="also show where candidates ended")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    return parser.parse_args()


def main() -> None:
    args = read_arguments()
    runs = 200 if args.short else args.runs
    modes = ["paired", "confirm", "confirm-strict"] if args.short else args.modes
    begun = time.perf_counter()
    sys.stdout.write(f"{runs} runs a line, seeds {args.seed}/(n, k, stream, run)\n{HEADER}\n")
    with open_workers(args.workers) as pool:
        for setup in list_setups(args):
            for line in show_setup(setup, modes, runs, pool, stages=args.stages):
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{time.perf_counter() - begun:.0f} s\n")


if __name__ == "__main__":
    main()
