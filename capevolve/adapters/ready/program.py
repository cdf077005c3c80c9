"""Runs a program to its end on an event loop: bounded output, and nothing it started outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from capevolve.adapters.guard import HOST_VARIABLE
from capevolve.adapters.processes import kill_tree, reap, sweep

MAX_OUTPUT = 200_000
"""Bytes of standard output that are kept: the first ones."""

TAIL = 4_000
"""Bytes of standard error that are kept: the last ones."""

_LEFT_OPEN_S = 0.3


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that ended.

    Attributes:
        code: The exit code; negative: the signal.
        output: The first `MAX_OUTPUT` bytes of standard output as text.
        size: Bytes of standard output in all.
        errors: The last `TAIL` bytes of standard error as text.
        errors_size: Bytes of standard error in all.
    """

    code: int
    output: str
    size: int
    errors: str
    errors_size: int = 0


class _Collector(asyncio.Protocol):
    """Keeps the first or the last bytes of a stream that may be endless."""

    def __init__(self, *, first: int = 0, last: int = 0) -> None:
        self._first = first
        self._last = last
        self.data = bytearray()
        self.size = 0
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self._last:
            self.data += data
            del self.data[: -self._last]
        elif len(self.data) < self._first:
            self.data += data[: self._first - len(self.data)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


async def run_program(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], data: bytes) -> Ended:
    """Runs a program with `data` on its standard input.

    Cancelled, it kills the program with all that it started. So does the end of the host: the program's
    marker begins with the host's.

    Raises:
        OSError: It cannot be started.
    """
    marker = f"{os.environ.get(HOST_VARIABLE, '')}{uuid.uuid4().hex}."
    with tempfile.TemporaryFile() as given:  # not a pipe: it need not read its input
        given.write(data)
        given.seek(0)
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**env, HOST_VARIABLE: marker},
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    output, errors = _Collector(first=MAX_OUTPUT), _Collector(last=TAIL)
    transports: list[asyncio.BaseTransport] = []
    loop = asyncio.get_running_loop()
    try:
        for collector, pipe in ((output, process.stdout), (errors, process.stderr)):
            transports.append((await loop.connect_read_pipe(partial(_same, collector), pipe))[0])
        await _wait_exit(process.pid)
        await _end_leftovers(process.pid, marker, (output, errors))
    except BaseException:
        await asyncio.shield(asyncio.to_thread(kill_tree, process.pid, marker))
        raise
    finally:
        for transport in transports:
            transport.close()
        reap(process, 1.0)
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    return Ended(code, output.text(), output.size, errors.text(), errors.size)


def _same(collector: _Collector) -> _Collector:
    return collector


async def _wait_exit(pid: int) -> None:
    """Waits for a child's exit without reaping it: until then the group's id belongs to nobody else.

    Not asyncio's own `wait`: that waits for the end of the streams too, which a grandchild may hold open.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def _end_leftovers(leader: int, marker: str, streams: Sequence[_Collector]) -> None:
    """Kills what a program that ended left in its group, and whatever else holds its streams open."""
    await _wait_closed(streams)
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL)
    if not all(stream.closed.is_set() for stream in streams):
        await asyncio.to_thread(sweep, marker)
        await _wait_closed(streams)


async def _wait_closed(streams: Sequence[_Collector]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LEFT_OPEN_S):
            for stream in streams:
                await stream.closed.wait()


def describe_code(code: int) -> str:
    """Returns `exited with code 1` or `was killed by SIGKILL`."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def python_of(name: str) -> str | None:
    """The running interpreter for `python` and `python3`, None for every other name."""
    return sys.executable if name in ("python", "python3") else None
