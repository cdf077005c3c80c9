"""Evaluation with real hosts, the target's calls counted outside the product."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from capevolve.budget import Remaining
from capevolve.errors import (
    AdapterError,
    BudgetExhaustedError,
    FencedError,
    LedgerError,
    TamperError,
    UserError,
)
from capevolve.evaluate import EvaluationRequest, evaluate_together
from capevolve.ledger.events import read_events
from capevolve.ledger.trials import read_target_spend
from capevolve.model import Reason, Scored
from capevolve.stats import summarize

COUNT = """
import os
from capevolve import Adapter as Base, AgentFailure, Rollout, Score, Task

def count(task, seed):
    fd = os.open(os.environ["TARGET_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{task.id} {seed}\\n".encode("utf-8", "backslashreplace"))
    os.close(fd)
"""

ADAPTER = (
    COUNT
    + """
class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        count(task, seed)
        return Rollout(task_id=task.id, output=task.input, cost_usd=0.25)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=1.0)
"""
)


class PowerCutError(Exception):
    """Raised by a hook in the place of a crash."""


def _spec(**evaluation):
    return {"evaluation": {"num_trials": 1, "concurrency": 1, "timeout_s": 20, "retries": 0, **evaluation}}


def _cut(hook, name, occurrence=1):
    seen = Counter()

    def cut(reached):
        seen[reached] += 1
        if reached == name and seen[reached] == occurrence:
            raise PowerCutError(name)

    hook(cut)


def _heal(hook):
    hook(lambda name: None)


@pytest.fixture
def lab(make_lab):
    return make_lab(ADAPTER, _spec(num_trials=2))


def test_asked_again_it_continues_where_a_cap_stopped_it_and_then_calls_nothing(lab):
    with pytest.raises(BudgetExhaustedError, match="cap on calls"):
        lab.evaluate(remaining=Remaining(calls=3))
    first = lab.project.calls()
    assert len(first) == 3
    assert sum(row.outcome is not None for row in lab.rows()) == 3

    measurement = lab.evaluate(remaining=Remaining(calls=5))
    calls = lab.project.calls()
    assert calls[:3] == first
    assert Counter(calls) == Counter(
        f"{task.task_id} {seed}" for task in measurement.tasks for seed in (0, 1)
    )
    assert [task.rewards for task in measurement.tasks] == [(1.0, 1.0)] * 4

    assert lab.evaluate() == measurement
    assert lab.evaluate(remaining=Remaining(calls=0, usd=0.0, deadline=0.0)) == measurement
    assert lab.project.calls() == calls


@pytest.mark.parametrize("remaining", [{"calls": 0}, {"usd": 0.0}, {"deadline": 1.0}], ids=str)
def test_with_nothing_left_nothing_is_called(lab, remaining):
    with pytest.raises(BudgetExhaustedError):
        lab.evaluate(remaining=Remaining(**remaining))
    assert lab.project.calls() == []


def test_a_price_known_from_an_earlier_evaluation_is_reserved_from_the_first_trial_on(make_lab):
    lab = make_lab(ADAPTER, _spec(concurrency=4))
    lab.evaluate("train")
    spent = len(lab.project.calls())
    with pytest.raises(BudgetExhaustedError, match="cap on money"):
        lab.evaluate(remaining=Remaining(usd=0.5))
    assert len(lab.project.calls()) - spent == 2


def test_a_trial_cut_off_in_flight_runs_again_and_the_interruption_is_counted(make_lab, hook):
    slow = ADAPTER.replace("count(task, seed)\n", "count(task, seed)\n        time.sleep(0.11)\n", 1)
    lab = make_lab(slow.replace("import os\n", "import os, time\n", 1), _spec())  # too slow to be sent ahead
    _cut(hook, "evaluate.before_commit", 3)  # the second result is on its way to the ledger
    with pytest.raises(PowerCutError):
        lab.evaluate()
    _heal(hook)
    assert summarize(lab.evaluate()).n_trials == 4
    calls = Counter(lab.project.calls())
    assert sorted(calls.values()) == [1, 1, 1, 2]
    rows = lab.rows()
    assert sorted((row.calls, row.interrupted) for row in rows) == [(1, 0)] * 3 + [(2, 1)]
    assert {f"{row.task_id} {row.seed}": row.calls for row in rows} == calls


def test_trials_sent_ahead_but_not_begun_when_a_driver_dies_run_once_and_count_as_interrupted(lab, hook):
    _cut(hook, "evaluate.before_commit", 3)
    with pytest.raises(PowerCutError):
        lab.evaluate()
    _heal(hook)
    assert summarize(lab.evaluate()).n_trials == 8
    calls = Counter(lab.project.calls())
    assert len(calls) == 8
    assert max(calls.values()) <= 2
    for row in lab.rows():
        assert calls[f"{row.task_id} {row.seed}"] <= row.calls == row.interrupted + 1


def test_interrupted_too_often_a_trial_is_missing_data_without_another_call(make_lab, hook):
    lab = make_lab(ADAPTER, _spec(max_interruptions=2))
    for _ in range(2):
        _cut(hook, "evaluate.before_commit", 2)  # the first trial was called, its result is lost
        with pytest.raises(PowerCutError):
            lab.evaluate()
    _heal(hook)
    before = Counter(lab.project.calls())
    measurement = lab.evaluate()
    poison = measurement.tasks[0]
    assert [missing.reason for missing in poison.unmeasured] == [Reason.INTERRUPTED]
    assert Counter(lab.project.calls())[f"{poison.task_id} 0"] == before[f"{poison.task_id} 0"] == 2
    assert [task.rewards for task in measurement.tasks[1:]] == [(1.0,)] * 3
    [row] = [row for row in lab.rows() if row.task_id == poison.task_id]
    assert (row.calls, row.interrupted) == (2, 2)


@pytest.mark.parametrize("name", ["evaluate.opened", "evaluate.executed", "evaluate.finished"])
def test_cut_between_any_two_steps_it_goes_on_and_calls_everything_once(make_lab, hook, name):
    lab = make_lab(ADAPTER, _spec())
    _cut(hook, name)
    with pytest.raises(PowerCutError):
        lab.evaluate()
    _heal(hook)
    assert summarize(lab.evaluate()).n_trials == 4
    assert set(Counter(lab.project.calls()).values()) == {1}


def test_some_tasks_are_a_subset_that_shares_no_trial_with_the_whole(lab):
    ids = [task.task_id for task in lab.evaluate(num_trials=1).tasks][:2]
    subset = lab.evaluate(ids=tuple(ids[::-1]), num_trials=1)
    assert subset.subset
    assert [task.task_id for task in subset.tasks] == ids
    again = lab.evaluate(ids=(*ids, ids[0]), num_trials=1)
    assert again == subset
    assert len(lab.project.calls()) == 6


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"ids": ("t00", "nope")}, UserError, "no task 'nope'|no task 't00'"),
        ({"ids": ()}, UserError, "No task was named"),
        ({"num_trials": 0}, UserError, "at least one trial"),
        ({"num_trials": -1}, UserError, "at least one trial"),
        ({"split": "unused"}, UserError, "no split 'unused'"),
        ({"split": "TEST"}, UserError, "no split 'TEST'"),
        ({"candidate_id": "sha256:" + "0" * 64}, LedgerError, "knows no candidate"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_asked_is_refused_before_a_call_and_leaves_no_evaluation(lab, options, error, words):
    with pytest.raises(error, match=words):
        lab.evaluate(**options)
    assert lab.project.calls() == []
    assert lab.rows() == ()


def test_a_run_that_was_not_started_has_nothing_to_evaluate(lab):
    async def go(run):
        await evaluate_together(run, [EvaluationRequest("sha256:0", "val")])

    with lab.project.driven() as run, pytest.raises(LedgerError, match="no run 'r1'"):
        asyncio.run(go(run))


def test_an_empty_split_is_refused_not_scored(make_lab):
    counts = {"train": 0, "val": 8, "test": 4}
    lab = make_lab(ADAPTER, {**_spec(), "splits": {"counts": counts}})
    with pytest.raises(UserError, match="train split is empty"):
        lab.evaluate("train")


FAULTS = (
    COUNT
    + """
