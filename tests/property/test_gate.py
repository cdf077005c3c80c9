"""Laws of the gate, whatever was measured."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capevolve.canonical import canonical_json
from capevolve.gate import MODES, GateSettings, judge
from capevolve.model import Decision, Measurement, Reason, TaskOutcomes, Unmeasured

LAW = settings(deadline=None)
REWARDS = st.one_of(
    st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.1, 0.3, 1 / 3, 0.7, 1.0]), st.floats(0.0, 1.0)
)
ROWS = st.lists(st.lists(st.one_of(REWARDS, st.none()), max_size=4), max_size=12)
SETTINGS = st.builds(
    GateSettings,
    mode=st.sampled_from(list(MODES)),
    k_se=st.sampled_from([0.0, 0.5, 1.0, 1.645]),
    threshold=st.sampled_from([0.0, 0.05]),
    min_coverage=st.sampled_from([0.0, 0.6]),
    multiplier=st.sampled_from(["t", "normal"]),
    no_regression=st.booleans(),
)
CLUSTERS = st.one_of(st.none(), st.lists(st.sampled_from("ab"), min_size=12, max_size=12))


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


@given(ROWS, SETTINGS, CLUSTERS)
@example(rows=[[0.1, 0.2, 0.3], [0.3]], settings_=GateSettings(mode="strict"), clusters=None)
@LAW
def test_a_record_is_never_accepted_against_itself(rows, settings_, clusters):
    same = _measure(rows, clusters)
    assert judge(same, same, settings_).decision is not Decision.ACCEPT


@given(ROWS, ROWS, SETTINGS, CLUSTERS, st.randoms(use_true_random=False))
@LAW
def test_the_order_of_tasks_and_trials_is_irrelevant(left, right, settings_, clusters, rng):
    def move(measurement: Measurement) -> Measurement:
        tasks = [
            TaskOutcomes(t.task_id, tuple(rng.sample(t.rewards, len(t.rewards))), t.unmeasured, t.cluster)
            for t in measurement.tasks
        ]
        rng.shuffle(tasks)
        return Measurement("e", "c", "val", 3, 0, tuple(tasks))

    candidate, incumbent = _measure(left, clusters), _measure(right, clusters)
    assert judge(move(candidate), move(incumbent), settings_) == judge(candidate, incumbent, settings_)


@given(ROWS, ROWS, SETTINGS, CLUSTERS)
@LAW
def test_two_records_are_never_both_better_than_each_other(left, right, settings_, clusters):
    one, other = _measure(left, clusters), _measure(right, clusters)
    forth, back = judge(one, other, settings_), judge(other, one, settings_)
    assert not (forth.decision is Decision.ACCEPT and back.decision is Decision.ACCEPT)
    assert (forth.decision is Decision.INDECISIVE) == (back.decision is Decision.INDECISIVE)


@given(ROWS, ROWS, SETTINGS, CLUSTERS)
@LAW
def test_a_verdict_is_one_clear_line_that_can_be_stored(left, right, settings_, clusters):
    verdict = judge(_measure(left, clusters), _measure(right, clusters), settings_)
    assert verdict.reason
    assert "\n" not in verdict.reason
    assert "nan" not in verdict.reason
    assert "None" not in verdict.reason
    # Refuses whatever is not a finite number.
    canonical_json([verdict.delta, verdict.se, verdict.bar, verdict.p_value])
    assert verdict.improved + verdict.worse + verdict.same == verdict.n
    if verdict.decision is Decision.ACCEPT:
        assert verdict.delta > 0.0


@given(
    st.integers(2, 60),
    st.one_of(st.sampled_from([0.1, 0.3, 1 / 3, 1.0]), st.floats(0.001, 1.0)),
    st.integers(0, 59),
    st.floats(0.0, 1.0),
    st.sampled_from(["t", "normal"]),
)
@settings(LAW, max_examples=300)
def test_one_winner_has_one_verdict_whatever_n_size_place_and_level(n, size, place, base, multiplier):
    start = base * (1.0 - size)
    rows = [[start] for _ in range(n)]
    winner = [list(row) for row in rows]
    winner[place % n] = [start + size]
    verdict = judge(_measure(winner), _measure(rows), GateSettings(multiplier=multiplier))
    assert verdict.decision is Decision.REJECT


@given(
    ROWS, st.sampled_from(list(MODES)), st.integers(0, 11), st.sampled_from([math.nan, math.inf, -math.inf])
)
@LAW
def test_one_reward_that_is_not_a_number_makes_it_indecisive(rows, mode, place, bad):
    rows = [*rows, [1.0]]
    broken = [list(row) for row in rows]
    broken[place % len(rows)].append(bad)
    for sides in ((broken, rows), (rows, broken)):
        verdict = judge(_measure(sides[0]), _measure(sides[1]), GateSettings(mode=mode))
        assert verdict.decision is Decision.INDECISIVE


@pytest.mark.parametrize(
    ("settings_", "at_most"),
    [
        # The level is .159; three standard errors of 1500 runs are .028. Ties keep strict below one half.
        (GateSettings(), 0.159 + 0.028),
        (GateSettings(k_se=1.645), 0.05 + 0.017),
        (GateSettings(mode="significant"), 0.159 + 0.028),
        (GateSettings(mode="strict"), 0.5 + 0.039),
    ],
    ids=["paired", "paired at 5 %", "significant", "strict"],
)
def test_a_copy_of_the_incumbent_is_accepted_no_more_often_than_the_level_says(settings_, at_most):
    rng = random.Random(20)
    rates = [rng.betavariate(0.8, 0.8) for _ in range(20)]
    accepted = 0
    for _ in range(1_500):
        sides = [_measure([[float(rng.random() < q) for _ in range(3)] for q in rates]) for _ in range(2)]
        accepted += judge(*sides, settings_).decision is Decision.ACCEPT
    assert accepted / 1_500 <= at_most
    # The gate is not simply shut.
    assert accepted > 0
