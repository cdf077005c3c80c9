"""The pacing cores under any course of events: rates are kept, the limit stays in its bounds and recovers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.evaluate.congestion import Congestion
from capevolve.evaluate.rates import Rates
from capevolve.ledger.usage import RecentUse

pauses = st.lists(st.floats(0.0, 40.0), min_size=1, max_size=60)


def begin_calls(rates: Rates, waits: list[float], eager: int, now: float = 0.0) -> list[float]:
    """Begins calls whenever it may, up to `eager` at a time, looking again after each wait."""
    begun = []
    for wait in waits:
        for _ in range(3):
            for _ in range(rates.count(now, eager)):
                rates.begin(now)
                begun.append(now)
            now += rates.wait_s(now)
        now += wait
    return begun


@given(st.integers(1, 3_000), pauses, st.integers(1, 500))
@settings(deadline=None)
def test_no_minute_holds_more_calls_than_the_limit(limit: int, waits: list[float], eager: int) -> None:
    begun = begin_calls(Rates(limit, None, now=0.0), waits, eager)
    first = 0
    for last, at in enumerate(begun):
        while at - begun[first] >= 59.999:
            first += 1
        assert last - first + 1 <= limit


@given(st.integers(1, 600), pauses, st.floats(0.0, 100.0))
@settings(deadline=None)
def test_a_minute_across_two_evaluations_of_a_run_holds_no_more(
    limit: int, waits: list[float], gap: float
) -> None:
    before = begin_calls(Rates(limit, None, now=0.0), waits, 50)
    now = before[-1] + gap
    after = begin_calls(Rates(limit, None, now=now, recent=RecentUse(before[-1])), waits, 50, now)
    begun = before + after
    assert all(sum(at - 59.999 < other <= at for other in begun) <= limit for at in begun)


@pytest.mark.parametrize("limit", [2, 7, 60, 119, 120, 150, 600, 3_000])
def test_calls_that_wait_only_for_the_limit_reach_it_and_do_not_pass_it(limit: int) -> None:
    rates, now = Rates(limit, None, now=0.0), 0.0
    begun: list[float] = []
    while now < 180.0:
        for _ in range(rates.count(now, 1_000)):
            rates.begin(now)
            begun.append(now)
        now += max(rates.wait_s(now), 1e-3)
    assert len(begun) >= 3 * limit * 0.97 - 1
    for start in (0.0, 0.5, 60.0, 119.0):
        assert sum(start <= at < start + 59.999 for at in begun) <= limit


@given(
    st.integers(60, 100_000),
    st.lists(st.tuples(st.integers(0, 5_000), st.floats(0.0, 30.0)), min_size=5, max_size=80),
    st.integers(1, 16),
)
@settings(deadline=None)
def test_tokens_never_run_ahead_of_the_limit_by_more_than_what_was_in_flight(
    limit: int, trials: list[tuple[int, float]], width: int
) -> None:
    rates, now, used = Rates(None, limit, now=0.0), 0.0, 0
    flying: list[tuple[float, float, int]] = []
    waiting = list(trials)
    while waiting or flying:
        for _ in range(min(rates.count(now, width - len(flying)), len(waiting))):
            tokens, duration = waiting.pop()
            flying.append((now + duration, rates.begin(now), tokens))
        ready = [flight for flight in flying if flight[0] <= now]
        for flight in ready:
            flying.remove(flight)
            rates.settle(now, flight[1], flight[2])
            used += flight[2]
            assert used <= limit * (now + 1.0) / 60.0 + (width + 1) * 5_000 + 1
        steps = [at - now for at, _, _ in flying] + ([rates.wait_s(now)] if waiting else [])
        now += max([1e-6, min((step for step in steps if step > 0), default=0.0)])


def test_the_debt_of_a_dear_trial_is_waited_out() -> None:
    rates = Rates(None, 600, now=0.0)  # ten a second
    rates.settle(0.0, rates.begin(0.0), 6_000)
    assert rates.wait_s(0.0) == pytest.approx(600.0)  # 5,990 are owed, and a second's worth must be there
    assert rates.count(599.0, 5) == 0
    assert rates.count(600.0, 5) == 1


def test_the_mean_of_what_was_used_is_reserved() -> None:
    rates = Rates(None, 60_000, now=0.0)
    for tokens in (100, 300):
        rates.settle(0.0, rates.begin(0.0), tokens)
    assert rates.begin(10.0) == 200.0
    assert rates.count(20.0, 100) == 5  # a second's worth is 1,000


def test_a_target_that_reports_no_tokens_is_not_held_back_for_ever() -> None:
    rates = Rates(None, 60, now=0.0)
    reserved = rates.begin(0.0)
    assert rates.count(0.0, 9) == 0
    rates.settle(0.0, reserved, None)
    assert rates.count(0.0, 9) == 9


def test_a_refused_call_gives_its_tokens_back() -> None:
    rates = Rates(None, 60, now=0.0)
    rates.settle(0.0, rates.begin(0.0), None, refused=True)
    assert rates.count(0.0, 9) == 1


def test_what_the_run_used_before_is_still_owed() -> None:
    recent = RecentUse(100.0, ((40.0, 500), (100.0, 6_000)), 250.0)
    rates = Rates(None, 6_000, now=100.0, recent=recent)
    assert rates.wait_s(100.0) == pytest.approx(60.0)
    assert Rates(None, 6_000, now=200.0, recent=recent).count(200.0, 5) == 1


def test_further_calls_that_the_hosts_made_count() -> None:
    rates = Rates(60, None, now=0.0)
    rates.settle(0.0, rates.begin(0.0), None, extra_calls=2)
    assert rates.wait_s(0.0) == pytest.approx(3.0)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    rates = Rates(60, None, now=100.0)
    rates.begin(100.0)
    assert rates.count(50.0, 9) == 0
    assert rates.count(100.5, 9) == 0
    assert rates.count(101.0, 9) == 1


answers = st.lists(
    st.tuples(st.booleans(), st.floats(0.0, 30.0), st.floats(0.0, 3.0), st.none() | st.floats(0.0, 10.0)),
    min_size=4,
    max_size=100,
)
tops = st.integers(1, 5) | st.integers(1, 512)


@given(tops, answers, st.booleans())
def test_the_limit_stays_between_one_and_the_top(top: int, course: list, adaptive: bool) -> None:
    congestion, now = Congestion(top, lambda n: 0.5, adaptive=adaptive), 0.0
    for good, step, age, wait in course:
        now += step
        change = congestion.succeed(now, now - age) if good else congestion.refuse(now, now - age, wait)
        assert 1 <= congestion.limit <= top
        assert adaptive or congestion.limit == top
        if change is not None:
            assert change.now == congestion.limit
            assert change.now <= change.was if change.times else change.now >= change.was
        if not good and wait is not None:
            assert congestion.held_until >= now + wait


@given(tops, st.integers(0, 12))
def test_successes_bring_the_limit_back_to_the_top(top: int, events: int) -> None:
    congestion, now = Congestion(top, lambda n: 0.0), 0.0
    for _ in range(events):
        now += 1.0
        congestion.refuse(now, now, None)
    taken = 0
    while congestion.limit < top:
        now += 1.0
        congestion.succeed(now, now)
        taken += 1
        assert taken <= 16 * top + 16, "a round of successes a step, and 16 steps at most"
    assert congestion.limit == top
    assert not congestion.engaged(now + 1.0)


@given(st.integers(2, 512), st.integers(1, 512))
def test_a_burst_halves_once_however_many_of_it_are_refused(top: int, burst: int) -> None:
    congestion = Congestion(top, lambda n: 0.5)
    changes = [congestion.refuse(10.0 + n * 1e-4, 9.0, None) for n in range(burst)]
    assert congestion.limit == top // 2
    assert [change is None for change in changes] == [False] + [True] * (burst - 1)


def test_a_later_call_that_is_refused_halves_again_and_waits_longer() -> None:
    congestion = Congestion(16, lambda n: 2.0**n)
    first = congestion.refuse(10.0, 9.0, None)
    second = congestion.refuse(12.5, 12.1, None)
    assert (first.was, first.now, first.hold_s) == (16, 8, 2.0)
    assert (second.was, second.now, second.hold_s) == (8, 4, 4.0)
    assert congestion.held_until == 16.5


def test_the_longest_wait_that_a_burst_was_told_holds() -> None:
    congestion = Congestion(4, lambda n: 0.5)
    congestion.refuse(10.0, 9.0, 1.0)
    assert congestion.refuse(10.1, 9.0, 1.5) is None  # too little to be recorded
    longer = congestion.refuse(10.2, 9.0, 30.0)
    assert (longer.times, longer.hold_s, congestion.held_until) == (0, 30.0, 40.2)
    assert congestion.limit == 2


def test_a_success_of_before_the_refusal_is_no_recovery() -> None:
    congestion = Congestion(2, lambda n: 1.0)
    congestion.refuse(10.0, 9.0, None)
    assert congestion.succeed(10.5, 9.5) is None
    assert congestion.limit == 1
    assert congestion.succeed(12.0, 11.5).now == 2


def test_changes_joined_keep_the_count_the_lowest_and_the_longest() -> None:
    congestion = Congestion(8, lambda n: 0.0)
    changes = [congestion.refuse(float(n), float(n), wait) for n, wait in ((1, 0.1), (2, 0.3), (3, None))]
    joined = changes[0].join(changes[1]).join(changes[2])
    assert (joined.was, joined.now, joined.times, joined.lowest, joined.retry_after_s) == (8, 1, 3, 1, 0.3)
