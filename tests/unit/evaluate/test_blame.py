"""A timeout is the agent's failure or missing data, as the spec says, and never both."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from capevolve.adapters.reply import time_out
from capevolve.evaluate.blame import blame_timeout
from capevolve.ledger.evaluations import find_evaluation
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.runs import read_run
from capevolve.ledger.timeouts import count_too_slow
from capevolve.model import TOO_SLOW, Reason, Scored, Unmeasured

LATE = time_out(2.0, 2.14)


@pytest.fixture
def reply(bench, answer):
    def make(outcome):
        arm = bench.arm(lambda request, tries: answer(request, outcome))
        bench.run(arm)
        return answer(arm.pool.asked[0], outcome, cost_usd=0.5)

    return make


def test_the_agent_that_was_too_slow_scores_0_and_is_told_its_limit(reply):
    blamed = blame_timeout(reply(LATE), "agent")
    assert blamed.outcome == Scored(0.0)
    assert blamed.feedback == "timeout: the agent was over the limit of 2 s (ended after 2.1 s)"
    assert blamed.cost_usd == 0.5


def test_a_0_for_being_slow_is_stored_as_one_that_no_scorer_gave(reply):
    late = replace(reply(LATE), payload='{"output": "too late", "error": "over the limit", "a": "\u00e9"}')
    kept = json.loads(blame_timeout(late, "agent").payload)
    assert kept.pop("traceback").startswith(TOO_SLOW)
    assert kept == json.loads(late.payload)
    with_stack = replace(late, payload='{"traceback": "File x, line 1"}')
    assert blame_timeout(with_stack, "agent").payload == with_stack.payload


@pytest.mark.parametrize(
    "outcome",
    [
        time_out(2.0, 2.1, scoring=True),
        Unmeasured(Reason.INFRA, "429"),
        Unmeasured(Reason.CRASH),
        Scored(0.5),
    ],
)
def test_what_is_not_the_agents_slowness_is_left_as_it_is(reply, outcome):
    given = reply(outcome)
    assert blame_timeout(given, "agent") == given


def test_infra_leaves_a_timeout_as_missing_data(reply):
    given = reply(LATE)
    assert blame_timeout(given, "infra") == given


SLOW = """
import time
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]
    def run_target(self, task, ctx, *, seed):
        if task.input % 2:
            time.sleep(60)
        return Rollout(task.id)
    def score(self, task, rollout):
        return Score(task.id, 1.0)
"""


@pytest.mark.parametrize("blame", ["agent", "infra"])
def test_the_ledger_holds_a_timeout_as_what_the_spec_calls_it(make_lab, blame):
    limits = {"num_trials": 1, "concurrency": 4, "timeout_s": 1.0, "grace_s": 0.1, "retries": 2}
    ids = {"train": ["t08"], "val": ["t00", "t01", "t02", "t03"], "test": ["t10"]}
    asked = {} if blame == "agent" else {"timeout_is": blame}  # the agent is the default
    lab = make_lab(SLOW, {"splits": {"ids": ids}, "evaluation": {**limits, **asked}})
    measurement = lab.evaluate()
    rows = {row.task_id: row for row in lab.rows()}
    assert (rows["t00"].outcome, rows["t02"].outcome) == (Scored(1.0), Scored(1.0))
    assert {row.calls for row in rows.values()} == {1}  # a timeout is never tried again
    with lab.project.driven() as run, run.ledger.read() as connection:
        key = run.key(read_run(connection, run.id).seed_candidate, "val")
        slow = count_too_slow(connection, run.id)
        rollouts = {r.task_id: r for r in read_rollouts(connection, find_evaluation(connection, key).id)}
    assert "over the limit of 1 s" in json.loads(rollouts["t01"].payload)["error"]
    assert slow == (2 if blame == "agent" else 0)
    if blame == "agent":
        assert rows["t01"].outcome == Scored(0.0)
        assert rollouts["t01"].feedback.startswith(TOO_SLOW)
        assert [task.rewards for task in measurement.tasks] == [(1.0,), (0.0,), (1.0,), (0.0,)]
    else:
        assert rows["t01"].outcome.reason is Reason.TIMEOUT
        assert [task.rewards for task in measurement.tasks] == [(1.0,), (), (1.0,), ()]
