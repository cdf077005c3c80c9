"""A 95 % interval holds the truth in 95 % of samples: computed exactly where that can be, else simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from capevolve.stats import (
    Interval,
    bca_bootstrap,
    clopper_pearson,
    cluster_robust,
    mean_with_stderr,
    percentile_bootstrap,
    t_interval,
    wilson,
)

RATES = [0.005, *[i / 40 for i in range(1, 40)], 0.995]


def _cover(interval: Callable[[int, int], Interval | None], n: int, rate: float) -> float:
    """The exact coverage at a true rate: the chances of the counts whose interval holds it."""
    covered = 0.0
    for x in range(n + 1):
        found = interval(x, n)
        if found.low <= rate <= found.high:
            covered += math.comb(n, x) * rate**x * (1 - rate) ** (n - x)
    return covered


@pytest.mark.parametrize("n", [1, 5, 20, 100])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_clopper_pearson_covers_at_every_true_rate(n: int, level: float):
    assert min(_cover(lambda x, n: clopper_pearson(x, n, level), n, rate) for rate in RATES) >= level


@pytest.mark.parametrize("n", [20, 100])
def test_wilson_covers_on_average_and_nowhere_falls_far_short(n: int):
    found = [_cover(wilson, n, rate) for rate in RATES]
    assert sum(found) / len(found) == pytest.approx(0.95, abs=0.012)
    assert min(found) > 0.83


def _simulate(draw: Callable[[random.Random], Interval | None], truth: float, count: int) -> float:
    rng = random.Random(95)
    found = [draw(rng) for _ in range(count)]
    known = [interval for interval in found if interval is not None]
    assert len(known) > 0.98 * count
    return sum(interval.low <= truth <= interval.high for interval in known) / len(known)


def _draw_t(rng: random.Random, n: int, level: float) -> Interval | None:
    estimate = mean_with_stderr([rng.gauss(0.1, 0.3) for _ in range(n)])
    return t_interval(estimate.value, estimate.se, n - 1, level)


@pytest.mark.parametrize("n", [2, 3, 8, 30])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_t_interval_covers_at_every_number_of_tasks(n: int, level: float):
    count = 3_000
    share = _simulate(lambda rng: _draw_t(rng, n, level), 0.1, count)
    assert share == pytest.approx(level, abs=3 * math.sqrt(level * (1 - level) / count))


def _draw_clustered(rng: random.Random, *, robust: bool) -> Interval | None:
    values, keys = [], []
    for cluster in range(25):
        shared = rng.gauss(0.0, 0.2)
        values += [0.4 + shared + rng.gauss(0.0, 0.1) for _ in range(4)]
        keys += [cluster] * 4
    estimate = cluster_robust(values, keys if robust else range(len(keys)))
    return t_interval(estimate.mean, estimate.se, estimate.df)


def test_the_clustered_interval_covers_where_the_plain_one_does_not():
    count = 1_000
    margin = 3 * math.sqrt(0.95 * 0.05 / count)
    assert _simulate(lambda rng: _draw_clustered(rng, robust=True), 0.4, count) > 0.95 - margin
    assert _simulate(lambda rng: _draw_clustered(rng, robust=False), 0.4, count) < 0.8


@pytest.mark.parametrize("interval", [percentile_bootstrap, bca_bootstrap])
def test_a_bootstrap_interval_covers_roughly_with_forty_tasks(interval):
    def draw(rng: random.Random) -> Interval | None:
        # Task means of three trials; tasks differ in difficulty, most are hard.
        rates = [rng.betavariate(0.6, 1.4) for _ in range(40)]
        means = [sum(rng.random() < rate for _ in range(3)) / 3 for rate in rates]
        return interval(means, seed=rng.getrandbits(32), resamples=600)

    assert 0.91 < _simulate(draw, 0.3, 600) < 0.98
