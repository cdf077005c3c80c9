"""Batch hooks: the same rows whichever path ran, and trials put into calls."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from capevolve.evaluate import EvaluationRequest, evaluate_together
from capevolve.evaluate.batches import arrange_calls
from capevolve.ledger.evaluations import find_evaluation
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.runs import read_run
from capevolve.ledger.trials import Claim
from capevolve.model import Reason, Scored, Unmeasured


def claims(*trials: tuple[str, int]) -> list[Claim]:
    return [Claim(task, trial, 100 + trial) for task, trial in trials]


def shape(calls) -> list[list[tuple[str, int]]]:
    return [[(claim.task_id, claim.trial) for claim in call] for call in calls]


GRID = claims(*((task, trial) for task in "abc" for trial in range(3)))


def test_a_call_of_run_batch_has_one_seed():
    assert shape(arrange_calls(GRID, 2, many_trials=False)) == [
        [("a", 0), ("b", 0)], [("c", 0)], [("a", 1), ("b", 1)], [("c", 1)], [("a", 2), ("b", 2)], [("c", 2)]
    ]  # fmt: skip


def test_a_call_of_run_trials_holds_whole_tasks():
    assert shape(arrange_calls(GRID, 7, many_trials=True)) == [
        [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)],
        [("c", 0), ("c", 1), ("c", 2)],
    ]


def test_more_trials_of_a_task_than_a_call_holds_are_several_calls():
    assert shape(arrange_calls(claims(("a", 0), ("a", 1), ("a", 2)), 2, many_trials=True)) == [
        [("a", 0), ("a", 1)],
        [("a", 2)],
    ]


def test_what_an_interruption_left_over_is_still_in_blocks():
    rest = claims(("a", 0), ("a", 2), ("b", 1), ("b", 2), ("c", 2))
    assert shape(arrange_calls(rest, 9, many_trials=True)) == [
        [("a", 0)],
        [("a", 2), ("c", 2)],
        [("b", 1), ("b", 2)],
    ]


BOTH = """
import json, os
from capevolve import Adapter as Base, Rollout, Score, Task

def note(name, *what):
    with open(os.environ["TARGET_CALLS"], "a") as file:
        file.write(json.dumps([name, *what]) + "\\n")

def roll(task, seed):
    if task.input == 3:
        return Rollout(task.id, error="the provider is away")
    if task.input == 5:
        return Rollout("t00", output="of another task")
    return Rollout(
        task.id, output={"in": task.input, "seed": seed}, trace=[f"said {seed}"], cost_usd=0.25 * task.input,
        tokens=10 + seed, tool_calls=[{"name": "look"}], metadata={"a": 1},
    )

def mark(task, rollout):
    reward = {4: 1.5, 6: float("nan")}.get(task.input, (rollout.output["seed"] + task.input) % 5 / 5)
    rows = [{"name": "r", "value": reward, "primary": True, "direction": "higher"},
            {"name": "s", "value": 3.0, "primary": False, "direction": "lower"}]
    return Score(task.id, reward, feedback=f"looked at {rollout.output}", metrics=rows)

class Plain(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(10)]
    def run_target(self, task, ctx, *, seed):
        note("run_target", seed)
        return roll(task, seed)
    def score(self, task, rollout):
        note("score")
        if task.input == 7:
            raise KeyError("gold")
        return mark(task, rollout)
"""

HOOKS = {
    "run_batch": """
class Adapter(Plain):
    def run_batch(self, tasks, ctx, *, seed=0):
        note("run_batch", len(tasks))
        return {task.id: roll(task, seed) for task in tasks}
""",
    "run_batch, a list": """
class Adapter(Plain):
    async def run_batch(self, tasks, ctx, *, seed=0):
        note("run_batch", len(tasks))
        return [roll(task, seed) for task in tasks]
""",
    "run_trials": """
class Adapter(Plain):
    def run_trials(self, tasks, ctx, *, n_trials, base_seed):
        note("run_trials", len(tasks) * n_trials)
        return {task.id: [roll(task, base_seed + k) for k in range(n_trials)] for task in tasks}
""",
    "score_batch": """
class Adapter(Plain):
    def score_batch(self, tasks, rollouts):
        note("score_batch", len(tasks))
        if any(task.input == 7 for task in tasks):
            raise KeyError("gold")
        return {task.id: mark(task, rollouts[task.id]) for task in tasks if task.input != 2}
""",
    "run_trials and score_batch": """
