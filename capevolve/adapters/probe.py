"""A stand-in for the user's adapter, loaded in a host by `capevolve check`.

It hands every call through and watches whether a file of the candidate is opened or named to a child process.
A trial with a seed below 0 is a question: the target is not called, the scorer is, on an answer that the
question names.
"""

from __future__ import annotations

import copy
import dis
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

from capevolve.adapters.loader import LoadedAdapter, load_adapter
from capevolve.adapters.trial import start_target
from capevolve.model import Rollout, Score

TARGET_VARIABLE = "CAPEVOLVE_PROBE_TARGET"
READY_VARIABLE = "CAPEVOLVE_PROBE_READY"

REPORT = -1
"""Asks what was seen; the output is `{"used", "reads_seed"}`, the scorer is not called."""

TRUTH = -2
"""Has the task's own target scored, as if it were the answer."""

EMPTY = -3
"""Has an empty answer scored, of the kind of the first answer."""

NONSENSE = -4
"""Has a text scored that answers nothing."""

AGAIN = -10
"""`AGAIN - k` has the rollout of the k-th call scored a second time."""

NONSENSE_ANSWER = "capevolve asks how this is scored"

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
        self._rollouts: list[Any] = []
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
        """One call of the user's target, or what a question has scored."""
        return self._answer(task, seed) if seed < 0 else self._keep(self._call(task, ctx, seed))

    def _call(self, task: Any, ctx: Any, seed: int) -> Any:
        self._rollouts.append(None)
        return start_target(self._adapter.run_target, task, ctx, seed, by_name=self._by_name)

    def _keep(self, rollout: Any) -> Any:
        self._rollouts[-1] = _copy(rollout)
        return rollout

    def _answer(self, task: Any, question: int) -> Any:
        if question == REPORT:
            return _Report(task.id, output={"used": self._watch.used, "reads_seed": self._reads_seed})
        if question <= AGAIN:
            return self._rollouts[AGAIN - question]
        first = getattr(self._rollouts[0], "output", "") if self._rollouts else ""
        answers = {TRUTH: task.target, EMPTY: _empty_like(first), NONSENSE: NONSENSE_ANSWER}
        return Rollout(task.id, output=answers[question])

    def score(self, task: Any, rollout: Any) -> Any:
        """The user's score; none for a report."""
        return Score(task.id) if isinstance(rollout, _Report) else self._adapter.score(task, rollout)


class AsyncProbe(Probe):
    """The same for an `async def run_target`."""

    async def run_target(self, task: Any, ctx: Any, *, seed: int) -> Any:
        """One call of the user's target, or what a question has scored."""
        return self._answer(task, seed) if seed < 0 else self._keep(await self._call(task, ctx, seed))


class HookedProbe(Probe):
    """The same for an adapter whose trials a batch hook runs: it is called with the one task."""

    def __init__(self, loaded: LoadedAdapter) -> None:
        super().__init__(loaded)
        self._hook = loaded.hook
        self._reads_seed = True

    async def run_target(self, task: Any, ctx: Any, *, seed: int) -> Any:
        """One call of the user's hook, or what a question has scored."""
        return self._answer(task, seed) if seed < 0 else self._keep(await self._run_hook(task, ctx, seed))

    async def _run_hook(self, task: Any, ctx: Any, seed: int) -> Any:
        self._rollouts.append(None)
        many = self._hook == "run_trials"
        if many:
            given = self._adapter.run_trials([task], ctx, n_trials=1, base_seed=seed)
        else:
            given = self._adapter.run_batch([task], ctx, seed=seed)
        given = await given if inspect.isawaitable(given) else given
        rollouts = given.get(task.id) if isinstance(given, dict) else given
        if many or not isinstance(given, dict):
            rollouts = rollouts[0] if isinstance(rollouts, list | tuple) and len(rollouts) == 1 else None
        if rollouts is None:
            raise ValueError(f"{self._hook} returned not one rollout of task {task.id!r}")
        return rollouts


class _Report(Rollout):
    """An answer that no scorer sees."""


def _copy(rollout: Any) -> Any:
    """A copy, so that a scorer that changes what it scores changes no later question."""
    try:
        return copy.deepcopy(rollout)
    except Exception:  # noqa: BLE001  (a user's object may refuse in any way)
        return rollout


def _empty_like(value: Any) -> Any:
    return type(value)() if isinstance(value, str | list | dict) else None


def _reads_seed(method: Any) -> bool:
    """False when the method has a parameter `seed` and its code never looks at it."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    if code is None or "seed" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return True
    loads = (step.argval for step in dis.get_instructions(code) if _LOADS_LOCAL.search(step.opname))
    return any("seed" in (names if isinstance(names, tuple) else (names,)) for names in loads)


def make_probe() -> Probe:
    """Loads the user's adapter named in the environment and watches it."""
    # Taken out: what the adapter starts has no use for them.
    target, ready = os.environ.pop(TARGET_VARIABLE), os.environ.pop(READY_VARIABLE, "")
    loaded = load_adapter(Path.cwd(), target, ready=ready)
    if loaded.hook in ("run_trials", "run_batch"):
        return HookedProbe(loaded)
    kind = AsyncProbe if inspect.iscoroutinefunction(loaded.instance.run_target) else Probe
    return kind(loaded)
