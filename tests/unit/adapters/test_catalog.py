from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from capevolve.adapters.catalog import describe_task, read_tasks
from capevolve.canonical import digest
from capevolve.errors import AdapterError
from capevolve.model import Task


class _Lister:
    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.tasks = answer


def _read(answer: Callable[[str], Any]) -> tuple[dict[str, Any], str]:
    return read_tasks(_Lister(answer), lambda awaitable: pytest.fail("nothing to await"))


def test_the_digest_is_of_the_content_without_the_id() -> None:
    one = describe_task(Task("a", {"q": "x"}, "y", {"cluster": "c"}))
    two = describe_task(Task("b", {"q": "x"}, "y", {"cluster": "c"}))
    assert (
        one.digest == two.digest == digest({"input": {"q": "x"}, "target": "y", "metadata": {"cluster": "c"}})
    )
    assert (one.input, one.target, one.metadata, one.cluster) == ({"q": "x"}, "y", {"cluster": "c"}, "c")


def test_any_change_of_content_changes_the_digest() -> None:
    tasks = [Task("a", 1), Task("a", 2), Task("a", 1, 1), Task("a", 1, None, {"k": 1}), Task("a", "1")]
    assert len({describe_task(task).digest for task in tasks}) == len(tasks)


def _nest(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task("a", {"x": [1, float("nan")]}), r"task 'a': input\.x\[1\] is nan"),
        (Task("a", None, {1, 2}), "target is a set"),
        (Task("a", None, None, {"when": object()}), r"metadata\.when is an object"),
        (Task("a", {3: "x"}), "key 3"),
        (Task("a", "\ud800"), "lone surrogate"),
        (Task("a", {"\udfff": 1}), "lone surrogate"),
        (Task("a", 10**5000), "endless integer"),
        (Task("a", _nest(5000)), "nested too deeply"),
        (Task("a", None, None, ["x"]), "metadata of task 'a' is a list"),  # type: ignore[arg-type]
        (Task("a", None, None, {"cluster": ["x"]}), "cluster of task 'a' is a list"),
    ],
)
def test_content_that_is_not_json_is_refused_by_place(task: Task, words: str) -> None:
    with pytest.raises(AdapterError, match=words) as caught:
        describe_task(task)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([Task("a"), Task("a")], "two tasks have the id 'a'"),
        ([Task(3)], "is 3, not text"),  # type: ignore[arg-type]
        ([Task("")], "is '', not text"),
        ([Task("x\ud800")], "lone surrogate"),
        ([{"id": "a", "input": 1}], "is a dict, not a Task"),
        ("text", "returned a str, not a list"),
        (7, "returned an int, not a list"),
    ],
)
def test_what_is_no_list_of_tasks_is_refused(answer: Any, words: str) -> None:
    with pytest.raises(AdapterError, match=words):
        _read(lambda split: answer)


def test_an_adapter_that_knows_all_is_asked_for_nothing_else() -> None:
    asked: list[str] = []

    def answer(split: str) -> Sequence[Task]:
        asked.append(split)
        return (Task("a"),)

    assert list(_read(answer)[0]) == ["a"]
    assert asked == ["all"]


@pytest.mark.parametrize("all_raises", [True, False])
def test_without_all_the_three_splits_are_joined(all_raises: bool) -> None:
    shared = {"train": ["a", "b"], "val": ["b", "c"], "test": ["d"]}

    def answer(split: str) -> list[Task]:
        if all_raises:
            return [Task(name) for name in shared[split]]
        return [Task(name) for name in shared.get(split, [])]

    tasks, source = _read(answer)
    assert (sorted(tasks), source) == (["a", "b", "c", "d"], "splits")


def test_one_id_with_two_contents_is_refused() -> None:
    with pytest.raises(AdapterError, match="different content in two splits"):
        _read(lambda split: [] if split == "all" else [Task("a", split)])


def test_no_tasks_at_all_is_an_error_and_shows_what_all_raised() -> None:
    with pytest.raises(AdapterError, match="lists no tasks"):
        _read(lambda split: [])

    def answer(split: str) -> list[Task]:
        raise ValueError(f"cannot read {split}")

    with pytest.raises(ValueError, match="cannot read all"):
        _read(answer)
