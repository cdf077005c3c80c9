"""Reserved before a trial, settled after; a cap once reached stays reached."""

from __future__ import annotations

import math

import pytest

from capevolve.budget import Allowance, Caps, Remaining, Spent, remaining_for_search


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _allowance(dearest: float | None = None, **caps) -> Allowance:
    return Allowance(Remaining(**caps), _Clock(), dearest)


def _take(allowance: Allowance, most: int = 100) -> int:
    return next((n for n in range(most) if not allowance.reserve()), most)


def test_without_a_cap_nothing_is_refused():
    allowance = _allowance()
    assert _take(allowance) == 100
    assert allowance.exhausted is None


@pytest.mark.parametrize("calls", [0, 1, 7])
def test_a_cap_on_calls_admits_exactly_so_many(calls):
    allowance = _allowance(calls=calls)
    assert _take(allowance) == calls
    assert allowance.exhausted == f"the cap on calls is reached ({calls} were left)"


def test_a_call_given_back_by_its_settlement_is_still_a_call():
    allowance = _allowance(calls=1)
    assert allowance.reserve()
    allowance.settle(None)
    assert not allowance.reserve()


def test_calls_made_beyond_the_reserved_one_count():
    allowance = _allowance(calls=3)
    assert allowance.reserve()
    allowance.settle(None, extra_calls=1)
    assert _take(allowance) == 1


def test_no_money_admits_nothing_not_even_a_free_trial():
    allowance = _allowance(usd=0.0)
    assert not allowance.reserve()
    assert "cap on money" in (allowance.exhausted or "")


def test_before_the_first_price_is_known_nothing_can_be_held_back():
    assert _take(_allowance(usd=0.01), most=8) == 8


def test_with_a_known_price_reservations_never_exceed_the_cap():
    assert _take(_allowance(usd=1.0, dearest=0.4)) == 2


def test_the_highest_price_seen_is_what_is_reserved():
    allowance = _allowance(usd=1.0, dearest=0.1)
    assert allowance.reserve()
    allowance.settle(0.4)
    assert allowance.reserve()  # 0.4 spent and 0.4 reserved
    assert not allowance.reserve()


@pytest.mark.parametrize(
    ("cap", "price", "trials"), [(0.3, 0.1, 3), (1.0, 0.1, 10), (0.7, 0.1, 7), (2.1, 0.7, 3)]
)
def test_a_cap_that_the_prices_fill_exactly_is_filled_whatever_the_binary_fractions(cap, price, trials):
    allowance = _allowance(usd=cap, dearest=price)
    done = 0
    while allowance.reserve():
        allowance.settle(price)
        done += 1
    assert done == trials


def test_a_trial_without_a_price_settles_at_nothing():
    allowance = _allowance(usd=1.0, dearest=0.5)
    for _ in range(10):
        assert allowance.reserve()
        allowance.settle(None)


def test_time_is_up_at_the_deadline():
    clock = _Clock()
    allowance = Allowance(Remaining(deadline=5.0), clock)
    clock.now = 4.999
    assert allowance.reserve()
    clock.now = 5.0
    assert not allowance.reserve()
    assert allowance.exhausted == "the cap on time is reached"


def test_a_cap_once_reached_stays_reached():
    clock = _Clock()
    allowance = Allowance(Remaining(deadline=5.0), clock)
    clock.now = 5.0
    assert not allowance.reserve()
    clock.now = 0.0
    assert not allowance.reserve()


def _spent(**values) -> Spent:
    return Spent(**{"calls": 0, "target_usd": 0.0, "proposer_usd": 0.0, "dearest_usd": None, **values})


def test_without_caps_everything_remains():
    assert remaining_for_search(Caps(), _spent(calls=9), final_calls=8, deadline=None) == Remaining()


def test_the_bill_of_finalize_is_set_aside_first():
    left = remaining_for_search(
        Caps(max_calls=100, max_usd=10.0),
        _spent(calls=30, target_usd=3.0, proposer_usd=1.0, dearest_usd=0.25),
        final_calls=16,
        deadline=7.0,
    )
    assert left == Remaining(calls=54, usd=2.0, deadline=7.0)


def test_what_is_overspent_leaves_nothing_and_never_less_than_nothing():
    left = remaining_for_search(
        Caps(max_calls=10, max_usd=1.0), _spent(calls=30, target_usd=3.0), final_calls=8, deadline=None
    )
    assert left == Remaining(calls=0, usd=0.0)


def test_an_unknown_price_sets_no_money_aside():
    left = remaining_for_search(Caps(max_usd=1.0), _spent(calls=4), final_calls=1000, deadline=None)
    assert left.usd is not None
    assert math.isclose(left.usd, 1.0)
