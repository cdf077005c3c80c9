"""Puts a ready adapter together in a host, from the sections that travelled there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capevolve.adapters.loader import LoadedAdapter, read_sources_only
from capevolve.adapters.ready.chat import ChatTarget
from capevolve.adapters.ready.command import CommandTarget
from capevolve.adapters.ready.functions import FunctionTarget, check_scorer, load_functions
from capevolve.adapters.ready.scoring import Scorer
from capevolve.adapters.ready.taskfile import read_task_file
from capevolve.canonical import digest
from capevolve.errors import AdapterError
from capevolve.model import Score, Task, task_seed
from capevolve.spec.ready import (
    CommandTargetSpec,
    OpenaiTargetSpec,
    PythonScoring,
    PythonTargetSpec,
    ReadySpec,
)


class ReadyAdapter:
    """Tasks from a file, a plain function as the target, and a scorer."""

    def __init__(self, root: Path, spec: ReadySpec, target: Any, scorer: Scorer) -> None:
        self._root = root
        self._spec = spec
        self._target = target
        self._scorer = scorer

    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of the file, whatever the split: capevolve does the splitting.

        Raises:
            AdapterError: See `read_task_file` and `Scorer.check`.
        """
        tasks = read_task_file(self._root, self._spec.tasks, needs_target=self._scorer.needs_target)
        for task in tasks:
            self._scorer.check(task)
        return tasks

    def live(self, candidate_dir: Path) -> Any:
        """What the target uses of the candidate: its directory."""
        return candidate_dir

    def run_target(self, task: Task, ctx: Any, *, seed: int) -> Any:
        """Runs the target once, with a seed of the task's own."""
        return self._target.run(task, ctx, task_seed(task, seed))

    def score(self, task: Task, rollout: Any) -> Score | Awaitable[Score]:
        """Scores the answer."""
        return self._scorer.score(task, rollout.output)


class AsyncReadyAdapter(ReadyAdapter):
    """The same for a target that waits: a program, a model, an `async def`."""

    async def run_target(self, task: Task, ctx: Any, *, seed: int) -> Any:
        """Runs the target once, with a seed of the task's own."""
        return await self._target.run(task, ctx, task_seed(task, seed))


class ChatAdapter(AsyncReadyAdapter):
    """The same for a model: the candidate's prompts are read, and proved, when it goes live."""

    async def live(self, candidate_dir: Path) -> AsyncIterator[Any]:
        """The candidate's prompts and a client."""
        inputs = [task.input for task in self.tasks("all")]
        async for chat in self._target.live(candidate_dir, inputs):
            yield chat


def load_ready(root: Path, place: str, candidate_dir: Path | None, text: str) -> LoadedAdapter:
    """Makes a ready adapter.

    Args:
        root: The project's directory.
        place: The spec's file, relative to the root.
        candidate_dir: Its modules, like those under the root, are compiled afresh.
        text: The JSON text of a `ReadySpec`.

    Raises:
        AdapterError: A program, package, key or function is missing, or the sections are not valid.
        BaseException: Whatever the user's modules raised while they were imported.
    """
    try:
        spec = ReadySpec.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise AdapterError(f"the sections of the ready adapter are not valid: {key} {first['msg']}") from None
    read_sources_only([root] if candidate_dir is None else [root, candidate_dir])
    target, identity = _make_outside_target(root, spec)
    functions = _load_functions(root, spec)
    if isinstance(spec.target, PythonTargetSpec):
        target = FunctionTarget(spec.target.function, functions[spec.target.function])
    scorer = _make_scorer(spec, functions)
    adapter = _adapter_kind(target)(root, spec, target, scorer)
    sources = tuple(target.sources()) if isinstance(target, CommandTarget) else ()
    return LoadedAdapter(
        instance=adapter,
        file=(root / place).resolve(),
        is_async=target.is_async,
        seed_by_name=True,
        sources=sources,
        settings=digest(identity),
    )


def _make_outside_target(root: Path, spec: ReadySpec) -> tuple[Any, dict[str, Any]]:
    """A target that is no code of the user's in this process, and what identifies the adapter."""
    identity = spec.model_dump(mode="json")
    if isinstance(spec.target, CommandTargetSpec):
        return CommandTarget(root, spec.target), identity
    if isinstance(spec.target, OpenaiTargetSpec):
        chat = ChatTarget(spec.target)
        identity["target"]["base_url"] = chat.address()
        if isinstance(spec.scoring, PythonScoring):
            chat.import_client()
        return chat, identity
    return None, identity


def _load_functions(root: Path, spec: ReadySpec) -> dict[str, Callable[..., Any]]:
    sections = [
        part for part in (spec.target, spec.scoring) if isinstance(part, PythonTargetSpec | PythonScoring)
    ]
    return load_functions(root, [part.function for part in sections])


def _make_scorer(spec: ReadySpec, functions: dict[str, Callable[..., Any]]) -> Scorer:
    if not isinstance(spec.scoring, PythonScoring):
        return Scorer(spec.scoring)
    name = spec.scoring.function
    check_scorer(name, functions[name])
    return Scorer(spec.scoring, functions[name])


def _adapter_kind(target: Any) -> type[ReadyAdapter]:
    if isinstance(target, ChatTarget):
        return ChatAdapter
    return AsyncReadyAdapter if target.is_async else ReadyAdapter
