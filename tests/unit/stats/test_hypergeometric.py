"""The way of 0/1 rewards: the same p-values as every other exact way, and scipy's."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from capevolve.stats import within_task_permutation
from capevolve.stats.hypergeometric import binary_tail, relabel_passes


def _draw(rng: random.Random, n: int, most: int, least: int = 0):
    def draw_arm(rate: float):
        return [float(rng.random() < rate) for _ in range(rng.randint(least, most))]

    return [(draw_arm(0.6), draw_arm(0.45)) for _ in range(n)]


def test_nothing_to_compare_and_graded_rewards_are_left_to_others():
    assert binary_tail([]) is None
    assert binary_tail([([1.0], []), ([], [0.0])]) is None
    assert binary_tail([([1.0], [0.0]), ([0.5], [1.0])]) is None
    assert binary_tail([([1.0], [float("nan")])]) is None


def test_arms_that_always_agree_have_a_p_value_of_one():
    assert binary_tail([([1.0, 1.0], [1.0]), ([0.0], [0.0, 0.0])]) == 1.0


def test_equal_counts_are_a_convolution_of_hypergeometrics():
    rng = random.Random(1)
    tasks = _draw(rng, 40, 5, 5)
    chances = np.ones(1)
    for mine, theirs in tasks:
        chances = np.convolve(chances, stats.hypergeom(10, int(sum(mine + theirs)), 5).pmf(np.arange(6)))
    passed = int(sum(sum(mine) for mine, _ in tasks))
    assert binary_tail(tasks) == pytest.approx(chances[passed:].sum(), rel=1e-10)


@pytest.mark.parametrize(("n", "most"), [(1, 6), (6, 3), (20, 2), (12, 5)])
def test_unequal_counts_agree_with_the_way_of_graded_rewards(n: int, most: int, monkeypatch):
    rng = random.Random(n)
    cases = [_draw(rng, n, most) for _ in range(30)]
    cases = [tasks for tasks in cases if any(mine and theirs for mine, theirs in tasks)]
    counted = [binary_tail(tasks) for tasks in cases]
    monkeypatch.setattr("capevolve.stats.permutation.binary_tail", lambda _: None)
    general = [within_task_permutation(tasks) for tasks in cases]
    assert all(test.exact for test in general)
    assert counted == pytest.approx([test.value for test in general], rel=1e-10)


def test_many_tasks_with_many_trials_of_which_some_are_missing_stay_exact():
    rng = random.Random(5)
    tasks = _draw(rng, 120, 12, 10)
    found = within_task_permutation(tasks)
    assert found.exact
    # Its normal approximation, to which so many trials come close.
    gain = sum(sum(mine) / len(mine) - sum(theirs) / len(theirs) for mine, theirs in tasks)
    variance = 0.0
    for mine, theirs in tasks:
        trials, passed = len(mine) + len(theirs), sum(mine) + sum(theirs)
        spread = passed * (trials - passed) / (trials * (trials - 1))
        variance += spread * trials / (len(mine) * len(theirs))
    assert stats.norm.isf(found.value) == pytest.approx(gain / variance**0.5, abs=0.05)


def test_the_order_of_many_tasks_does_not_change_the_last_digit():
    rng = random.Random(4)
    tasks = _draw(rng, 80, 9, 9)
    assert {binary_tail(rng.sample(tasks, len(tasks))) for _ in range(20)} == {binary_tail(tasks)}


def test_a_lattice_that_is_too_wide_is_left_to_others(monkeypatch: pytest.MonkeyPatch):
    tasks = _draw(random.Random(6), 12, 5, 1)
    assert binary_tail(tasks) is not None
    monkeypatch.setattr("capevolve.stats.hypergeometric.MAX_ADDITIONS", 10)
    assert binary_tail(tasks) is None


def test_a_cached_term_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        relabel_passes(2, 2, 2)[1][0] = 0.0
