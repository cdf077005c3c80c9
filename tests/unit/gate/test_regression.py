"""The no_regression veto."""

from __future__ import annotations

import random

import pytest

from capevolve.gate import GateSettings, judge
from capevolve.model import Decision

VETO = GateSettings(no_regression=True)


def _gain_but(task: list[float], *, trials: int = 5, n: int = 12):
    """All tasks of the candidate improve, except that the incumbent's perfect task `z` becomes `task`."""
    candidate = {f"t{i:02d}": [1.0] * trials for i in range(n - 1)} | {"z": task}
    incumbent = {f"t{i:02d}": [0.0] * trials for i in range(n - 1)} | {"z": [1.0] * trials}
    return candidate, incumbent


def test_a_reliable_task_that_breaks_beyond_noise_is_a_veto(measure):
    candidate, incumbent = map(measure, _gain_but([0.0] * 5))
    assert judge(candidate, incumbent, GateSettings()).decision is Decision.ACCEPT
    verdict = judge(candidate, incumbent, VETO)
    assert (verdict.decision, verdict.rule) == (Decision.REJECT, "no_regression")
    assert verdict.reason.startswith("task z, which the incumbent passed in every trial, broke: 0 of 5")
    assert "otherwise mean paired delta" in verdict.reason


def test_a_few_failures_of_a_reliable_task_are_within_noise(measure):
    candidate, incumbent = map(measure, _gain_but([1.0, 0.0, 1.0, 0.0, 1.0]))
    assert judge(candidate, incumbent, VETO).decision is Decision.ACCEPT


@pytest.mark.parametrize("trials", [1, 3])
def test_few_trials_on_many_tasks_cannot_show_a_regression(measure, trials: int):
    candidate, incumbent = map(measure, _gain_but([0.0] * trials, trials=trials))
    assert judge(candidate, incumbent, VETO).decision is Decision.ACCEPT


def test_a_task_the_incumbent_did_not_always_pass_is_no_ground_for_a_veto(measure):
    rows, others = _gain_but([0.0] * 5)
    others["z"] = [1.0, 1.0, 1.0, 1.0, 0.0]
    assert judge(measure(rows), measure(others), VETO).decision is Decision.ACCEPT


def test_a_rejection_keeps_its_own_reason(measure):
    candidate, incumbent = map(measure, _gain_but([0.0] * 5))
    assert judge(incumbent, candidate, VETO).rule == "paired"


@pytest.mark.parametrize("rate", [0.45, 0.5, 0.75, 0.9])
def test_a_copy_of_the_incumbent_survives_the_veto(measure, rate: float):
    # Strict accepts nearly half of all copies, so that the veto is really asked.
    strict = GateSettings(mode="strict", no_regression=True)
    rng = random.Random(17)
    vetoed = 0
    for _ in range(300):
        arms = [
            measure({f"t{i}": [float(rng.random() < rate) for _ in range(5)] for i in range(20)})
            for _ in range(2)
        ]
        vetoed += judge(arms[0], arms[1], strict).rule == "no_regression"
    assert vetoed / 300 <= 0.05
