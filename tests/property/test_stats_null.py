"""Where nothing differs, a p-value of at most a comes with chance at most a: the meaning of the number.

Simulated with fixed seeds; three standard errors of the simulation are allowed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from capevolve.stats import betting_e_value, fisher_exact, sign_flip, within_task_permutation

LEVELS = (0.01, 0.05, 0.1159, 0.2, 0.5)
GRADES = (0.0, 0.25, 0.5, 0.75, 1.0)
OFF_LATTICE = (0.0, 0.1234567, 0.5, 0.7071067811, 1.0)


def _run_task(rng: random.Random, grades: tuple[float, ...] | None) -> Callable[[], float]:
    """One task's trials: its own pass rate, or its own mixture of grades."""
    if grades is None:
        rate = rng.betavariate(0.7, 0.7)
        return lambda: float(rng.random() < rate)
    weights = [rng.random() ** 3 for _ in grades]
    return lambda: rng.choices(grades, weights)[0]


def _draw_arms(rng: random.Random, n: int, k_c: int, k_i: int, grades: tuple[float, ...] | None = None):
    tasks = [_run_task(rng, grades) for _ in range(n)]
    return [(tuple(run() for _ in range(k_c)), tuple(run() for _ in range(k_i))) for run in tasks]


def _flip(rng: random.Random, n: int, k: int, grades: tuple[float, ...] | None = None) -> float:
    arms = _draw_arms(rng, n, k, k, grades)
    return sign_flip([math.fsum(mine) / k - math.fsum(theirs) / k for mine, theirs in arms]).value


def _permute(rng: random.Random, n: int, k_c: int, k_i: int, grades=None) -> float:
    return within_task_permutation(_draw_arms(rng, n, k_c, k_i, grades)).value


def _permute_with_losses(rng: random.Random) -> float:
    """Trials that went missing at random leave other counts on every task."""
    arms = _draw_arms(rng, 20, 4, 4)
    kept = [(mine[rng.randint(0, 2) :], theirs[rng.randint(0, 3) :]) for mine, theirs in arms]
    return within_task_permutation(kept).value


def _lose_trials(rng: random.Random) -> float:
    lost = [sum(rng.random() < 0.1 for _ in range(60)) for _ in range(2)]
    return fisher_exact(60 - lost[0], lost[0], 60 - lost[1], lost[1])


def _bet(rng: random.Random) -> float:
    """The largest value the bet ever had, as a p-value."""
    deltas = [rng.choice((-1.0, -1.0, 0.0, 1.0, 1.0)) for _ in range(40)]
    return min(1.0, 1.0 / max(betting_e_value(deltas[: i + 1]) for i in range(len(deltas))))


SITUATIONS = {
    "sign_flip, one trial": (lambda rng: _flip(rng, 30, 1), 0.2),
    "sign_flip, three trials": (lambda rng: _flip(rng, 20, 3), 0.3),
    "sign_flip, grades": (lambda rng: _flip(rng, 12, 2, GRADES), 0.3),
    "sign_flip, off a lattice": (lambda rng: _flip(rng, 12, 2, OFF_LATTICE), 0.3),
    "within tasks, 3 and 3": (lambda rng: _permute(rng, 20, 3, 3), 0.3),
    "within tasks, 1 and 3": (lambda rng: _permute(rng, 30, 1, 3), 0.3),
    "within tasks, 6 and 2": (lambda rng: _permute(rng, 15, 6, 2), 0.3),
    "within tasks, counts that differ": (_permute_with_losses, 0.3),
    "within tasks, grades": (lambda rng: _permute(rng, 8, 3, 3, GRADES), 0.3),
    "within tasks, grades, 2 and 3": (lambda rng: _permute(rng, 8, 2, 3, GRADES), 0.3),
    "within tasks, off a lattice": (lambda rng: _permute(rng, 4, 2, 2, OFF_LATTICE), 0.1),
    "fisher_exact": (_lose_trials, 0.2),
    "betting_e_value": (_bet, 0.1),
}


@pytest.mark.parametrize(("draw", "least"), SITUATIONS.values(), ids=SITUATIONS)
def test_a_small_p_value_is_as_rare_as_it_says_where_nothing_differs(draw, least):
    rng = random.Random(20_24)
    count = 1_500
    found = [draw(rng) for _ in range(count)]
    for level in LEVELS:
        share = sum(p <= level for p in found) / count
        assert share <= level + 3 * math.sqrt(level * (1 - level) / count), f"P(p <= {level}) is {share}"
    # The test is not simply shut.
    assert sum(p <= 0.5 for p in found) / count >= least


def test_monte_carlo_p_values_are_as_rare_as_they_say(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("capevolve.stats.permutation.upper_tail", lambda *_: None)
    rng = random.Random(7)
    count, level = 600, 0.1
    arms = [_draw_arms(rng, 6, 2, 2, OFF_LATTICE) for _ in range(count)]
    found = [within_task_permutation(a, seed=i, draws=199) for i, a in enumerate(arms)]
    assert not any(p.exact for p in found)
    share = sum(p.value <= level for p in found) / count
    assert 0.0 < share <= level + 3 * math.sqrt(level * (1 - level) / count)
