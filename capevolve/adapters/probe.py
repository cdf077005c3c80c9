"""A stand-in for the user's adapter, loaded in a host by `capevolve check`.

It hands every call through and watches: whether a file of the candidate is opened or named to a child
process, and whether scoring the same rollout twice gives the same score. What it saw travels in the
rollout's metadata.
"""

from __future__ import annotations

import dis
import inspect
import os
import re
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from capevolve.adapters.loader import LoadedAdapter, load_adapter

TARGET_VARIABLE = "CAPEVOLVE_PROBE_TARGET"
READY_VARIABLE = "CAPEVOLVE_PROBE_READY"
KEY = "capevolve_probe"

# Not LOAD_CONST or LOAD_ATTR: a text "seed" and `random.seed` are other things.
_LOADS_LOCAL = re.compile("LOAD_(FAST|DEREF|CLOSURE|CLASSDEREF)")

_CHILD_EVENTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"})


class _Watch:
    """Sees, from the moment a candidate is live, whether anything of it is used."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.used = False
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or self.used:
            return
        if event == "open" and isinstance(arguments[0], str | bytes):
            self.used = self._holds(os.fsdecode(arguments[0]))
        elif event in _CHILD_EVENTS:
            self.used = self._is_named(arguments)

    def _holds(self, path: str) -> bool:
        """True for a file below the candidate's folder, also by another path to the same place."""
        folder, file = Path(self.folder or ""), Path(path)
        try:
            return folder in file.absolute().parents or folder.resolve() in file.resolve().parents
        except (OSError, RuntimeError, ValueError):  # a loop of links: the user's call will say so
            return False

    def _is_named(self, value: Any) -> bool:
        """True when the candidate's folder occurs anywhere in what a child process is started with."""
        if isinstance(value, dict):
            return any(self._is_named(part) for part in value.items())
        if isinstance(value, list | tuple):
            return any(self._is_named(part) for part in value)
        text = os.fsdecode(value) if isinstance(value, str | bytes | os.PathLike) else ""
        return self.folder is not None and (self.folder in text or str(Path(self.folder).resolve()) in text)


class Probe:
    """The user's adapter, watched. The methods of the contract mean what they mean there."""

    def __init__(self, loaded: LoadedAdapter) -> None:
        self._adapter = loaded.instance
        self._by_name = loaded.seed_by_name
        self._watch = _Watch()
        self._reads_seed = _reads_seed(self._adapter.run_target)

    def tasks(self, split: str) -> Any:
        """The user's tasks."""
        return self._adapter.tasks(split)

    def live(self, candidate_dir: Path) -> Any:
        """The user's `live`, or `apply` where there is no `live`, watched from here on."""
        self._watch.folder = str(candidate_dir)
        if hasattr(self._adapter, "live"):
            return self._adapter.live(candidate_dir)
        apply = getattr(self._adapter, "apply", None)
        if apply is not None:
            apply(candidate_dir)
        return candidate_dir

    def run_target(self, task: Any, ctx: Any, *, seed: int) -> Any:
        """One call of the user's target."""
        return self._call(task, ctx, seed)

    def _call(self, task: Any, ctx: Any, seed: int) -> Any:
        if self._by_name:
            return self._adapter.run_target(task, ctx, seed=seed)
        return self._adapter.run_target(task, ctx, seed)

    async def score(self, task: Any, rollout: Any) -> Any:
        """The user's score, asked twice."""
        first = await _settle(self._adapter.score(task, rollout))
        again = await _settle(self._adapter.score(task, rollout))
        seen = {
            "used": self._watch.used,
            "rewards": [_reward(first), _reward(again)],
            "reads_seed": self._reads_seed,
        }
        metadata = getattr(rollout, "metadata", None)
        rollout.metadata = {**(metadata if isinstance(metadata, dict) else {}), KEY: seen}
        return first


class AsyncProbe(Probe):
    """The same for an `async def run_target`."""

    async def run_target(self, task: Any, ctx: Any, *, seed: int) -> Any:
        """One call of the user's target."""
        return await self._call(task, ctx, seed)


async def _settle(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def _reads_seed(method: Any) -> bool:
    """False when the method has a parameter `seed` and its code never looks at it."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    if code is None or "seed" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return True
    loads = (step.argval for step in dis.get_instructions(code) if _LOADS_LOCAL.search(step.opname))
    return any("seed" in (names if isinstance(names, tuple) else (names,)) for names in loads)


def _reward(score: Any) -> str:
    return repr(getattr(score, "reward", None))


def make_probe() -> Probe:
    """Loads the user's adapter named in the environment and watches it."""
    # Taken out: what the adapter starts has no use for them.
    target, ready = os.environ.pop(TARGET_VARIABLE), os.environ.pop(READY_VARIABLE, "")
    loaded = load_adapter(Path.cwd(), target, ready=ready)
    kind = AsyncProbe if inspect.iscoroutinefunction(loaded.instance.run_target) else Probe
    return kind(loaded)