import time

FAULTS = ["fine", "infra", "agent", "raises", "exits", "hangs", "nan", "two", "text", "scorer", "deep"]

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"{f}-{s}", input=f, metadata={"split": s}) for f in FAULTS for s in ("a", "b", "c")]

    def run_target(self, task, ctx, *, seed):
        count(task, seed)
        if task.input == "infra":
            return Rollout(task_id=task.id, error="429", cost_usd=0.5)
        if task.input == "agent":
            raise AgentFailure("gave up")
        if task.input == "raises":
            raise ConnectionError("refused")
        if task.input == "exits":
            time.sleep(0.1)
            os._exit(3)
        if task.input == "hangs":
            time.sleep(60)
        output = None
        if task.input == "deep":
            for _ in range(400):
                output = [output]
        return Rollout(task_id=task.id, output=output)

    def score(self, task, rollout):
        if task.input == "scorer":
            raise KeyError("gold")
        reward = {"nan": float("nan"), "two": 2.0, "text": "1"}.get(task.input, 1.0)
        return Score(task_id=task.id, reward=reward)
"""
)


def test_each_kind_of_failure_has_its_reason_and_costs_no_sibling_anything(make_lab):
    splits = {"ids": {s: [] for s in ("train", "val", "test")}, "allow_no_holdout": True}
    kinds = ["fine", "infra", "agent", "raises", "exits", "hangs", "nan", "two", "text", "scorer", "deep"]
    for split, letter in (("train", "a"), ("val", "b"), ("test", "c")):
        splits["ids"][split] = [f"{kind}-{letter}" for kind in kinds]
    spec = {
        **_spec(concurrency=2, timeout_s=1.0, grace_s=0.2, retries=1, retry_wait_s=0.01, timeout_is="infra"),
        "splits": splits,
    }
    lab = make_lab(FAULTS, spec)
    measurement = lab.evaluate()
    found = {
        task.task_id.partition("-")[0]: task.rewards[0] if task.rewards else task.unmeasured[0].reason
        for task in measurement.tasks
    }
    assert found == {
        "fine": 1.0,
        "infra": Reason.INFRA,
        "agent": 0.0,
        "raises": Reason.INFRA,
        "exits": Reason.CRASH,
        "hangs": Reason.TIMEOUT,
        "nan": Reason.INVALID_SCORE,
        "two": Reason.INVALID_SCORE,
        "text": Reason.INVALID_SCORE,
        "scorer": Reason.SCORER_ERROR,
        "deep": 1.0,
    }
    calls = Counter(line.partition("-")[0] for line in lab.project.calls())
    assert {kind for kind, number in calls.items() if number == 2} == {"infra", "raises", "exits"}
    assert {row.task_id.partition("-")[0]: row.calls for row in lab.rows()} == calls
    with lab.project.driven() as run, run.ledger.read() as connection:
        spend = read_target_spend(connection, run.id)
    assert (spend.calls, spend.cost_usd) == (len(lab.project.calls()), 1.0)


STOCHASTIC = (
    COUNT
    + """
