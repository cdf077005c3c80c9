"""A host: the child process in which a user's adapter is loaded and its trials run.

It lives no longer than the pool that started it: the end of the channel kills its process group, the kernel
kills it when its parent dies, and a guard (see `guard`) kills whatever it leaves behind.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from inspect import isasyncgen, isgenerator
from pathlib import Path
from typing import Any

from capevolve.adapters.batched import serve_batched
from capevolve.adapters.bench import Bench
from capevolve.adapters.catalog import describe_task, read_tasks
from capevolve.adapters.channel import Channel, Inbox, listen
from capevolve.adapters.late import load_late
from capevolve.adapters.loader import LoadedAdapter, describe_adapter, load_adapter
from capevolve.adapters.memory import explain_load, limit_memory
from capevolve.adapters.records import ListedTask
from capevolve.adapters.reply import TrialLimits
from capevolve.adapters.surroundings import Surroundings, die_with, explain_deaths
from capevolve.adapters.threaded import Settler, serve_threaded
from capevolve.adapters.trial import describe_error, place_of_error, tail_of_traceback
from capevolve.adapters.wire import Failed, Listed, Loaded, Open, Ready
from capevolve.errors import AdapterError, CandidateError

_LISTED_AT_ONCE = 2_000_000  # characters of content in one message


def main(fd: int) -> None:
    """Runs a host on the channel `fd` until the pool closes it."""
    channel = Channel(fd)
    order = _receive_order(channel)
    die_with(order.parent_pid)
    inbox = Inbox()
    threading.Thread(target=listen, args=(channel, inbox), daemon=True).start()
    sys.argv = [str(Path(order.root) / order.target.partition(":")[0])]
    try:
        if order.memory_mb is not None:
            limit_memory(order.memory_mb)
        _Host(order, channel, inbox).serve()
    except AdapterError as error:
        channel.send(Failed(error.what, error.where, error.fix, isinstance(error, CandidateError)))


def _receive_order(channel: Channel) -> Open:
    while True:
        messages = channel.receive()
        if messages is None:
            os._exit(1)
        for message in messages:
            if isinstance(message, Open):
                return message


class _Host:
    def __init__(self, order: Open, channel: Channel, inbox: Inbox) -> None:
        self._order = order
        self._channel = channel
        self._inbox = inbox
        self._root = Path(order.root)
        self._settler = Settler()
        self._closers: list[Callable[[], object]] = []

    def serve(self) -> None:
        order = self._order
        surroundings = Surroundings(self._root)
        explain_deaths(surroundings.output)
        candidate = None if order.candidate_dir is None else Path(order.candidate_dir)
        with self._blame("cannot be loaded"):
            loaded = load_adapter(self._root, order.target, candidate, ready=order.ready)
        self._channel.send(Loaded(describe_adapter(loaded, self._root)))
        batches = bool(loaded.hook and order.batch_width)
        width = order.async_width if loaded.is_async else order.sync_width
        width = order.batch_width if batches else width
        surroundings.alone = batches or width == 1
        if order.listing:
            self._list(loaded)
            return
        with self._blame("fails in tasks()"):
            tasks, _ = read_tasks(loaded.instance, self._settler.settle)
        with self._blame("cannot make the candidate live", CandidateError):
            ctx = self._enter_live(loaded.instance, candidate)
        surroundings.restore()
        bench = Bench(
            self._channel,
            self._inbox,
            surroundings,
            loaded,
            tasks,
            ctx,
            width,
            TrialLimits(order.timeout_s, order.memory_mb, order.max_payload),
            order.grace_s,
        )
        self._channel.send(Ready())
        try:
            if batches:
                serve_batched(bench, self._settler)
            elif loaded.is_async:
                eventloop = load_late("capevolve.adapters.eventloop")  # asyncio is slow to import
                eventloop.serve_async(bench, self._settler.runner())
            else:
                serve_threaded(bench, self._settler)
        finally:
            for close in reversed(self._closers):
                close()

    def _list(self, loaded: LoadedAdapter) -> None:
        """Sends the adapter's tasks, read twice to see that they hold still."""
        with self._blame("fails in tasks()"):
            first, source = read_tasks(loaded.instance, self._settler.settle)
            listed = [describe_task(first[task_id]) for task_id in sorted(first)]
            again, _ = read_tasks(loaded.instance, self._settler.settle)
            _compare({task.id: task.digest for task in listed}, again)
        batch: list[ListedTask] = []
        size = 0
        for task in listed:
            batch.append(task)
            size += len(task.content)
            if size > _LISTED_AT_ONCE:
                self._channel.send(Listed(tuple(batch), source, last=False))
                batch, size = [], 0
        self._channel.send(Listed(tuple(batch), source, last=True))

    def _enter_live(self, adapter: Any, candidate: Path | None) -> Any:
        """Makes the candidate live in whatever form the adapter offers, and returns the trials' `ctx`."""
        live = getattr(adapter, "live", None)
        if live is None:
            apply = getattr(adapter, "apply", None)
            if apply is not None:
                self._settle(apply(candidate))
            return candidate
        value = live(candidate)
        if isasyncgen(value):
            ctx = self._settler.settle(anext(value))
            self._closers.append(lambda: self._settler.settle(anext(value, None)))
        elif isgenerator(value):
            ctx = next(value)
            self._closers.append(lambda: next(value, None))
        elif isinstance(value, AbstractContextManager):
            ctx = value.__enter__()
            self._closers.append(lambda: value.__exit__(None, None, None))
        elif isinstance(value, AbstractAsyncContextManager):
            ctx = self._settler.settle(value.__aenter__())
            self._closers.append(lambda: self._settler.settle(value.__aexit__(None, None, None)))
        else:
            ctx = self._settle(value)
        return ctx

    def _settle(self, value: Any) -> Any:
        return self._settler.settle(value) if isinstance(value, Awaitable) else value

    @contextmanager
    def _blame(self, what: str, kind: type[AdapterError] = AdapterError) -> Iterator[None]:
        """Turns whatever user code raises into an `AdapterError` that shows where."""
        target = self._order.target
        try:
            yield
        except AdapterError:
            raise
        except BaseException as error:
            starved = explain_load(error, self._order.memory_mb)
            if starved is not None:
                raise starved from error
            raise kind(
                f"the adapter {target} {what}: {describe_error(error, 'it')}\n{tail_of_traceback(error)}",
                where=place_of_error(error) or str(self._root / target.partition(":")[0]),
                fix="mend the adapter and run again",
            ) from error


def _compare(before: dict[str, str], again: dict[str, Any]) -> None:
    changed = sorted(before.keys() ^ again.keys())
    if not changed:
        changed = [name for name, task in sorted(again.items()) if before[name] != describe_task(task).digest]
    if changed:
        raise AdapterError(
            f"tasks('all') differs from one call to the next: task {changed[0]!r}",
            where="tasks('all')",
            fix="return the same tasks every time: no sampling without a fixed seed, no clock",
        )
