"""A stand-in for the user's adapter, loaded in a host by `capevolve rescore`: stored rollouts for a target.

`run_target` reads back what a trial left; `tasks` and `score` are the user's. The target is never called, and
`live` and `apply` are not either: scoring again must not touch what a target uses.
"""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

from capevolve.adapters.loader import load_adapter
from capevolve.model import Rollout

TARGET_VARIABLE = "CAPEVOLVE_RESCORE_TARGET"
READY_VARIABLE = "CAPEVOLVE_RESCORE_READY"
FOLDER_VARIABLE = "CAPEVOLVE_RESCORE_FOLDER"

MAKER = "capevolve.adapters.rescoring:make_rescorer"
"""The target of the `AdapterRef` of a pool that scores stored rollouts."""


class Rescorer:
    """The user's tasks and score; in the place of the target the rollout that a request's seed names."""

    def __init__(self, adapter: Any, folder: Path) -> None:
        self._folder = folder
        # The bound methods themselves, so that `async def` and `def` are told apart as ever.
        self.tasks = adapter.tasks
        self.score = adapter.score

    def run_target(self, task: Any, ctx: Any, *, seed: int) -> Any:
        """The stored rollout."""
        return read_rollout(self._folder, task.id, seed)


class AsyncRescorer(Rescorer):
    """The same where `run_target` is `async def`: such a scorer may share things of one event loop."""

    async def run_target(self, task: Any, ctx: Any, *, seed: int) -> Any:
        """The stored rollout."""
        return read_rollout(self._folder, task.id, seed)


def write_rollout(folder: Path, number: int, fields: dict[str, Any]) -> None:
    """Lays a rollout ready for the request whose seed is this number."""
    (folder / f"{number}.json").write_text(json.dumps(fields), encoding="utf-8")


def drop_rollout(folder: Path, number: int) -> None:
    """Removes a rollout that was answered for."""
    (folder / f"{number}.json").unlink(missing_ok=True)


def read_rollout(folder: Path, task_id: str, number: int) -> Rollout:
    """The rollout as the scorer gets it."""
    fields = json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))
    return Rollout(task_id=task_id, **fields)


def make_rescorer() -> Rescorer:
    """Loads the user's adapter named in the environment."""
    # Taken out: what the scorer starts has no use for them.
    target, ready = os.environ.pop(TARGET_VARIABLE), os.environ.pop(READY_VARIABLE, "")
    folder = Path(os.environ.pop(FOLDER_VARIABLE))
    loaded = load_adapter(Path.cwd(), target, ready=ready)
    is_async = inspect.iscoroutinefunction(loaded.instance.run_target)
    return (AsyncRescorer if is_async else Rescorer)(loaded.instance, folder)
