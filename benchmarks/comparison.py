"""Evaluators side by side, in one run: the engine, a plain one in cap-evolve's shape, and any other.

    python -m benchmarks.comparison [noop] [parallel] [straggler] [iterations]
        [--repetitions 3] [--scale 1.0] [--with package.module:factory]

`inside` begins when the first trial can have begun, a trial's seconds before the first recorded result, and
ends with the last one.
Repetitions are interleaved (A B C, B C A, ...), so that whatever else the machine does meets all alike. Every
figure is a median with its least and greatest; "x plain" is the ratio within a repetition.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.contenders import Capevolve, Evaluator, Plain, Timing, Workload

BASE = "plain"
T = TypeVar("T")


def load_evaluator(place: str) -> Evaluator:
    """Makes the evaluator that `package.module:factory` names."""
    module, _, factory = place.partition(":")
    made: Evaluator = getattr(importlib.import_module(module), factory)()
    return made


def noop(scale: float) -> Workload:
    """2,000 tasks x 10 trials that do nothing, on two slots."""
    return Workload("noop", ((0.0,) * 10,) * max(2, round(2000 * scale)), 2)


def parallel(scale: float) -> Workload:
    """640 tasks of 50 ms at concurrency 32."""
    return Workload("parallel", ((0.05,),) * max(2, round(640 * scale)), 32)


def straggler(scale: float) -> Workload:
    """64 tasks x 5 trials of 50 ms at concurrency 16; one trial takes 0.5 s, and nobody knows which."""
    tasks = max(2, round(64 * scale))
    rows = [[0.05] * 5 for _ in range(tasks)]
    rows[tasks // 2][2] = 0.5
    return Workload("straggler", tuple(map(tuple, rows)), 16)


def iterations(scale: float) -> Workload:
    """300 val tasks that do nothing, a new candidate each iteration."""
    return Workload("iterations", ((0.0,),) * max(2, round(300 * scale)), 2)


WORKLOADS: dict[str, Callable[[float], Workload]] = {
    "noop": noop,
    "parallel": parallel,
    "straggler": straggler,
    "iterations": iterations,
}
ITERATIONS = 16


def interleave(
    evaluators: Sequence[Evaluator], repetitions: int, measure: Callable[[Evaluator, Path], T]
) -> dict[str, list[T]]:
    """Measures every evaluator in every repetition, each time in another order and a new folder."""
    found: dict[str, list[T]] = {each.name: [] for each in evaluators}
    for repetition in range(repetitions):
        turn = repetition % len(evaluators)
        for each in (*evaluators[turn:], *evaluators[:turn]):
            with tempfile.TemporaryDirectory(prefix="comparison-") as folder:
                found[each.name].append(measure(each, Path(folder)))
    return found


def spread(values: Sequence[float], digits: int = 2) -> str:
    """`median [least, greatest]`."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def describe(workload: Workload, found: dict[str, list[Timing]]) -> list[str]:
    """The lines of one workload, one per evaluator."""
    lines = [f"{workload.name}: {workload.rollouts} rollouts at {workload.concurrency}"]
    for name, timings in found.items():
        lost = [t.recorded for t in timings if t.recorded != workload.rollouts]
        inside = [(t.recorded - t.first_rollouts) / (t.last - t.first) for t in timings]
        parts = [f"{spread([t.recorded / t.wall for t in timings], 0)} recorded/s"]
        parts += [f"{spread(inside, 0)} /s from the first result on"]
        if workload.critical_path:
            ratios = [t.wall / workload.critical_path for t in timings]
            inside = [(t.last - t.first + workload.shortest) / workload.critical_path for t in timings]
            parts = [f"{spread(inside, 3)} x critical path {workload.critical_path:.2f} s inside"]
            parts += [f"{spread(ratios, 3)} with the workers' start and end"]
        if name != BASE and BASE in found:
            against = [mine.wall / other.wall for mine, other in zip(timings, found[BASE], strict=True)]
            parts.append(f"{spread(against)} x {BASE}")
        parts += [f"RECORDED ONLY {lost}"] if lost else []
        lines.append(f"  {name}: {'; '.join(parts)}")
    return lines


def describe_iterations(workload: Workload, found: dict[str, list[Sequence[float]]]) -> list[str]:
    """The lines of the growth over iterations, one per evaluator."""
    lines = [f"{workload.name}: {workload.rollouts} val tasks, {ITERATIONS} iterations"]
    for name, runs in found.items():
        last = [walls[-1] / walls[1] for walls in runs]
        windows = [statistics.median(walls[-5:]) / statistics.median(walls[1:6]) for walls in runs]
        typical = [statistics.median(walls) for walls in runs]
        parts = [f"iteration {ITERATIONS} / iteration 2: {spread(last)}"]
        parts += [f"medians of the last five / of 2 to 6: {spread(windows)}"]
        parts += [f"an iteration {spread(typical, 3)} s"]
        lines.append(f"  {name}: {'; '.join(parts)}")
    return lines


def compare(what: str, evaluators: Sequence[Evaluator], repetitions: int, scale: float) -> list[str]:
    """Measures one workload and describes what was found."""
    workload = WORKLOADS[what](scale)
    if what == "iterations":
        walls = interleave(
            evaluators, repetitions, lambda each, folder: each.iterate(workload, folder, ITERATIONS)
        )
        return describe_iterations(workload, walls)
    timings = interleave(evaluators, repetitions, lambda each, folder: each.evaluate(workload, folder))
    return describe(workload, timings)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[*WORKLOADS, []], default=[])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the tasks, for a short look")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="MODULE:FACTORY")
    wanted = parser.parse_args()
    evaluators: list[Evaluator] = [Plain(), Capevolve(), Capevolve(asynchronous=True)]
    evaluators += [load_evaluator(place) for place in wanted.others]
    for what in wanted.what or WORKLOADS:
        sys.stdout.write("\n".join(compare(what, evaluators, wanted.repetitions, wanted.scale)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
