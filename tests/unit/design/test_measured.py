"""What earlier runs say: the noise of the seed candidate, the spread of accepted edits, a rollout's price."""

from __future__ import annotations

import asyncio

import pytest

from capevolve.budget import Remaining
from capevolve.design import Variance, read_price, read_variance
from capevolve.design.measured import find_spread, summarize_noise
from capevolve.errors import BudgetExhaustedError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.runs import open_project_ledger
from capevolve.spec import load_spec
from capevolve.start import start_run

# A test task costs 100 times what a val task does.
PRICED = """
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(8)]

    def run_target(self, task, ctx, *, seed):
        cost = {3: None, 7: 100.0}.get(task.input, 1.0 + task.input)
        return Rollout(task_id=task.id, output=(task.input + seed) % 2, cost_usd=cost)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""
IDS = {"train": ["t0"], "val": ["t1", "t2", "t3"], "test": ["t7"]}


@pytest.fixture
def project(make_project):
    return make_project(PRICED, {"splits": {"ids": IDS}, "search": {"max_iterations": 0}})


def read(project):
    loaded = load_spec(project.root)
    ledger = open_project_ledger(loaded, create=False)
    try:
        with ledger.read() as connection:
            return read_variance(connection, "marker"), read_price(connection, "marker")
    finally:
        ledger.close()


def test_the_noise_is_split_into_that_within_and_that_between_tasks(measure):
    """Within: (0.5 + 0) / 2. Means 0.5 and 1: sample variance 0.125, mean squared SE (0.25 + 0) / 2."""
    found = summarize_noise("r1", measure({"a": [0.0, 1.0], "b": [1.0, 1.0]}, num_trials=2), [])
    assert found == Variance(0.25, "measured", "r1", 0.75, 0.0, None)


def test_single_trials_leave_a_bound_and_no_components(measure):
    accepted = [(measure({"a": [1.0], "b": [1.0]}), measure({"a": [0.0], "b": [1.0]}))]
    found = summarize_noise("r1", measure({"a": [0.0], "b": [1.0], "c": [1.0], "d": [1.0]}), accepted)
    assert found == Variance(0.1875, "bound", "r1", 0.75, None, None)


def test_nothing_measured_names_no_run(measure):
    assert summarize_noise("r1", measure({"a": []}), []) == Variance()


def test_the_spread_of_an_edit_is_what_its_noise_does_not_explain(measure):
    """Deltas 1, 0, 1, 0: s^2 = 1/3. Noise of one trial each at v = 0.1: 0.2."""
    new = measure({"a": [1.0], "b": [0.0], "c": [1.0], "d": [0.0]})
    old = measure({"a": [0.0], "b": [0.0], "c": [0.0], "d": [0.0]})
    assert find_spread([(new, old)], 0.1) == pytest.approx(1 / 3 - 0.2)
    assert find_spread([(new, old)], 0.25) == 0.0
    assert find_spread([], 0.1) is None
    assert find_spread([(measure({"a": [1.0]}), measure({"a": [0.0]}))], 0.1) is None


def test_a_baseline_that_was_cut_off_measures_no_noise_but_a_price(project):
    """The first two of three val trials, in split order, cost 2 and 3."""

    async def begin(run):
        started = await start_run(run)
        request = EvaluationRequest(started.record.seed_candidate, "val")
        await evaluate(run, request, remaining=Remaining(calls=2))

    with project.driven("r1") as run, pytest.raises(BudgetExhaustedError):
        asyncio.run(begin(run))
    variance, price = read(project)
    assert variance == Variance()
    assert (price.usd.value, price.usd.source, price.usd.run_id) == (2.5, "measured", "r1")


def test_test_trials_are_not_read_and_unpriced_ones_enter_no_mean(project, complete):
    complete(project)
    variance, price = read(project)
    assert variance.mean == pytest.approx(2 / 3)
    assert price.usd.value == 2.5
    assert price.seconds.value > 0.0
