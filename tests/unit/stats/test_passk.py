"""pass^k and pass@k of one task."""

from __future__ import annotations

from itertools import combinations

import pytest

from capevolve.stats import pass_at_k, pass_hat_k


@pytest.mark.parametrize("rate", [pass_hat_k, pass_at_k])
@pytest.mark.parametrize("k", [-1, 0, 4])
def test_a_k_below_one_or_above_the_trials_is_undefined_and_never_clamped(rate, k: int):
    assert rate(3, 3, k) is None


@pytest.mark.parametrize("rate", [pass_hat_k, pass_at_k])
def test_no_trials_leave_every_k_undefined(rate):
    assert rate(0, 0, 1) is None


@pytest.mark.parametrize("passed", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_both_equal_the_average_over_all_ways_to_choose_k_trials(passed: int, k: int):
    trials = [1] * passed + [0] * (5 - passed)
    chosen = list(combinations(trials, k))
    assert pass_hat_k(passed, 5, k) == pytest.approx(sum(all(c) for c in chosen) / len(chosen))
    assert pass_at_k(passed, 5, k) == pytest.approx(sum(any(c) for c in chosen) / len(chosen))


def test_more_passes_than_trials_are_refused():
    with pytest.raises(ValueError, match="cannot have passed"):
        pass_hat_k(4, 3, 1)