import random, time

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(24)]

    def run_target(self, task, ctx, *, seed):
        count(task, seed)
        luck = random.Random(f"{task.id} {seed}")
        time.sleep(luck.random() / 200)
        return Rollout(task_id=task.id, output=luck.random())

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=rollout.output)
"""
)


def test_one_place_or_eight_measure_the_same(make_lab):
    splits = {"counts": {"train": 4, "val": 16, "test": 4}, "seed": 3}
    seen = []
    for concurrency in (1, 8):
        lab = make_lab(STOCHASTIC, {**_spec(num_trials=3, concurrency=concurrency), "splits": splits})
        seen.append(lab.evaluate())
        assert len(lab.project.calls()) == 48
    assert seen[0] == seen[1]
    assert len({reward for task in seen[0].tasks for reward in task.rewards}) == 48
    assert seen[0].base_seed == 3


SLOW = (
    COUNT
    + """
import time

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        count(task, seed)
        time.sleep(0.03 * (task.input % 3 + 1))
        return Rollout(task_id=task.id, output=1)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=1.0)
"""
)


def test_with_known_durations_the_longest_run_first(make_lab):
    lab = make_lab(SLOW, _spec())
    lab.evaluate()
    before = len(lab.project.calls())
    lab.evaluate(num_trials=2)
    order = [int(line[1:3]) % 3 for line in lab.project.calls()[before:]]
    assert order == sorted(order, reverse=True)
    assert len(set(order)) > 1


HOSTILE = ["a/b", "../x", "x" * 300, "Foo", "foo", "🎈", "a__b__t0", "CON", "%2e", "-rf", " lead"]


def test_hostile_task_ids_are_only_names(make_lab):
    adapter = ADAPTER.replace(
        '[Task(id=f"t{i:02d}", input=i) for i in range(12)]', f"[Task(id=i, input=i) for i in {HOSTILE!r}]"
    )
    splits = {"counts": {"train": 2, "val": 7, "test": 2}}
    lab = make_lab(adapter, {**_spec(concurrency=2), "splits": splits})
    for split in ("train", "val"):
        measurement = lab.evaluate(split)
        assert all(task.rewards == (1.0,) for task in measurement.tasks)
        subset = lab.evaluate(split, ids=(measurement.tasks[0].task_id,), num_trials=2)
        assert subset.tasks[0].rewards == (1.0, 1.0)
    assert not any(path.name.startswith(("Foo", "CON", "a__b")) for path in lab.project.root.rglob("*"))


def test_an_adapter_changed_between_two_evaluations_is_refused_by_name_and_restored_goes_on(lab):
    path = lab.project.root / "adapter.py"
    text = path.read_text()
    lab.evaluate("train", num_trials=1)
    calls = len(lab.project.calls())
    path.write_text(text.replace("reward=1.0", "reward=0.5"))
    with pytest.raises(TamperError, match=r"adapter\.py"):
        lab.evaluate()
    assert len(lab.project.calls()) == calls
    path.write_text(text)
    assert summarize(lab.evaluate()).mean == 1.0


def test_a_module_the_adapter_imports_is_part_of_it(make_lab):
    lab = make_lab(
        ADAPTER.replace("import os\n", "import os\nimport scorer\n", 1).replace(
            "reward=1.0", "reward=scorer.ONE"
        )
    )
    lab.project.write("scorer.py", "ONE = 1.0\n")
    lab.start()
    lab.project.write("scorer.py", "ONE = 0.9\n")
    with pytest.raises(TamperError, match=r"scorer\.py"):
        lab.evaluate()
    assert lab.project.calls() == []


EDITING = ADAPTER.replace(
    "        count(task, seed)\n",
    """        count(task, seed)
        if task.input % 2 and not os.environ.get("TAME"):
            (ctx / "prompt.md").write_text("MARK")
