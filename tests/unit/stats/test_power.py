"""Power and planning."""

from __future__ import annotations

import pytest

from capevolve.model import Reason
from capevolve.stats import (
    PlanningVariance,
    minimal_effect,
    planning_se,
    planning_variance,
    t_minimal_effect,
    t_power,
    trials_needed,
)


@pytest.mark.parametrize("counts", [(0, 3, 20), (3, 0, 20), (3, 3, 0)])
def test_no_trials_or_tasks_leave_the_planning_error_undefined(counts: tuple[int, int, int]):
    assert planning_se(0.2, *counts) is None


def test_each_arm_brings_its_own_noise():
    assert planning_se(0.12, 1, 3, 40) == pytest.approx((0.12 / 40 + 0.04 / 40) ** 0.5)
    assert planning_se(0.12, 1, 3, 40) == planning_se(0.12, 3, 1, 40)


def test_the_documented_designs_resolve_what_the_documentation_says():
    found = [minimal_effect(planning_se(0.143, 3, 3, n)) for n in (20, 50, 100, 300)]
    assert found == pytest.approx([0.17, 0.11, 0.077, 0.044], abs=0.002)


def test_the_trials_needed_resolve_the_effect_they_were_asked_for():
    k = trials_needed(0.1, 0.143, 50)
    assert minimal_effect((0.143 * 2 / k / 50) ** 0.5) == pytest.approx(0.1)
    assert trials_needed(0.0, 0.143, 50) is None
    assert trials_needed(0.1, 0.143, 0) is None


def test_unknown_noise_is_the_labelled_bound():
    assert planning_variance() == PlanningVariance(0.25, "bound")


def test_one_trial_per_task_leaves_the_noise_unknown(measure):
    assert planning_variance(measure({"a": [1.0], "b": [0.0], "c": [1.0], "d": [1.0]})) == PlanningVariance(
        0.1875, "bound"
    )
    assert planning_variance(measure({"a": [Reason.INFRA]})) == PlanningVariance(0.25, "bound")


def test_noise_is_measured_on_tasks_with_two_or_more_trials(measure):
    found = planning_variance(measure({"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [0.0]}))
    assert found == PlanningVariance(0.25, "measured")


def test_the_power_of_no_effect_is_the_level():
    assert t_power(0.0, 0.4, 20, alpha=0.05) == pytest.approx(0.05)


@pytest.mark.parametrize(("sd", "n"), [(0.4, 1), (0.4, 0), (0.0, 20)])
def test_one_task_or_no_spread_leaves_the_power_undefined(sd: float, n: int):
    assert t_power(0.1, sd, n) is None
    assert t_minimal_effect(sd, n) is None


@pytest.mark.parametrize("n", [2, 3, 20, 300])
def test_the_minimal_effect_has_the_power_it_was_asked_for(n: int):
    effect = t_minimal_effect(0.4, n, alpha=0.05, power=0.9)
    assert t_power(effect, 0.4, n, alpha=0.05) == pytest.approx(0.9, abs=1e-9)


def test_a_power_below_the_level_is_refused():
    with pytest.raises(ValueError, match="power"):
        t_minimal_effect(0.4, 20, alpha=0.05, power=0.04)
