"""The chance to pass stages: against simulation, and in the cases that are plain normal tests."""

from __future__ import annotations

import numpy as np
import pytest

from capevolve.design.confirmation import look_stages, screen_stages
from capevolve.design.passage import Stage, find_passage, find_raced_tasks, find_smallest
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.stats import normal_cdf, normal_quantile

PROFILE = ConfirmProfile()


def simulate(stages, effect, runs=200_000):
    rng = np.random.default_rng(7)
    total, before = np.zeros(runs), 0.0
    alive, passed = np.ones(runs, bool), np.zeros(runs, bool)
    for number, stage in enumerate(stages):
        step = stage.share - before
        total += rng.normal(effect * step, np.sqrt(step), runs)
        before = stage.share
        z = total / np.sqrt(stage.share)
        limit = stage.accept_at
        if limit is None and number == len(stages) - 1:
            limit = stage.reject_above
        if limit is not None:
            won = alive & (z >= normal_quantile(1 - limit))
            passed |= won
            alive &= ~won
        alive &= z >= normal_quantile(1 - stage.reject_above)
    return passed.mean()


@pytest.mark.parametrize("effect", [0.0, 1.2, 3.17, 5.0])
def test_looks_are_passed_as_often_as_in_simulation(effect):
    stages = look_stages(PROFILE, 50)
    assert find_passage(stages, effect) == pytest.approx(simulate(stages, effect), abs=0.004)


@pytest.mark.parametrize("effect", [0.0, 1.0, 2.5])
def test_race_and_screen_are_passed_as_often_as_in_simulation(effect):
    stages = screen_stages(PROFILE, 20)
    assert len(stages) == 2
    assert find_passage(stages, effect) == pytest.approx(simulate(stages, effect), abs=0.004)


def test_the_early_stops_of_the_looks_cost_power():
    """What a single test at the last look's level finds with 80 % passes peek and looks with 67 %."""
    effect = normal_quantile(0.99) + normal_quantile(0.8)
    assert find_passage(look_stages(PROFILE, 50), effect) == pytest.approx(0.6749, abs=0.0005)


def test_looks_keep_the_level_of_their_slot():
    assert find_passage(look_stages(PROFILE, 50), 0.0) < PROFILE.alpha


@pytest.mark.parametrize("effect", [-1.0, 0.0, 2.0])
def test_one_stage_is_one_normal_test(effect):
    found = find_passage([Stage(1.0, None, 0.05)], effect)
    assert found == pytest.approx(normal_cdf(effect - normal_quantile(0.95)))


def test_a_stage_that_stops_nobody_changes_nothing():
    alone = find_passage([Stage(1.0, 0.1, 0.1)], 1.0)
    assert find_passage([Stage(0.5, None, 1.0), Stage(1.0, 0.1, 0.1)], 1.0) == pytest.approx(alone, abs=1e-6)


def test_everyone_passes_a_screen_of_one():
    assert find_passage([Stage(1.0, None, 1.0)], 0.0) == 1.0


def test_the_smallest_effect_is_found_to_a_millionth():
    assert find_smallest(lambda x: x, 0.3, 1.0) == pytest.approx(0.3, abs=2e-6)


def test_tasks_that_change_must_be_drawn_to_race():
    """10 of 20 race; one changed task races with 0.5, two with 1 - 10*9/(20*19) = 0.763, three with 0.895."""
    assert find_raced_tasks(20, 10, 1, 0.5 - 1e-9) == 1
    assert find_raced_tasks(20, 10, 1, 0.76) == 2
    assert find_raced_tasks(20, 10, 1, 0.8) == 3
    assert find_raced_tasks(20, 10, 11, 0.8) is None