""",
)


def test_what_a_target_measures_with_a_candidate_it_edited_is_never_recorded_not_even_by_a_rerun(
    make_lab, monkeypatch
):
    lab = make_lab(EDITING, _spec())
    for _ in range(2):
        with pytest.raises(TamperError, match=r"changed the candidate.*prompt\.md"):
            lab.evaluate()
        assert all(row.outcome is None or int(row.task_id[1:]) % 2 == 0 for row in lab.rows())
    monkeypatch.setenv("TAME", "1")
    assert summarize(lab.evaluate()).n_trials == 4


def test_new_files_beside_the_candidate_are_gone_with_the_evaluation(make_lab):
    lab = make_lab(
        ADAPTER.replace(
            "count(task, seed)\n        return", '(ctx / "cache").write_text("x")\n        return'
        )
    )
    lab.evaluate()
    assert not list((lab.project.root / ".capevolve").rglob("cache"))
    assert not list((lab.project.root / ".capevolve").rglob("evaluation-*"))


def test_a_candidate_that_cannot_be_made_live_is_an_adapter_error_that_shows_why(make_lab):
    live = """
    def live(self, candidate_dir):
        raise ValueError("the template lacks {question}")
"""
    lab = make_lab(ADAPTER + live)
    with pytest.raises(AdapterError, match="the template lacks"):
        lab.evaluate()
    assert lab.project.calls() == []


def test_a_run_taken_over_while_it_evaluates_writes_nothing_more(lab, hook):
    drivers = []

    def cut(name):
        if name == "evaluate.after_commit" and not drivers:
            drivers.append(None)
            drivers.append(lab.take_over(run.ledger, run.id))

    with lab.project.driven() as run:
        hook(cut)
        with pytest.raises(FencedError, match="epoch 1"):
            asyncio.run(lab._go(run, "val", {}))
        assert len(lab.project.calls()) <= 1
        with run.ledger.read() as connection:
            assert len(read_events(connection, run.id, "takeover")) == 1
    assert not any(isinstance(row.outcome, Scored) for row in _rows_of(lab))


def _rows_of(lab):
    from capevolve.ledger.evaluations import list_evaluations
    from capevolve.ledger.store import open_ledger
    from capevolve.ledger.trials import read_trials

    ledger = open_ledger(f"sqlite:///{lab.project.root}/.capevolve/ledger.db")
    with ledger.read() as connection:
        rows = [row for e in list_evaluations(connection, "r1") for row in read_trials(connection, e.id)]
    ledger.close()
    return rows


def test_the_same_evaluation_twice_in_one_call_is_refused_before_a_call(lab):
    lab.start()

    async def go(run):
        from capevolve.ledger.runs import read_run

        with run.ledger.read() as connection:
            seed = read_run(connection, run.id).seed_candidate
        await evaluate_together(run, [EvaluationRequest(seed, "val")] * 2)

    with lab.project.driven() as run, pytest.raises(UserError, match="twice"):
        asyncio.run(go(run))
    assert lab.project.calls() == []


def test_progress_begins_with_what_is_done_and_ends_with_everything(lab):
    with pytest.raises(BudgetExhaustedError):
        lab.evaluate(remaining=Remaining(calls=2))
    seen = []
    lab.evaluate(on_progress=seen.append)
    assert (seen[0].done, seen[0].total, seen[0].scored) == (2, 8, 0)
    assert (seen[-1].done, seen[-1].scored, seen[-1].cost_usd) == (8, 6, 1.5)


def test_outputs_are_stored_as_strict_json_whatever_they_hold(make_lab):
    strange = 'output=[float("nan"), {1: 2}, "\\ud800", b"x", object]'
    lab = make_lab(ADAPTER.replace("output=task.input", strange))
    lab.evaluate()
    from capevolve.ledger.rollouts import read_rollouts

    with lab.project.driven() as run, run.ledger.read() as connection:
        payloads = [rollout.payload for rollout in read_rollouts(connection, 1)]
    assert len(payloads) == 4
    for payload in payloads:
        json.loads(payload, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
