"""Lists an adapter's tasks, in a host of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from capevolve.adapters.hostprocess import HostProcess, describe_end
from capevolve.adapters.processes import dismiss_guard, start_guard
from capevolve.adapters.records import AdapterFacts, AdapterRef, ListedTask, TaskListing
from capevolve.adapters.wire import Failed, Listed, Loaded, Message, Open
from capevolve.errors import AdapterError, OutsideError


async def list_tasks(
    adapter: AdapterRef,
    *,
    timeout_s: float,
    env: Mapping[str, str] = MappingProxyType({}),
    python: str = sys.executable,
) -> TaskListing:
    """Returns the tasks of an adapter, having asked it twice to see that they hold still.

    Args:
        adapter: The adapter to load.
        timeout_s: The limit of loading it and of both calls of `tasks` together.
        env: Added to the environment of the host.
        python: The interpreter of the host.

    Raises:
        AdapterError: The adapter cannot be loaded, breaks its contract, is too slow or ends its process; or a
            task is not JSON, has no text id of its own, or differs between the two calls.
        OutsideError: No process can be started.
    """
    root = adapter.root.absolute()
    order = Open(
        root=str(root),
        target=adapter.target,
        candidate_dir=None,
        sync_width=1,
        async_width=1,
        timeout_s=timeout_s,
        grace_s=0.0,
        parent_pid=os.getpid(),
        listing=True,
        ready=adapter.ready,
    )
    reader = _Reader()
    marker = uuid.uuid4().hex
    guard, pipe = start_guard(marker)
    process = HostProcess(f"{marker}.1.", root, env, python, reader)
    try:
        await process.start(order)
        async with asyncio.timeout(timeout_s):
            await reader.over.wait()
        return reader.conclude(adapter, process)
    except TimeoutError:
        raise AdapterError(
            f"the adapter did not list its tasks within {timeout_s:g} s",
            where=adapter.target,
            fix="make tasks('all') quicker: keep the tasks in a file, not behind a download",
        ) from None
    except OSError as error:
        raise OutsideError(f"no process can be started: {error}", where=python) from error
    finally:
        process.destroy()
        dismiss_guard(guard, pipe)


class _Reader:
    """Collects what the host says until the listing is complete or the host is dead."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self._facts: AdapterFacts | None = None
        self._tasks: list[ListedTask] = []
        self._last: Listed | None = None
        self._failed: Failed | None = None
        self._code: int | None = None

    def hear(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, Loaded):
                self._facts = message.facts
            elif isinstance(message, Listed):
                self._tasks += message.tasks
                if message.last:
                    self._last = message
                    self.over.set()
            elif isinstance(message, Failed):
                self._failed = message
                self.over.set()

    def see_end(self, code: int) -> None:
        self._code = code
        self.over.set()

    def conclude(self, adapter: AdapterRef, process: HostProcess) -> TaskListing:
        if self._failed is not None:
            raise AdapterError(self._failed.what, where=self._failed.where, fix=self._failed.fix)
        if self._last is None or self._facts is None:
            end = describe_end(self._code or 0)
            raise AdapterError(
                f"the adapter's process {end} before it had listed its tasks:\n"
                f"{process.tail.strip()[-2000:]}",
                where=adapter.target,
                fix="see what it printed; nothing in an adapter may end its process",
            )
        return TaskListing(tuple(self._tasks), self._last.source, self._facts)
