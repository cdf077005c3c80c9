"""The e-value of a bet."""

from __future__ import annotations

import math

import pytest

from capevolve.stats import betting_e_value


def test_no_deltas_leave_it_undefined():
    assert betting_e_value([]) is None


def test_no_difference_moves_no_capital():
    assert betting_e_value([0.0] * 9) == 1.0
    assert betting_e_value([0.4, -0.2], stake=0.0) == 1.0


def test_gains_multiply_the_capital_and_losses_take_from_it():
    assert betting_e_value([1.0, 1.0], stake=0.5) == pytest.approx(2.25)
    assert betting_e_value([1.0, -1.0], stake=0.5) == pytest.approx(0.75)


def test_all_is_never_lost():
    assert betting_e_value([-1.0] * 50, stake=0.9) > 0.0


@pytest.mark.parametrize("bad", [1.1, -1.1, math.nan, math.inf])
def test_what_is_no_delta_is_refused(bad: float):
    with pytest.raises(ValueError, match="delta"):
        betting_e_value([0.1, bad])


@pytest.mark.parametrize("stake", [-0.1, 1.0, math.nan])
def test_a_stake_that_could_lose_everything_is_refused(stake: float):
    with pytest.raises(ValueError, match="stake"):
        betting_e_value([0.1], stake)
