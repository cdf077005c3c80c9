"""From an adapter's tasks to frozen splits: keys read, duplicates told, nothing of test said."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from capevolve.adapters.catalog import describe_task
from capevolve.adapters.records import ListedTask
from capevolve.errors import SplitError
from capevolve.ledger.events import read_events
from capevolve.ledger.runs import read_sealed_split, read_split
from capevolve.model import SPLITS, Task
from capevolve.splits import PerSplit, SplitSettings, make_splits
from capevolve.start import describe_splits, list_rows, plan_splits, start_run

LEVELS: tuple[Any, ...] = ("easy", 1, "1", True, "true", None, [1], {"b": 1, "a": 2}, "\U0001f600", "x" * 300)


def listed(n: int = 40, **metadata: Any) -> list[ListedTask]:
    """Tasks with these values in their metadata, in turn."""
    tasks = []
    for i in range(n):
        values = {key: some[i % len(some)] for key, some in metadata.items()}
        tasks.append(describe_task(Task(f"t{i:02}", f"input number {i}", i, values)))
    return tasks


def _start(project, run_id="r1"):
    with project.driven(run_id) as run:
        started = asyncio.run(start_run(run))
        with run.ledger.read() as connection:
            ids = {
                "train": [task.ref.id for task in read_split(connection, run_id, "train")],
                "val": [task.ref.id for task in read_split(connection, run_id, "val")],
                "test": [task.ref.id for task in read_sealed_split(connection, run_id)],
            }
            [event] = read_events(connection, run_id, "started")
    return started, ids, event


def with_tasks(make_project, task: str):
    """The marker's adapter with other tasks, `i` being their number."""
    source = (make_project().root / "adapter.py").read_text()
    return source.replace('Task(id=f"t{i:02d}", input=i, target="MARK")', task)


def test_values_of_a_key_are_compared_as_text():
    rows = list_rows(listed(20, level=LEVELS), "level", "level")
    texts = ["easy", "1", "1", "true", "true", None, "[1]", '{"a":2,"b":1}', "\U0001f600", "x" * 300] * 2
    assert [row.stratum for row in rows] == [row.group for row in rows] == texts
    assert [row.stratum for row in list_rows(listed(20, level=LEVELS), None)] == [None] * 20


def test_strata_of_any_values_are_spread():
    plan = plan_splits(listed(80, level=LEVELS), SplitSettings(stratify_key="level"))
    values = {task.id: json.dumps(task.metadata["level"]) for task in listed(80, level=LEVELS)}
    for split, number in (("train", 4), ("val", 2), ("test", 2)):
        found = [values[ref.id] for ref in getattr(plan, split)]
        alone = [value for value in found if value not in ("1", '"1"', "true", '"true"')]
        assert {alone.count(value) for value in alone} == {number}
    assert not any("x" * 100 in warning for warning in plan.warnings)


@pytest.mark.parametrize("key", ["group_key", "stratify_key"])
def test_a_key_that_no_task_has_is_refused_with_those_that_there_are(key: str):
    tasks = listed(12, level=["easy"], family=[1, None], empty=[None])
    with pytest.raises(SplitError) as caught:
        plan_splits(tasks, SplitSettings(**{key: "familly"}))
    assert "No task has 'familly' in its metadata; the keys there are 'family', 'level'." in str(caught.value)
    with pytest.raises(SplitError, match="No task has 'empty'"):
        plan_splits(tasks, SplitSettings(**{key: "empty"}))


def test_without_new_keys_or_duplicates_nothing_is_frozen_that_was_not_before():
    tasks = listed(24, family=list(range(12)))
    plan = plan_splits(tasks, SplitSettings(seed=3, group_key="family"))
    bare = [(task.id, task.digest, task.cluster, str(i % 12)) for i, task in enumerate(tasks)]
    rows = [type(row)(*content) for row, content in zip(list_rows(tasks, None), bare, strict=True)]
    assert plan == make_splits(rows, SplitSettings(seed=3, group_key="family"))
    payload = json.loads(describe_splits(plan, 0.0).payload)
    assert set(payload) == {"seed", "method", "holdout", "val_holdout", "warnings"}


def test_a_target_alone_is_no_content():
    tasks = [describe_task(Task(f"t{i:02}", f"input {i}", "the same")) for i in range(12)]
    assert plan_splits(tasks, SplitSettings()).holdout


def test_a_run_stratifies_by_the_metadata_of_its_tasks(make_project):
    source = with_tasks(
        make_project, 'Task(id=f"t{i:02d}", input=i, target="MARK", metadata={"hard": i % 3 == 0})'
    )
    project = make_project(
        source, {"splits": {"counts": {"train": 6, "val": 3, "test": 3}, "stratify_key": "hard"}}
    )
    started, ids, _ = _start(project)
    hard = {split: sum(int(name[1:]) % 3 == 0 for name in names) for split, names in ids.items()}
    assert hard == {"train": 2, "val": 1, "test": 1}
    assert json.loads(started.splits.payload)["marks"]["stratum_names"] == ["false", "true"]


def test_a_key_that_no_task_has_starts_no_run(make_project):
    project = make_project(
        spec={"splits": {"counts": {"train": 4, "val": 4, "test": 4}, "stratify_key": "hard"}}
    )
    with pytest.raises(SplitError, match="No task has 'hard' in its metadata"):
        _start(project)
    assert project.calls() == []


def test_near_duplicates_are_told_when_the_run_starts_and_no_test_task_is(make_project):
    text = " ".join(f"word{i}" for i in range(40))
    task = f'Task(id=f"t{{i:02d}}", input="{text} " + str(i), target="MARK")'
    started, ids, event = _start(make_project(with_tasks(make_project, task)))
    said = [warning for warning in started.splits.warnings if "nearly" in warning]
    assert len(said) == 3
    assert said[0].startswith("4 of 4 test tasks nearly repeat the input of a train task")
    assert "(position 8)" in said[0]
    assert event.payload["warnings"] == list(started.splits.warnings)
    told = json.dumps(event.payload) + started.splits.payload
    assert not any(name in told for name in ids["test"])
    assert any(name in told for name in ids["train"])


def test_the_same_input_in_two_splits_starts_no_run_unless_grouped(make_project):
    source = with_tasks(
        make_project, 'Task(id=f"t{i:02d}", input=f"Question {i // 2}" + " " * (i % 2), target=i)'
    )
    counts = {"train": 4, "val": 4, "test": 4}
    with pytest.raises(
        SplitError, match=r"The same input \(but for case and white space\) is in more than one"
    ):
        _start(make_project(source, {"splits": {"counts": counts}}))
    started, ids, _ = _start(
        make_project(source, {"splits": {"counts": counts, "on_duplicate_content": "group"}})
    )
    homes = [{int(name[1:]) // 2 for name in names} for names in ids.values()]
    assert sum(map(len, homes)) == len(set().union(*homes)) == 6
    assert len(json.loads(started.splits.payload)["marks"]["copies"]) == 6


def test_pinned_ids_are_checked_for_the_same_input_too():
    tasks = [describe_task(Task(f"t{i}", "Who?" if i in (0, 5) else i, i)) for i in range(6)]
    ids = PerSplit(("t0", "t1"), ("t2", "t3"), ("t4", "t5"))
    with pytest.raises(SplitError, match="'t0' \\(train\\) and 't5' \\(test\\)"):
        plan_splits(tasks, SplitSettings(ids=ids))
    assert [
        len(getattr(plan_splits(tasks[:5], SplitSettings(counts=PerSplit(2, 2, 1))), s)) for s in SPLITS
    ] == [2, 2, 1]
