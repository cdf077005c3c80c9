"""How large a look is, and that a gate which can never accept is refused before anything is spent."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from capevolve.errors import UserError
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.gate.confirm.sizing import (
    MOST_TRIALS,
    find_look_trials,
    find_smallest_p,
    refuse_hopeless,
)
from capevolve.model import Reason

AUTO = ConfirmProfile(look_trials="auto")
# (z_{1 - 0.01} + z_{0.8})^2, one-sided: the last look of the default profile is tested at 0.01.
SQUARED_SUM_OF_QUANTILES = 10.0360


def rows(n: int, trials: list[float]) -> dict[str, list[float]]:
    return {f"t{i:03d}": trials for i in range(n)}


def test_one_task_with_one_trial_is_hopeless_and_that_is_said_with_the_numbers():
    # 4 fresh trials in each arm: C(8, 4) = 70 labellings; 1/70 = 0.014 is above 0.01.
    with pytest.raises(UserError) as caught:
        refuse_hopeless(ConfirmProfile(), 1, 1)
    said = str(caught.value)
    assert "can never accept: 1 val task with 4 fresh trials per arm" in said
    assert "below 0.014" in said
    assert "asks for 0.01" in said
    assert caught.value.where == "gate.confirm"
    assert "look_trials" in (caught.value.fix or "")


@pytest.mark.parametrize(("n", "k"), [(1, 2), (2, 1), (20, 1), (300, 3)])
def test_what_can_accept_is_not_refused(n: int, k: int):
    refuse_hopeless(ConfirmProfile(), n, k)


@pytest.mark.parametrize(("n", "k"), [(0, 1), (0, 50), (1, 1)])
def test_no_task_at_all_is_as_hopeless_as_too_few(n: int, k: int):
    with pytest.raises(UserError, match=f"{n} val task"):
        refuse_hopeless(ConfirmProfile(), n, k)


def test_the_boundary_is_exact():
    """A last look tested at exactly the smallest p-value can accept; at less, rounding aside, it cannot."""
    p = find_smallest_p(ConfirmProfile(), 1, 1)
    assert p == pytest.approx(1 / 70)
    fits = ConfirmProfile(
        alpha_run=p, max_failed_confirmations=1, looks=(1, 1, 2), look_split=(1e-9, 1e-9, 1.0 - 2e-9)
    )
    alpha = p / fits.look_split[-1]
    refuse_hopeless(replace(fits, alpha_run=math.nextafter(alpha, 1.0)), 1, 1)
    with pytest.raises(UserError):
        refuse_hopeless(replace(fits, alpha_run=alpha * (1 - 1e-9)), 1, 1)


def test_the_smallest_p_value_counts_the_trials_of_all_looks():
    profile = ConfirmProfile(looks=(1, 2), look_split=(0.5, 0.5), look_futility=(0.2,))
    assert find_smallest_p(profile, 2, 3) == pytest.approx(math.comb(18, 9) ** -2)


def test_strict_needs_more_than_the_default_where_little_is_attainable():
    # p = 1/70: the default's last look at 0.01 is already out of reach, with 2 tasks 1/4900 is within both.
    profile = replace(PROFILES["strict"], alpha_run=0.001)
    assert find_smallest_p(profile, 2, 1) > profile.limits[-1]
    with pytest.raises(UserError, match="2 val tasks with 4"):
        refuse_hopeless(profile, 2, 1)


def test_a_unit_is_an_evaluations_trials_unless_the_profile_says_otherwise(measure):
    record = measure(rows(20, [0.0, 1.0]), num_trials=2)
    assert [find_look_trials(ConfirmProfile(), k, record) for k in (1, 2, 5)] == [1, 2, 5]
    assert find_look_trials(ConfirmProfile(), 3, None) == 3
    assert find_look_trials(ConfirmProfile(look_trials=7), 3, record) == 7
    assert find_look_trials(ConfirmProfile(look_trials=1), 3, None) == 1


def test_auto_plans_with_the_variance_that_was_measured(measure):
    # One pass and one failure per task: the variance of one trial is 0.5.
    record = measure(rows(50, [0.0, 1.0]), num_trials=2)
    wanted = 2 * 0.5 * SQUARED_SUM_OF_QUANTILES / (50 * 0.1**2)
    assert find_look_trials(AUTO, 2, record) == math.ceil(wanted / 4) == 6


def test_auto_plans_with_the_bound_where_each_task_has_one_trial(measure):
    # Half of the tasks pass: the most one trial can vary is 0.25, whether or not tasks differ.
    record = measure({f"t{i}": [float(i % 2)] for i in range(50)})
    wanted = 2 * 0.25 * SQUARED_SUM_OF_QUANTILES / (50 * 0.1**2)
    assert find_look_trials(AUTO, 1, record) == math.ceil(wanted / 4) == 3


def test_tasks_that_always_give_the_same_need_no_more_than_can_be_attained(measure):
    record = measure({f"t{i}": [float(i % 2)] * 3 for i in range(50)}, num_trials=3)
    assert find_look_trials(AUTO, 3, record) == 1
    few = measure({"t0": [0.0, 0.0]}, num_trials=2)
    unit = find_look_trials(AUTO, 2, few)
    assert unit == 2  # one trial per unit could never accept on one task
    refuse_hopeless(AUTO, 1, unit)


def test_auto_grows_as_the_effect_shrinks(measure):
    record = measure(rows(40, [0.0, 1.0]), num_trials=2)
    sizes = [find_look_trials(replace(AUTO, effect=e), 2, record) for e in (0.5, 0.3, 0.2, 0.1, 0.05, 0.01)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] < sizes[4]


def test_auto_shrinks_as_val_grows(measure):
    sizes = [
        find_look_trials(AUTO, 2, measure(rows(n, [0.0, 1.0]), num_trials=2)) for n in (5, 10, 20, 80, 300)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[2] > sizes[3]


def test_auto_is_at_least_one_and_at_most_its_clamp(measure):
    tiny = replace(AUTO, effect=0.001)
    assert find_look_trials(tiny, 2, measure(rows(3, [0.0, 1.0]), num_trials=2)) == MOST_TRIALS == 64
    large = replace(AUTO, effect=0.99)
    assert find_look_trials(large, 2, measure(rows(500, [0.0, 1.0]), num_trials=2)) == 1


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("effect", [0.99, 0.3, 0.1])
def test_what_auto_sizes_can_accept(measure, n: int, effect: float):
    for profile in (AUTO, replace(PROFILES["strict"], look_trials="auto")):
        profile = replace(profile, effect=effect)
        unit = find_look_trials(profile, 1, measure(rows(n, [1.0])))
        refuse_hopeless(profile, n, unit)


def test_auto_without_anything_measured_takes_an_evaluations_trials(measure):
    assert find_look_trials(AUTO, 3, None) == 3
    assert find_look_trials(AUTO, 3, measure(rows(4, [Reason.INFRA]))) == 3


def test_tasks_without_a_reward_are_not_planned_with(measure):
    half = {**rows(20, [0.0, 1.0]), **{f"x{i}": [Reason.INFRA] * 2 for i in range(20)}}
    assert find_look_trials(AUTO, 2, measure(half, num_trials=2)) == find_look_trials(
        AUTO, 2, measure(rows(20, [0.0, 1.0]), num_trials=2)
    )
