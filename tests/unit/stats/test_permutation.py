"""The two permutation tests: undefined cases, exactness, and what they fall back to."""

from __future__ import annotations

import math
import random
from itertools import combinations, product

import pytest

from capevolve.stats import sign_flip, within_task_permutation

NOISE = 4 * math.sqrt(0.25 / 20_000)
"""Four standard errors of a share of 20,000 draws."""


def _enumerate_flips(deltas: list[float]) -> float:
    observed = math.fsum(deltas)
    sums = [
        math.fsum(s * d for s, d in zip(signs, deltas, strict=True))
        for signs in product((1, -1), repeat=len(deltas))
    ]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


def _enumerate_labels(tasks: list[tuple[list[float], list[float]]]) -> float:
    per_task = []
    for mine, theirs in tasks:
        pool = [*mine, *theirs]
        per_task.append(
            [
                math.fsum(pool[i] for i in chosen) / len(mine)
                - math.fsum(pool[i] for i in range(len(pool)) if i not in chosen) / len(theirs)
                for chosen in combinations(range(len(pool)), len(mine))
            ]
        )
    observed = math.fsum(math.fsum(m) / len(m) - math.fsum(t) / len(t) for m, t in tasks)
    sums = [math.fsum(parts) for parts in product(*per_task)]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


def test_no_units_leave_the_p_value_undefined():
    assert sign_flip([]) is None
    assert within_task_permutation([]) is None
    assert within_task_permutation([([1.0], []), ([], [0.0])]) is None


def test_no_difference_at_all_has_a_p_value_of_one():
    assert sign_flip([0.0] * 5).value == 1.0
    assert within_task_permutation([([1.0, 1.0], [1.0])]).value == 1.0


def test_one_winner_has_a_p_value_of_one_half_at_every_size():
    for n in (1, 2, 7, 60, 300):
        for size in (0.1, 1 / 3, 0.3, 1.0, 0.123456789):
            assert sign_flip([size] + [0.0] * (n - 1)).value == 0.5


def test_the_unit_of_the_deltas_is_irrelevant():
    deltas = [0.2, -0.1, 0.3, 0.1, 0.0]
    expected = sign_flip(deltas).value
    assert expected == _enumerate_flips(deltas)
    for factor in (1e-6, 1 / 3, 7.0, 1e6):
        assert sign_flip([factor * d for d in deltas]).value == expected


def test_ties_that_rounding_hides_are_counted():
    # 0.1 + 0.2 and 0.3 differ as floats; the pattern (+ + -) ties with (- - +) mirrored around 0.
    deltas = [0.1, 0.2, -0.3]
    assert sign_flip(deltas).value == _enumerate_flips(deltas) == 5 / 8


def test_graded_rewards_off_a_lattice_are_exact_on_few_units():
    rng = random.Random(11)
    deltas = [rng.gauss(0.1, 0.3) for _ in range(12)]
    test = sign_flip(deltas)
    assert test.exact
    assert test.value == pytest.approx(_enumerate_flips(deltas), abs=1e-12)
    tasks = [([rng.random() for _ in range(2)], [rng.random() for _ in range(3)]) for _ in range(4)]
    test = within_task_permutation(tasks)
    assert test.exact
    assert test.value == pytest.approx(_enumerate_labels(tasks), abs=1e-12)


def test_rewards_on_a_lattice_are_exact_with_unequal_trials():
    tasks = [([1.0, 0.5], [0.5]), ([0.25, 1.0, 0.0], [0.75, 0.0]), ([1.0], [0.0, 0.0, 1.0])]
    test = within_task_permutation(tasks)
    assert test.exact
    assert test.value == pytest.approx(_enumerate_labels(tasks), abs=1e-12)


