"""Users' functions, named as `module:function`: found, and called with what they ask for."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from capevolve.adapters.loader import import_named, open_root
from capevolve.errors import AdapterError
from capevolve.model import Rollout, Task


def load_functions(root: Path, names: list[str]) -> dict[str, Callable[..., Any]]:
    """Imports functions from beside the spec.

    Raises:
        AdapterError: There is no such module or function.
        BaseException: Whatever the user's code raised while it was imported.
    """
    if not names:
        return {}
    open_root(root)
    return {name: _load(root, name) for name in names}


def _load(root: Path, name: str) -> Callable[..., Any]:
    place, _, attribute = name.partition(":")
    module = import_named(root, place)
    function = getattr(module, attribute, None)
    if not callable(function):
        raise AdapterError(
            f"there is no function {attribute!r} in {place}",
            where=module.__file__,
            fix="name a function of it",
        )
    return function  # type: ignore[no-any-return]


class FunctionTarget:
    """Runs a user's function as the target."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_task = _first_parameter(name, function) == "task"
        self.is_async = inspect.iscoroutinefunction(function)

    def run(self, task: Task, candidate_dir: Path, seed: int) -> Any:
        """Calls the function; what it returns is the output, unless it is a `Rollout`.

        Awaitable when the function is `async def`.
        """
        value = self._function(self._first(task), candidate_dir, seed)
        return _settle(task.id, value) if inspect.isawaitable(value) else read_rollout(task.id, value)

    def _first(self, task: Task) -> Any:
        return Task(task.id, task.input, None, task.metadata) if self._takes_task else task.input


async def _settle(task_id: str, value: Awaitable[Any]) -> Any:
    return read_rollout(task_id, await value)


def read_rollout(task_id: str, value: Any) -> Any:
    """Returns what a function returned as a rollout."""
    return value if hasattr(value, "output") and hasattr(value, "task_id") else Rollout(task_id, output=value)


def _first_parameter(name: str, function: Callable[..., Any]) -> str:
    try:
        parameters = list(inspect.signature(function).parameters.values())
        inspect.signature(function).bind(None, None, None)
    except ValueError:
        return ""  # a built-in has no signature to read
    except TypeError:
        raise AdapterError(
            f"{name} cannot be called with three arguments",
            where=inspect.getsourcefile(function),
            fix="write `def answer(input, candidate_dir, seed)`",
        ) from None
    return parameters[0].name


def check_scorer(name: str, function: Callable[..., Any]) -> None:
    """Refuses a scorer that does not take a task and an answer.

    Raises:
        AdapterError: It does not.
    """
    try:
        inspect.signature(function).bind(None, None)
    except ValueError:
        return
    except TypeError:
        raise AdapterError(
            f"{name} cannot be called with two arguments",
            where=inspect.getsourcefile(function),
            fix="write `def score(task, answer)`",
        ) from None
