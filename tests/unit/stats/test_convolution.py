"""Exact tails of sums of discrete terms."""

from __future__ import annotations

import pytest

from capevolve.stats.convolution import Term, upper_tail

COIN = Term((0.0, 1.0), (0.5, 0.5))


def test_a_sum_of_nothing_reaches_nothing_for_certain():
    assert upper_tail([], 0.0) == 1.0
    assert upper_tail([Term((0.0,), (1.0,))], 0.0) == 1.0


def test_equal_terms_and_unequal_terms_are_added_alike():
    wide = Term((0.0, 40.0), (0.5, 0.5))
    assert upper_tail([COIN] * 4, 3.0) == pytest.approx(5 / 16)
    assert upper_tail([COIN, wide, COIN, wide], 41.0) == pytest.approx(0.5 * 0.75 + 0.25)


def test_a_value_given_twice_keeps_both_probabilities():
    assert upper_tail([Term((0.0, 1.0, 1.0), (0.5, 0.25, 0.25)), COIN], 2.0) == 0.25


def test_both_exact_ways_agree(monkeypatch: pytest.MonkeyPatch):
    terms = [Term((0.0, 0.3, 0.7), (0.2, 0.5, 0.3)), Term((0.0, 0.4), (0.6, 0.4)), COIN]
    on_lattice = upper_tail(terms, 1.1)
    monkeypatch.setattr("capevolve.stats.convolution.MAX_ADDITIONS", 0)
    assert upper_tail(terms, 1.1) == pytest.approx(on_lattice, abs=1e-15)


def test_what_is_too_large_for_both_is_left_to_the_caller():
    # 40 sizes without a common unit: 2^40 sums.
    assert upper_tail([Term((0.0, 2.0**0.5 + i**0.5), (0.5, 0.5)) for i in range(40)], 1.0) is None