@pytest.mark.parametrize("grades", [(0.0, 0.5, 1.0), (0.0, 0.1, 0.3, 0.7, 1.0)])
def test_many_trials_on_a_few_grades_are_exact(grades: tuple[float, ...]):
    rng = random.Random(14)
    tasks = [
        ([rng.choice(grades) for _ in range(6)], [rng.choice(grades) for _ in range(5)]),
        ([rng.choice(grades) for _ in range(2)], [rng.choice(grades) for _ in range(2)]),
    ]
    test = within_task_permutation(tasks)
    assert test.exact
    assert test.value == pytest.approx(_enumerate_labels(tasks), abs=1e-12)
    # 2.7 million relabellings of each of 20 tasks.
    many = [
        ([rng.choice(grades) for _ in range(12)], [rng.choice(grades) for _ in range(12)]) for _ in range(20)
    ]
    assert within_task_permutation(many).exact


@pytest.fixture
def no_exact_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capevolve.stats.permutation.upper_tail", lambda *_: None)


@pytest.mark.usefixtures("no_exact_way")
def test_monte_carlo_says_so_and_agrees_with_enumeration():
    rng = random.Random(2)
    deltas = [rng.randint(-10, 12) / 20 for _ in range(12)]
    estimate = sign_flip(deltas, seed=3)
    assert not estimate.exact
    assert estimate.value == pytest.approx(_enumerate_flips(deltas), abs=NOISE)


@pytest.mark.usefixtures("no_exact_way")
def test_monte_carlo_within_tasks_agrees_with_enumeration():
    rng = random.Random(4)
    tasks = [([rng.randint(0, 3) / 4 for _ in range(3)], [rng.randint(0, 3) / 4] * 2) for _ in range(5)]
    estimate = within_task_permutation(tasks, seed=5)
    assert not estimate.exact
    assert estimate.value == pytest.approx(_enumerate_labels(tasks), abs=NOISE)


def test_many_graded_rewards_off_a_lattice_are_left_to_monte_carlo():
    rng = random.Random(12)
    assert not sign_flip([rng.gauss(0, 1) for _ in range(80)]).exact
    assert not within_task_permutation([([rng.random()] * 3, [rng.random()] * 3) for _ in range(60)]).exact


def test_a_pool_too_large_to_list_is_drawn_from_evenly():
    rng = random.Random(6)
    tasks = [([rng.random() for _ in range(9)], [rng.random() for _ in range(9)])]
    estimate = within_task_permutation(tasks, seed=1)
    assert not estimate.exact
    assert estimate.value == pytest.approx(_enumerate_labels(tasks), abs=NOISE)


def test_monte_carlo_is_a_function_of_its_seed():
    rng = random.Random(8)
    deltas = [rng.gauss(0, 1) for _ in range(60)]
    assert sign_flip(deltas, seed=1) == sign_flip(deltas[::-1], seed=1)
    assert sign_flip(deltas, seed=1) != sign_flip(deltas, seed=2)


def test_monte_carlo_never_says_zero():
    rng = random.Random(9)
    assert sign_flip([rng.uniform(0.1, 1.0) for _ in range(60)], draws=99).value == 0.01


def test_a_p_value_below_what_a_float_can_hold_is_not_zero():
    assert 0.0 < sign_flip([1.0] * 2_000).value < 1e-300


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_is_refused(bad: float):
    with pytest.raises(ValueError, match="not a finite number"):
        sign_flip([0.1, bad])
    with pytest.raises(ValueError, match="not a finite number"):
        within_task_permutation([([bad], [0.0])])


def test_three_hundred_tasks_are_exact():
    rng = random.Random(10)
    deltas = [rng.randint(-3, 3) / 3 for _ in range(300)]
    assert sign_flip(deltas).exact
    rates = [rng.random() for _ in range(300)]
    binary = [tuple([float(rng.random() < rate) for _ in range(3)] for _ in "ci") for rate in rates]
    graded = [tuple([rng.randint(0, 4) / 4 for _ in range(3)] for _ in "ci") for _ in range(300)]
    assert within_task_permutation(binary).exact
    assert within_task_permutation(graded).exact