class Adapter(Plain):
    def run_trials(self, tasks, ctx, *, n_trials, base_seed):
        note("run_trials", len(tasks) * n_trials)
        return {task.id: [roll(task, base_seed + k) for k in range(n_trials)] for task in tasks}
    def score_batch(self, tasks, rollouts):
        if any(task.input == 7 for task in tasks):
            raise KeyError("gold")
        return [mark(task, rollouts[task.id]) for task in tasks]
""",
}


def rows_of(lab) -> list[object]:
    """What the ledger holds of val, without what a clock decides."""
    rows = lab.rows()
    with lab.project.driven() as run, run.ledger.read() as connection:
        key = run.key(read_run(connection, run.id).seed_candidate, "val")
        rollouts = list(read_rollouts(connection, find_evaluation(connection, key).id))
    found = []
    for row, rollout in zip(rows, rollouts, strict=True):
        payload = json.loads(rollout.payload)
        payload["traceback"] = "raised" if "traceback" in payload else None
        numbers = (row.seed, row.calls, row.interrupted, row.cost_usd, row.tokens)
        found.append(
            (row.task_id, row.trial, row.outcome, *numbers, rollout.feedback, rollout.metrics, payload)
        )
    return found


def spec_of(**evaluation: object) -> dict[str, object]:
    ids = {"train": ["t08"], "val": [f"t{i:02d}" for i in range(8)], "test": ["t09"]}
    limits = {"num_trials": 3, "concurrency": 8, "timeout_s": 20, "retries": 0, **evaluation}
    return {"splits": {"ids": ids}, "evaluation": limits}


def noted(lab) -> list[list[object]]:
    return [json.loads(line) for line in Path(lab.project.calls_path).read_text().splitlines()]


@pytest.fixture(scope="module")
def plain_rows() -> dict[str, object]:
    return {}


@pytest.mark.parametrize("hook", HOOKS)
def test_the_rows_are_the_same_whichever_path_ran(make_lab, plain_rows, hook):
    lab = make_lab(BOTH + HOOKS[hook], spec_of())
    lab.evaluate()
    if not plain_rows:
        one_by_one = make_lab(BOTH + HOOKS[hook], spec_of(batch_size=0))
        one_by_one.evaluate()
        assert {name for name, *_ in noted(one_by_one)} == {"run_target", "score"}
        plain_rows["rows"] = rows_of(one_by_one)
    assert rows_of(lab) == plain_rows["rows"]
    calls = [call for call in noted(lab) if call[0] == hook.split(",")[0].split(" ")[0]]
    assert calls
    assert max(size for _, size in calls) > 1
    assert ("run_target" in {name for name, *_ in noted(lab)}) == (hook == "score_batch")


FAULTY = (
    BOTH
    + """
import time
class Adapter(Plain):
    def run_batch(self, tasks, ctx, *, seed=0):
        note("run_batch", len(tasks), *[task.input for task in tasks])
        bad = {task.input for task in tasks} & {1, 2}
        FAULT
        return {task.id: roll(task, seed) for task in tasks}
    def score(self, task, rollout):
        return Score(task.id, 1.0)
"""
)

FAULTS = {
    "raises": ("raise OSError('no more sockets')", Unmeasured, "no more sockets"),
    "is too short": ("return []", Unmeasured, "returned 0 results for 1 tasks"),
    "is not a dict": ("return 'rollouts'", Unmeasured, "returned str"),
    "leaves one out": (
        "return {t.id: roll(t, seed) for t in tasks if t.input != 1}",
        Unmeasured,
        "no rollout",
    ),
    "agent fails": ("from capevolve import AgentFailure; raise AgentFailure('gave up')", Scored, "gave up"),
    "crashes": ("os.abort()", Unmeasured, "SIGABRT"),
    "hangs": ("time.sleep(60)", Scored, "timeout"),
    "is late": ("time.sleep(1.2)", Scored, "timeout"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_befalls_a_call_costs_only_the_culprit(make_lab, fault):
    source, kind, words = FAULTS[fault]
    limits = {"timeout_s": 1.0, "grace_s": 2.0 if fault == "is late" else 0.1}
    ids = {"train": ["t08"], "val": ["t00", "t01", "t04"], "test": ["t09"]}
    spec = spec_of(retries=1, retry_wait_s=0.0, num_trials=1, **limits)
    spec["splits"] = {"ids": ids}
    lab = make_lab(FAULTY.replace("FAULT", f"if bad: {source}"), spec)
    lab.evaluate()
    found = {row[0]: (row[2], row[8]) for row in rows_of(lab)}
    assert (found["t00"][0], found["t04"][0]) == (Scored(1.0), Scored(1.0))
    outcome, feedback = found["t01"]
    assert isinstance(outcome, kind)
    assert words in (feedback if isinstance(outcome, Scored) else outcome.detail)
    assert not isinstance(outcome, Scored) or outcome.reward == 0.0
    calls = [call[2:] for call in noted(lab)]
    assert sorted(calls[0]) == [0, 1, 4]
    assert all(len(call) == 1 for call in calls[1:])
    assert {row.task_id: row.calls for row in lab.rows()} == {
        f"t{n:02d}": sum(n in call for call in calls) for n in (0, 1, 4)
    }


def test_no_trial_is_claimed_before_its_call_begins(make_lab):
    """Eight places and calls of three: what is claimed is what the hook was given."""
    watch = BOTH + (
        """
