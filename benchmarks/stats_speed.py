"""What the statistics cost: the least time of several repeats, beside numpy or scipy where they do the same.

    python benchmarks/stats_speed.py

A ratio is the time of the baseline divided by ours. "MC" marks a baseline that estimates by Monte Carlo what
is exact here. Nothing is asserted.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import stats as reference

from capevolve.model import Measurement, TaskOutcomes
from capevolve.stats import (
    bca_bootstrap,
    compare,
    fisher_exact,
    percentile_bootstrap,
    sign_flip,
    smallest_p,
    summarize,
    within_task_permutation,
)

Arms = list[tuple[tuple[float, ...], tuple[float, ...]]]
GRADES = (0.0, 0.25, 0.5, 0.75, 1.0)
LEAST_SECONDS = 0.2


@dataclass(frozen=True)
class Case:
    """One line: what is timed, the most it should take, and a baseline with its name."""

    name: str
    target_ms: float
    run: Callable[[], object]
    baseline: Callable[[], object] | None = None
    baseline_name: str = ""


def time_ms(run: Callable[[], object]) -> float:
    """The least milliseconds of one call, over repeats that last at least `LEAST_SECONDS` in all."""
    run()
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < LEAST_SECONDS:
        before = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - before)
    return best * 1e3


def time_import(module: str) -> float:
    """The least milliseconds in which a fresh process imports a module, by its own clock."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    found = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    return min(found) * 1e3


def draw_arms(n: int, k_c: int, k_i: int, grades: tuple[float, ...] | None = None) -> Arms:
    rng = random.Random(n * 100 + k_c * 10 + k_i)
    arms: Arms = []
    for _ in range(n):
        rate = rng.betavariate(0.7, 0.7)
        rewards = [rng.choice(grades) if grades else float(rng.random() < rate) for _ in range(k_c + k_i)]
        arms.append((tuple(rewards[:k_c]), tuple(rewards[k_c:])))
    return arms


def measure(rows: list[tuple[float, ...]]) -> Measurement:
    tasks = tuple(TaskOutcomes(f"t{i:03d}", row) for i, row in enumerate(rows))
    return Measurement("e", "c", "val", len(rows[0]), 0, tasks)


def permute_with_scipy(arms: Arms) -> float:
    """The same exact p-value by scipy's hypergeometric and numpy's convolution, task by task."""
    chances, passed = np.ones(1), 0.0
    for mine, theirs in arms:
        k_c, trials = len(mine), len(mine) + len(theirs)
        chances = np.convolve(
            chances, reference.hypergeom(trials, int(sum(mine + theirs)), k_c).pmf(np.arange(k_c + 1))
        )
        passed += sum(mine)
    return float(chances[round(passed) :].sum())


def flip_with_numpy(deltas: list[float]) -> float:
    signs = np.random.default_rng(0).integers(0, 2, (20_000, len(deltas))) * 2 - 1
    return float(np.mean(signs @ np.array(deltas) >= sum(deltas) - 1e-9))


def resample_with_numpy(values: list[float]) -> object:
    data = np.array(values)
    picks = np.random.default_rng(0).integers(0, len(data), (10_000, len(data)))
    return np.quantile(data[picks].mean(axis=1), [0.025, 0.975])


def bca_with_scipy(values: list[float]) -> object:
    return reference.bootstrap((values,), np.mean, n_resamples=10_000, method="BCa", rng=0)


def compare_cases() -> list[Case]:
    large, graded = draw_arms(300, 3, 3), draw_arms(300, 3, 3, GRADES)
    deltas = [sum(mine) / 3 - sum(theirs) / 3 for mine, theirs in large]
    values = [sum(mine) / 3 for mine, _ in large]
    small = draw_arms(50, 3, 3)
    candidate, incumbent = measure([mine for mine, _ in small]), measure([theirs for _, theirs in small])
    cases = [
        Case(
            "sign_flip, n = 300, k = 3",
            5,
            lambda: sign_flip(deltas),
            lambda: flip_with_numpy(deltas),
            "numpy MC",
        ),
        Case(
            "within_task_permutation, n = 300, k = 3",
            5,
            lambda: within_task_permutation(large),
            lambda: permute_with_scipy(large),
            "scipy",
        ),
        Case(
            "within_task_permutation, n = 300, k = 3, five grades", 5, lambda: within_task_permutation(graded)
        ),
        Case(
            "bca_bootstrap, n = 300, B = 10,000",
            50,
            lambda: bca_bootstrap(values, seed=0),
            lambda: bca_with_scipy(values),
            "scipy",
        ),
        Case(
            "percentile_bootstrap, n = 300, B = 10,000",
            50,
            lambda: percentile_bootstrap(values, seed=0),
            lambda: resample_with_numpy(values),
            "numpy",
        ),
        Case(
            "compare, n = 50, k = 3",
            0.3,
            lambda: compare(candidate, incumbent),
            lambda: reference.ttest_rel([sum(m) / 3 for m, _ in small], [sum(t) / 3 for _, t in small]),
            "scipy t only",
        ),
        Case("summarize, n = 50, k = 3", 1, lambda: summarize(candidate)),
        Case(
            "fisher_exact, 150 trials an arm",
            1,
            lambda: fisher_exact(145, 5, 138, 12),
            lambda: reference.fisher_exact([[145, 5], [138, 12]]),
            "scipy",
        ),
        Case("smallest_p, n = 300, k = 12", 0.1, lambda: smallest_p(300, 12, 12)),
    ]
    for k_c, k_i in ((1, 3), (3, 3), (6, 6), (12, 12), (1, 15)):
        arms = draw_arms(50, k_c, k_i)
        cases.append(
            Case(
                f"within_task_permutation, n = 50, k = {k_c} and {k_i}",
                0.5,
                partial(within_task_permutation, arms),
                partial(permute_with_scipy, arms),
                "scipy",
            )
        )
    missing = [(mine[i % 3 :], theirs[i % 2 :]) for i, (mine, theirs) in enumerate(draw_arms(50, 6, 6))]
    cases.append(
        Case(
            "within_task_permutation, n = 50, six pairs of counts",
            5,
            lambda: within_task_permutation(missing),
        )
    )
    return cases


def main() -> None:
    print("| what | target ms | ms | baseline / ours |\n| --- | --- | --- | --- |")
    for module, target in (("capevolve.stats", 400), ("numpy", 400), ("scipy.stats", float("nan"))):
        shown = f"{target:g}" if target == target else ""
        print(f"| import {module} in a fresh process | {shown} | {time_import(module):.0f} | |")
    for case in compare_cases():
        ours = time_ms(case.run)
        ratio = "" if case.baseline is None else f"{time_ms(case.baseline) / ours:.1f} ({case.baseline_name})"
        print(f"| {case.name} | {case.target_ms:g} | {ours:.3f} | {ratio} |")


if __name__ == "__main__":
    main()
