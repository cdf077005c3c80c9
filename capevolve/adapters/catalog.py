"""Reads an adapter's tasks in a host: who they are, what they hold, whether that is JSON."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from capevolve.adapters.records import ListedTask
from capevolve.canonical import canonical_json, digest_bytes
from capevolve.errors import AdapterError
from capevolve.model import SPLITS

Settle = Callable[[Awaitable[Any]], Any]
"""Runs an awaitable to its end and returns its value."""

_FIX_JSON = "keep plain JSON in a task: text, finite numbers, true, false, null, lists, dicts with text keys"


def read_tasks(adapter: Any, settle: Settle) -> tuple[dict[str, Any], Literal["all", "splits"]]:
    """Returns the adapter's tasks by id, and whether it knows the split `all` or only the three others.

    Raises:
        AdapterError: The adapter lists no tasks, things that are not tasks, or an id twice.
    """
    trouble: Exception | None = None
    everything: dict[str, Any] = {}
    try:
        everything = _ask(adapter, "all", settle)
    except AdapterError:
        raise
    except Exception as error:  # noqa: BLE001  (user code; shown if the three splits do not help)
        trouble = error
    if everything:
        return everything, "all"
    union = _read_union(adapter, settle, trouble)
    if not union:
        raise AdapterError(
            "the adapter lists no tasks", where="tasks('all')", fix="return a list of Task"
        ) from trouble
    return union, "splits"


def _read_union(adapter: Any, settle: Settle, trouble: Exception | None) -> dict[str, Any]:
    union: dict[str, Any] = {}
    for split in SPLITS:
        try:
            tasks = _ask(adapter, split, settle)
        except Exception as error:
            if trouble is None or isinstance(error, AdapterError):
                raise
            raise trouble from None
        for task_id, task in tasks.items():
            other = union.setdefault(task_id, task)
            if other is not task and describe_task(other).digest != describe_task(task).digest:
                raise AdapterError(
                    f"task {task_id!r} has different content in two splits",
                    where=f"tasks({split!r})",
                    fix="give different tasks different ids",
                )
    return union


def _ask(adapter: Any, split: str, settle: Settle) -> dict[str, Any]:
    answer = adapter.tasks(split)
    if isinstance(answer, Awaitable):
        answer = settle(answer)
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes | dict):
        raise AdapterError(
            f"tasks({split!r}) returned {_name(answer)}, not a list of Task", fix="return a list of Task"
        )
    return _by_id(list(answer), split)


def _by_id(tasks: list[Any], split: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, task in enumerate(tasks):
        where = f"tasks({split!r})[{place}]"
        if not hasattr(task, "id") or not hasattr(task, "input"):
            raise AdapterError(f"{where} is {_name(task)}, not a Task", fix="return Task objects")
        task_id = task.id
        if not isinstance(task_id, str) or not task_id:
            raise AdapterError(
                f"the id of {where} is {task_id!r}, not text", fix="give every task a text id of its own"
            )
        _check_text(task_id, where, "id")
        if task_id in found:
            raise AdapterError(
                f"two tasks have the id {task_id!r}", where=where, fix="give every task an id of its own"
            )
        found[task_id] = task
    return found


def describe_task(task: Any) -> ListedTask:
    """Returns a task's content, digest and cluster.

    Raises:
        AdapterError: The content is not JSON; the message says which part.
    """
    metadata = getattr(task, "metadata", None)
    content = {
        "input": task.input,
        "target": getattr(task, "target", None),
        "metadata": {} if metadata is None else metadata,
    }
    name = f"task {task.id!r}"
    try:
        for field, value in content.items():
            _check_json(value, name, field)
        text = canonical_json(content)
    except RecursionError:
        raise AdapterError(f"{name} is nested too deeply to be JSON", fix=_FIX_JSON) from None
    if not isinstance(content["metadata"], dict):
        raise AdapterError(f"the metadata of {name} is {_name(metadata)}, not a dict", fix=_FIX_JSON)
    cluster = _read_cluster(content["metadata"], name)
    return ListedTask(task.id, digest_bytes(text.encode("utf-8")), text, cluster)


def _read_cluster(metadata: dict[str, Any], name: str) -> str | None:
    cluster = metadata.get("cluster")
    if cluster is None or isinstance(cluster, str):
        return cluster
    if isinstance(cluster, int) and not isinstance(cluster, bool):
        return str(cluster)
    raise AdapterError(f"the cluster of {name} is {_name(cluster)}, not text", fix="name the cluster by text")


def _check_json(value: Any, name: str, path: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise AdapterError(f"{name}: {path} has the key {key!r}, which is not text", fix=_FIX_JSON)
            _check_text(key, name, path)
            _check_json(item, name, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            _check_json(item, name, f"{path}[{place}]")
    elif isinstance(value, str):
        _check_text(value, name, path)
    else:
        _check_plain(value, name, path)


def _check_plain(value: Any, name: str, path: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int) and value.bit_length() <= 10_000:
        return
    if isinstance(value, float):
        if math.isfinite(value):
            return
        raise AdapterError(f"{name}: {path} is {value}, which is not JSON", fix=_FIX_JSON)
    what = "an endless integer" if isinstance(value, int) else _name(value)
    raise AdapterError(f"{name}: {path} is {what}, which is not JSON", fix=_FIX_JSON)


def _check_text(text: str, name: str, path: str) -> None:
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise AdapterError(
            f"{name}: {path} has a lone surrogate, which is not text", fix="read the source as UTF-8"
        ) from None


def _name(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