import sqlite3, glob
class Adapter(Plain):
    def run_batch(self, tasks, ctx, *, seed=0):
        ledger = sqlite3.connect(glob.glob(os.path.join(os.getcwd(), ".capevolve", "ledger.db"))[0])
        rows = ledger.execute("select task_id, seed from trials where finished_at is null").fetchall()
        note("run_batch", len(tasks), seed, sorted(rows), sorted(task.id for task in tasks))
        return {task.id: roll(task, seed) for task in tasks}
"""
    )
    spec = spec_of(concurrency=8, batch_size=8, num_trials=3)
    spec["splits"] = {"ids": {"train": ["t08"], "val": ["t00", "t01", "t03"], "test": ["t09"]}}
    lab = make_lab(watch, spec)
    lab.evaluate()
    calls = [call for call in noted(lab) if call[0] == "run_batch"]
    assert [size for _, size, *_ in calls] == [3] * 3
    for _, _, seed, claimed, given in calls:
        assert [task for task, _ in claimed] == given
        assert {row_seed for _, row_seed in claimed} == {seed}
    assert {row.outcome.reason for row in lab.rows() if isinstance(row.outcome, Unmeasured)} == {Reason.INFRA}


def test_two_arms_share_the_places_and_keep_their_calls_whole(make_lab):
    """Without a limit to their sum, two candidates would have twice the trials in flight."""
    both = BOTH + (
        """
import time
class Adapter(Plain):
    def run_batch(self, tasks, ctx, *, seed=0):
        begun = time.monotonic()
        time.sleep(0.05)
        note("run_batch", len(tasks), seed, begun, time.monotonic())
        return [roll(task, seed) for task in tasks]
"""
    )
    lab = make_lab(both, spec_of(concurrency=4, num_trials=2))
    lab.start()

    async def go(run):
        with run.ledger.read() as connection:
            seed = read_run(connection, run.id).seed_candidate
        requests = [EvaluationRequest(seed, "val", tag=tag) for tag in ("one", "two")]
        return await evaluate_together(run, requests)

    with lab.project.driven() as run:
        one, two = asyncio.run(go(run))
    assert [task.rewards for task in one.tasks] == [task.rewards for task in two.tasks]
    calls = [call for call in noted(lab) if call[0] == "run_batch"]
    assert [size for _, size, *_ in calls] == [4] * 8
    spans = sorted((begun, ended) for *_, begun, ended in calls)
    assert all(late[0] >= early[1] for early, late in pairwise(spans))


@pytest.mark.parametrize("point", ["evaluate.after_commit", "evaluate.before_commit"])
def test_a_call_that_was_cut_off_is_put_together_again(make_lab, hook, point):
    lab = make_lab(BOTH + HOOKS["run_trials"], spec_of(concurrency=6))
    seen: Counter[str] = Counter()

    def cut(reached: str) -> None:
        seen[reached] += 1
        if reached == point and seen[reached] == 3:
            raise RuntimeError("the power is gone")

    hook(cut)
    with pytest.raises(RuntimeError, match="power"):
        lab.evaluate()
    before = {(row.task_id, row.trial) for row in lab.rows() if row.outcome is not None}
    hook(lambda name: None)
    lab.evaluate()
    rows = lab.rows()
    assert before
    assert len(rows) == 24
    assert all(row.outcome is not None for row in rows)
    assert {row.interrupted for row in rows if (row.task_id, row.trial) in before} == {0}
    assert sum(row.calls for row in rows) == 24 + sum(row.interrupted for row in rows)
