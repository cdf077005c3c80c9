"""Laws of the estimators, whatever the rewards."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.model import Measurement, Reason, TaskOutcomes, Unmeasured
from capevolve.stats import (
    cluster_robust,
    combined_stderr,
    compare,
    fisher_exact,
    mean_with_stderr,
    sign_flip,
    smallest_p,
    summarize,
    within_task_permutation,
)

LAW = settings(deadline=None)
BINARY = st.sampled_from([0.0, 1.0])
GRADED = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.7, 1.0])
ANY = st.floats(0.0, 1.0)
REWARDS = st.one_of(BINARY, GRADED, ANY)
DELTAS = st.one_of(
    st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=8),
    st.lists(st.sampled_from([-2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3]), min_size=1, max_size=8),
    st.lists(st.floats(-1.0, 1.0).map(lambda x: round(x, 3)), min_size=1, max_size=8),
)


def _arms(rewards, most: int = 3):
    arm = st.lists(rewards, min_size=1, max_size=3).map(tuple)
    return st.lists(st.tuples(arm, arm), min_size=1, max_size=most)


ARMS = st.one_of(_arms(BINARY), _arms(GRADED))


def _measure(rows, clusters=None) -> Measurement:
    tasks = tuple(
        TaskOutcomes(
            f"t{i}",
            tuple(r for r in row if r is not None),
            tuple(Unmeasured(Reason.INFRA) for r in row if r is None),
            clusters[i] if clusters else None,
        )
        for i, row in enumerate(rows)
    )
    return Measurement("e", "c", "val", 3, 0, tasks)


ROWS = st.lists(st.lists(st.one_of(st.none(), REWARDS), max_size=4), max_size=8)


def _list_flips(deltas) -> list[float]:
    """The sum of the deltas under every sign pattern."""
    return [
        math.fsum(s * d for s, d in zip(signs, deltas, strict=True))
        for signs in product((1, -1), repeat=len(deltas))
    ]


def _list_labellings(arms) -> list[float]:
    """The sum of the differences of means under every relabelling within tasks."""
    per_task = []
    for mine, theirs in arms:
        pool = [*mine, *theirs]
        per_task.append(
            [
                math.fsum(pool[i] for i in chosen) / len(mine)
                - math.fsum(pool[i] for i in range(len(pool)) if i not in chosen) / len(theirs)
                for chosen in combinations(range(len(pool)), len(mine))
            ]
        )
    return [math.fsum(parts) for parts in product(*per_task)]


def _observe(arms) -> float:
    return math.fsum(math.fsum(m) / len(m) - math.fsum(t) / len(t) for m, t in arms)


def _share(sums, low: float, high: float = math.inf) -> float:
    return sum(low - 1e-10 <= s <= high + 1e-10 for s in sums) / len(sums)


@given(DELTAS)
@LAW
def test_the_sign_flip_p_value_equals_enumeration(deltas):
    found = sign_flip(deltas)
    assert found.exact
    assert found.value == pytest.approx(_share(_list_flips(deltas), math.fsum(deltas)), abs=1e-12)


@given(ARMS)
@settings(LAW, max_examples=60)
def test_the_within_task_p_value_equals_enumeration(arms):
    found = within_task_permutation(arms)
    assert found.exact
    assert found.value == pytest.approx(_share(_list_labellings(arms), _observe(arms)), abs=1e-12)


@given(
    st.one_of(DELTAS, st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=50)),
    st.randoms(use_true_random=False),
)
@settings(LAW, max_examples=60)
def test_p_values_lie_in_zero_to_one_and_ignore_the_order_of_tasks(deltas, rng):
    found = sign_flip(deltas)
    assert 0.0 < found.value <= 1.0
    assert sign_flip(rng.sample(deltas, len(deltas))) == found


@given(
    st.one_of(_arms(REWARDS), _arms(BINARY), _arms(BINARY, most=30)),
    st.randoms(use_true_random=False),
)
@settings(LAW, max_examples=60)
def test_within_task_p_values_ignore_the_order_of_tasks_and_trials(arms, rng):
    found = within_task_permutation(arms)
    assert 0.0 < found.value <= 1.0
    moved = [(rng.sample(mine, len(mine)), rng.sample(theirs, len(theirs))) for mine, theirs in arms]
    rng.shuffle(moved)
    assert within_task_permutation(moved) == found


@given(ROWS, ROWS, st.randoms(use_true_random=False))
@LAW
def test_a_comparison_ignores_the_order_of_tasks_and_trials(left, right, rng):
    def move(measurement: Measurement) -> Measurement:
        tasks = [
            TaskOutcomes(t.task_id, tuple(rng.sample(t.rewards, len(t.rewards))), t.unmeasured)
            for t in measurement.tasks
        ]
        rng.shuffle(tasks)
        return Measurement("e", "c", "val", 3, 0, tuple(tasks))

    one, other = _measure(left), _measure(right)
    found, again = compare(one, other), compare(move(one), move(other))
    assert (again.mean, again.se, again.t, again.p_t) == (found.mean, found.se, found.t, found.p_t)
    assert (again.deltas, again.dropped, again.ci) == (found.deltas, found.dropped, found.ci)


@given(DELTAS)
@LAW
def test_the_two_directions_of_a_sign_flip_overlap_in_the_ties_only(deltas):
    better, worse = sign_flip(deltas).value, sign_flip([-d for d in deltas]).value
    observed = math.fsum(deltas)
    ties = _share(_list_flips(deltas), observed, observed)
    assert ties > 0.0
    assert better + worse == pytest.approx(1.0 + ties, abs=1e-12)


@given(ARMS)
@settings(LAW, max_examples=60)
def test_relabelling_the_arms_turns_a_within_task_test_round_and_they_overlap_in_the_ties_only(arms):
    better = within_task_permutation(arms).value
    worse = within_task_permutation([(theirs, mine) for mine, theirs in arms]).value
    observed = _observe(arms)
    ties = _share(_list_labellings(arms), observed, observed)
    assert better + worse == pytest.approx(1.0 + ties, abs=1e-12)


@given(_arms(BINARY, most=40))
@LAW
def test_the_two_directions_on_many_tasks_leave_nothing_out(arms):
    better = within_task_permutation(arms)
    worse = within_task_permutation([(theirs, mine) for mine, theirs in arms])
    assert better.exact
    assert worse.exact
    assert better.value + worse.value >= 1.0 - 1e-12


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 5))
@LAW
def test_no_outcome_has_a_smaller_p_value_than_the_smallest_attainable_one(n, k_c, k_i):
    perfect = [([1.0] * k_c, [0.0] * k_i)] * n
    least = smallest_p(n, k_c, k_i)
    assert within_task_permutation(perfect).value == pytest.approx(least, rel=1e-10)
    # One trial worse, in either arm, is above it.
    for spoilt in (([0.0, *[1.0] * (k_c - 1)], [0.0] * k_i), ([1.0] * k_c, [1.0, *[0.0] * (k_i - 1)])):
        assert within_task_permutation([*perfect[1:], spoilt]).value > least * 1.5
    assert smallest_p(n + 1, k_c, k_i) < least
    assert smallest_p(n, k_c + 1, k_i) < least
    assert smallest_p(n, k_i, k_c) == pytest.approx(least)


@given(st.lists(st.lists(REWARDS, min_size=1, max_size=4).map(tuple), min_size=1, max_size=6))
@settings(LAW, max_examples=50)
def test_a_copy_is_not_better_than_itself(rows):
    found = compare(_measure(rows), _measure(rows))
    assert found.mean == 0.0
    assert found.same == found.n
    assert sign_flip(found.unit_deltas).value == 1.0
    assert within_task_permutation(found.arms).value >= 0.5


@given(ROWS, ROWS)
@LAW
def test_swapping_the_sides_mirrors_a_comparison(left, right):
    forth, back = compare(_measure(left), _measure(right)), compare(_measure(right), _measure(left))
    assert (forth.n, forth.improved, forth.worse) == (back.n, back.worse, back.improved)
    assert forth.degenerate == back.degenerate
    assert back.deltas == tuple(-delta for delta in forth.deltas)
    assert back.se == forth.se
    assert (back.mean is None, back.t is None) == (forth.mean is None, forth.t is None)
    if forth.mean is not None:
        assert back.mean == -forth.mean
    if forth.t is not None:
        assert back.t == -forth.t
        assert forth.p_t + back.p_t == pytest.approx(1.0)
        assert (back.ci.low, back.ci.high) == (-forth.ci.high, -forth.ci.low)


@given(ROWS, ROWS)
@LAW
def test_a_comparison_never_holds_what_is_not_a_number(left, right):
    found = compare(_measure(left), _measure(right))
    for value in (found.mean, found.se, found.t, found.p_t):
        assert value is None or math.isfinite(value)
    assert found.n + len(found.dropped) == max(len(left), len(right))
    if found.ci is not None:
        assert found.ci.low <= found.mean <= found.ci.high


@given(ROWS, st.randoms(use_true_random=False))
@LAW
def test_a_summary_ignores_the_order_of_tasks_and_trials(rows, rng):
    measurement = _measure(rows)
    moved = [
        TaskOutcomes(t.task_id, tuple(rng.sample(t.rewards, len(t.rewards))), t.unmeasured)
        for t in measurement.tasks
    ]
    rng.shuffle(moved)
    again = Measurement("e", "c", "val", 3, 0, tuple(moved))
    assert summarize(again) == summarize(measurement)


@given(ROWS)
@LAW
def test_pass_k_falls_and_pass_at_k_rises_with_k_on_full_trials(rows):
    full = [row for row in rows if len(row) == 3 and None not in row]
    summary = summarize(_measure(full))
    falling = [e.value for e in summary.pass_k.values()]
    rising = [e.value for e in summary.pass_at_k.values()]
    assert falling == sorted(falling, reverse=True)
    assert rising == sorted(rising)
    if full:
        assert falling[0] == rising[0]


@given(st.lists(REWARDS, min_size=2, max_size=20))
@LAW
def test_clusters_of_one_change_nothing(values):
    robust, plain = cluster_robust(values, range(len(values))), mean_with_stderr(values)
    assert robust.mean == plain.value
    assert robust.se == pytest.approx(plain.se, rel=1e-9, abs=1e-15)


@given(st.lists(st.tuples(REWARDS, st.one_of(st.none(), st.floats(0.0, 0.5))), min_size=2, max_size=20))
@LAW
def test_the_raw_error_is_never_below_the_component_one(tasks):
    means, ses = [mean for mean, _ in tasks], [se for _, se in tasks]
    assert combined_stderr(means, ses, "raw") >= combined_stderr(means, ses) - 1e-15


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
@LAW
def test_fisher_is_symmetric_in_rows_and_columns(a, b, c, d):
    p = fisher_exact(a, b, c, d)
    if p is None:
        assert a + b == 0 or c + d == 0
    else:
        assert 0.0 < p <= 1.0
        assert fisher_exact(c, d, a, b) == pytest.approx(p, rel=1e-9)
        assert fisher_exact(b, a, d, c) == pytest.approx(p, rel=1e-9)
