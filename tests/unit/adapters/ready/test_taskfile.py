"""Task files: what is a task, and which line of a file is wrong."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capevolve.adapters.ready.taskfile import Row, make_tasks, read_task_file
from capevolve.errors import AdapterError
from capevolve.model import Task
from capevolve.spec.ready import TasksSpec


@pytest.fixture
def read(tmp_path):
    """Reads a file's bytes as tasks."""

    def go(data, name="tasks.jsonl", *, needs_target=True, **fields):
        (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return read_task_file(tmp_path, TasksSpec(file=name, **fields), needs_target=needs_target)

    return go


LINE = '{"id": "a", "input": "q", "target": "x"}'


def test_default_fields_of_jsonl(read):
    assert read(f"{LINE}\n\n  \n") == [Task("a", "q", "x")]


def test_named_fields_keep_their_json(read):
    line = '{"no": 7, "question": {"a": [1]}, "answer": 2.5, "family": "f", "level": 3, "other": 1}'
    tasks = read(line, id="no", input="question", target="answer", metadata=["family", "level"])
    assert tasks == [Task("7", {"a": [1]}, 2.5, {"family": "f", "level": 3})]


def test_csv_has_texts_and_may_have_a_bom_quotes_and_line_breaks(read):
    data = '\ufeffid, input,target,family\r\na,"q, ""1""\nnext",x,f\r\n\r\nb,r,y,g\r\n'
    tasks = read(data, "tasks.csv", metadata=["family"])
    assert tasks == [
        Task("a", 'q, "1"\nnext', "x", {"family": "f"}),
        Task("b", "r", "y", {"family": "g"}),
    ]


def test_a_bom_before_jsonl_is_no_part_of_it(read):
    assert read("\ufeff" + LINE) == [Task("a", "q", "x")]


def test_a_list_of_fields_makes_an_object(read):
    tasks = read("id,a,b,target\nx,1,2,y\n", "tasks.csv", input=["a", "b"])
    assert tasks[0].input == {"a": "1", "b": "2"}


def test_tasks_without_ids_get_stable_ones_from_their_content(read):
    lines = ['{"input": "q", "target": "x"}', '{"input": "r", "target": "x"}']
    ids = [task.id for task in read("\n".join(lines))]
    assert ids == [task.id for task in read("\n".join(reversed(lines)))][::-1]
    assert all(re.fullmatch("task-[0-9a-f]{12}", task_id) for task_id in ids)
    assert len(set(ids)) == 2
    assert read('{"target": "y", "input": "q"}')[0].id != ids[0]
    assert read('{"target": "x", "input": "q", "note": 1}')[0].id == ids[0]


def test_a_line_separator_inside_a_text_ends_no_line(read):
    assert read('{"id": "a", "input": "p\u2028q", "target": "x"}')[0].input == "p\u2028q"


@pytest.mark.parametrize(
    ("data", "name", "fields", "problem"),
    [
        ("", "tasks.jsonl", {}, "no tasks"),
        ("\n \n", "tasks.jsonl", {}, "no tasks"),
        ("id,input,target\n", "tasks.csv", {}, "no tasks"),
        (f'{LINE}\n{{"id": "b",', "tasks.jsonl", {}, "line 2 of tasks.jsonl is not JSON"),
        (f"{LINE}\n\n[1]", "tasks.jsonl", {}, "line 3 of tasks.jsonl is a list, not an object"),
        (LINE.replace('"q"', "NaN"), "tasks.jsonl", {}, "line 1 of tasks.jsonl is not JSON: NaN"),
        (LINE.replace('"q"', "-Infinity"), "tasks.jsonl", {}, "-Infinity"),
        (LINE.replace('"q"', "1e999"), "tasks.jsonl", {}, "line 1 of tasks.jsonl is not JSON"),
        (LINE.replace('"q"', r'"\ud800"'), "tasks.jsonl", {}, "half a character"),
        (LINE.replace('"q"', "[" * 100_000), "tasks.jsonl", {}, "line 1 of tasks.jsonl is not JSON"),
        (LINE.replace('"id"', '"input"'), "tasks.jsonl", {}, "a key is given twice"),
        (LINE.encode() + b"\n\xff", "tasks.jsonl", {}, "line 2 of tasks.jsonl is not UTF-8"),
        (f"{LINE}\n{LINE}", "tasks.jsonl", {}, "line 2 of tasks.jsonl has the same id as line 1: 'a'"),
        ('{"input": 1, "target": 2}\n' * 2, "tasks.jsonl", {}, "line 2 .* the same task as line 1"),
        (f'{LINE}\n{{"input": "r", "target": "y"}}', "tasks.jsonl", {}, "line 2 .* no field 'id'"),
        (LINE, "tasks.jsonl", {"id": "no"}, "line 1 .* no field 'no', which is to be the id"),
        (LINE, "tasks.jsonl", {"input": "question"}, r"no field 'question'.*there: 'id', 'input', 'target'"),
        (LINE, "tasks.jsonl", {"input": ["input", "p"]}, "no field 'p'"),
        (LINE, "tasks.jsonl", {"target": "answer"}, "no field 'answer', which is to be the target"),
        (LINE, "tasks.jsonl", {"metadata": ["family"]}, "no field 'family', which is to be the metadata"),
        (LINE.replace('"a"', "1.5"), "tasks.jsonl", {}, "an id that is not text: 1.5"),
        (LINE.replace('"a"', "true"), "tasks.jsonl", {}, "an id that is not text"),
        (LINE.replace('"a"', '" "'), "tasks.jsonl", {}, "an empty id"),
        (LINE.replace('"a"', r'"a\n"'), "tasks.jsonl", {}, "unprintable"),
        (LINE.replace('"a"', f'"{"i" * 300}"'), "tasks.jsonl", {}, "an id of 300 characters"),
        ("id,input,target\na,b\n", "tasks.csv", {}, "line 2 of tasks.csv has 2 cells, and the header 3"),
        ('id,input,target\na,"b\nc",d\ne,f,g,h\n', "tasks.csv", {}, "line 4 of tasks.csv has 4 cells"),
        ("id,id,target\na,b,c\n", "tasks.csv", {}, "a name twice"),
        ("id,,target\na,b,c\n", "tasks.csv", {}, "an empty name"),
        ('id,input,target\na,"b,c\n', "tasks.csv", {}, "line 2 of tasks.csv is not CSV"),
        ("id,input,answer\na,b,c\n", "tasks.csv", {}, "line 2 .* no field 'target'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(read, data, name, fields, problem):
    with pytest.raises(AdapterError, match=problem) as caught:
        read(data, name, **fields)
    assert caught.value.fix


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(AdapterError, match="cannot be read"):
        read_task_file(tmp_path, TasksSpec(file="tasks.csv"), needs_target=True)


def test_a_target_may_be_missing_where_the_scorer_needs_none(read):
    assert read('{"id": "a", "input": "q"}', needs_target=False) == [Task("a", "q")]
    assert read(LINE, needs_target=False)[0].target == "x"
    assert read(LINE, target=None)[0].target is None


def test_an_id_of_200_characters_is_fine(read):
    assert read(LINE.replace('"a"', f'"{"i" * 200}"'))[0].id == "i" * 200


@given(
    st.lists(st.dictionaries(st.sampled_from(["x", "y"]), st.integers()), unique_by=json.dumps, min_size=1)
)
def test_ids_from_content_are_unique_and_know_no_order(inputs):
    rows = [Row(n, {"input": value, "target": 1}) for n, value in enumerate(inputs)]
    spec = TasksSpec(file="t.jsonl")
    if len({json.dumps(value, sort_keys=True) for value in inputs}) < len(inputs):
        return
    tasks = {task.id: task.input for task in make_tasks(rows, spec, needs_target=True)}
    again = {task.id: task.input for task in make_tasks(rows[::-1], spec, needs_target=True)}
    assert tasks == again
    assert len(tasks) == len(inputs)
