"""A budget, for any order of reservations and prices."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.budget import Allowance, Caps, Remaining, Spent, remaining_for_search

PRICES = st.one_of(st.none(), st.floats(0.0, 2.0))
MONEY = st.floats(0.0, 20.0)


def _drive(allowance: Allowance, prices: list[float | None], slots: int) -> tuple[int, float, int]:
    """Keeps `slots` trials in flight until the allowance or the prices end: calls, spent, most in flight."""
    flight: list[float | None] = []
    spent, calls, most = 0.0, 0, 0
    for price in prices:
        if len(flight) == slots:
            done = flight.pop(0)
            allowance.settle(done)
            spent += done or 0.0
        if not allowance.reserve():
            break
        calls += 1
        flight.append(price)
        most = max(most, len(flight))
    for done in flight:
        allowance.settle(done)
        spent += done or 0.0
    return calls, spent, most


@given(st.lists(PRICES, max_size=60), st.integers(1, 8), st.integers(0, 40))
def test_calls_never_pass_their_cap_and_stop_only_there(prices, slots, cap):
    calls, _, _ = _drive(Allowance(Remaining(calls=cap), lambda: 0.0), prices, slots)
    assert calls == min(cap, len(prices))


@given(st.integers(1, 60), st.integers(1, 8), MONEY, st.floats(0.01, 2.0))
def test_with_one_known_price_money_never_passes_its_cap_and_nothing_is_left_that_buys_a_trial(
    n, slots, cap, price
):
    allowance = Allowance(Remaining(usd=cap), lambda: 0.0, price)
    calls, spent, _ = _drive(allowance, [price] * n, slots)
    assert spent <= cap * (1 + 1e-6)
    if allowance.exhausted is not None:
        assert spent + price > cap * (1 - 1e-6)
    else:
        assert calls == n


@settings(max_examples=200)
@given(st.lists(PRICES, max_size=60), st.integers(1, 8), MONEY)
def test_money_passes_its_cap_by_at_most_what_was_in_flight(prices, slots, cap):
    _, spent, most = _drive(Allowance(Remaining(usd=cap), lambda: 0.0), prices, slots)
    dearest = max((price for price in prices if price is not None), default=0.0)
    assert spent <= cap * (1 + 1e-6) + most * dearest


@given(st.lists(PRICES, min_size=1, max_size=30), st.integers(0, 10), MONEY)
def test_a_cap_once_reached_is_never_lifted_by_a_settlement(prices, calls, cap):
    allowance = Allowance(Remaining(calls=calls, usd=cap), lambda: 0.0)
    flight = 0
    while flight < 40 and allowance.reserve():
        flight += 1
    if flight == 40:
        return
    for price in prices[:flight]:
        allowance.settle(price)
        assert not allowance.reserve()


@given(
    st.one_of(st.none(), st.integers(0, 10**6)),
    st.one_of(st.none(), MONEY),
    st.integers(0, 10**6),
    MONEY,
    MONEY,
    PRICES,
    st.integers(0, 10**4),
)
def test_what_remains_and_what_is_spent_and_set_aside_never_pass_the_caps(
    max_calls, max_usd, calls, target, proposer, dearest, final
):
    left = remaining_for_search(
        Caps(max_calls, max_usd), Spent(calls, target, proposer, dearest), final_calls=final, deadline=None
    )
    assert (left.calls is None) == (max_calls is None)
    assert (left.usd is None) == (max_usd is None)
    if left.calls is not None and max_calls is not None:
        assert left.calls >= 0
        assert left.calls == 0 or left.calls + calls + final == max_calls
    if left.usd is not None and max_usd is not None:
        assert left.usd >= 0.0
        rest = target + proposer + final * (dearest or 0.0)
        assert left.usd == 0.0 or math.isclose(left.usd + rest, max_usd, abs_tol=1e-6)
