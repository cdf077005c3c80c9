import hashlib
import json
import re
from collections import Counter

import pytest

from capevolve.canonical import digest


@pytest.fixture(scope="module")
def tasks(tables):
    return tables.adapter.Adapter().tasks("all")


def test_ids_and_contents_are_unique(tasks):
    assert len(tasks) == 120
    assert len({task.id for task in tasks}) == 120
    assert len({digest([task.input, task.target, task.metadata]) for task in tasks}) == 120
    assert len({task.input for task in tasks}) == 120


def test_seventeen_families_are_about_equally_large(tasks):
    sizes = Counter(task.metadata["family"] for task in tasks)
    assert len(sizes) == 17
    assert set(sizes.values()) <= {7, 8}


def test_every_gold_result_is_there_and_does_not_depend_on_the_order_of_the_rows(tables, tasks):
    loaded = tables.database.read_tables(tables.folder / "data")
    forwards = tables.database.Database(loaded)
    backwards = tables.database.Database(
        [tables.database.Table(t.name, t.columns, t.rows[::-1]) for t in loaded]
    )
    for task in tasks:
        rows = forwards.query(task.target)
        assert rows, task.id
        assert all(value is not None for row in rows for value in row), task.id
        ordered = tables.database.is_ordered(task.target)
        assert tables.database.same_rows(rows, backwards.query(task.target), ordered=ordered), task.id


def test_every_gold_query_scores_one(tables, tasks):
    assert all(tables.adapter.judge(task.target, task.target) == (1.0, "Right.") for task in tasks)


def test_no_answer_is_in_the_seed_or_in_the_code(tables, tasks):
    files = [tables.folder / "seed" / "skill.json", *tables.folder.glob("*.py")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert not [task.id for task in tasks if task.input in text or task.target in text]


def test_the_data_are_the_files_that_their_source_names(tables):
    named = re.findall(
        r"^\| `([\w.-]+)` .*`([0-9a-f]{64})`",
        (tables.folder / "data" / "SOURCES.md").read_text(),
        re.MULTILINE,
    )
    assert len(named) == 2
    for name, expected in named:
        assert hashlib.sha256((tables.folder / "data" / name).read_bytes()).hexdigest() == expected


def test_tasks_are_the_same_for_every_split_name(tables, tasks):
    again = tables.adapter.Adapter().tasks("train")
    assert json.dumps([vars(t) for t in again]) == json.dumps([vars(t) for t in tasks])
