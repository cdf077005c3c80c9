"""A host as the driver sees it: a process, a channel, and the tail of what it printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import capevolve
from capevolve.adapters.guard import HOST_VARIABLE
from capevolve.adapters.processes import kill_tree, reap
from capevolve.adapters.wire import Decoder, Message, WireError, encode

TAIL_BYTES = 16_384
"""How much of a host's output is kept."""

_SOURCE = str(Path(capevolve.__file__).resolve().parent.parent)
_START = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from capevolve.adapters.host import main; sys.path.pop(0); main(int(sys.argv[1]))"
)
_LAST_WORDS_S = 0.5
_ALONE_S = 0.3
# Not the loop's executor: a full one would hold up a kill.
_KILLERS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="capevolve-kill")


class Listener(Protocol):
    """Who is told what a host says and that it ended. Called on the event loop, one call at a time."""

    def hear(self, messages: Sequence[Message]) -> None:
        """Takes messages of the host, in order."""

    def see_end(self, code: int) -> None:
        """Takes the exit code (negative: the signal): the host is dead and so is all that it started."""


class HostProcess(asyncio.Protocol):
    """Starts a host and speaks with it.

    Args:
        marker: The value of `CAPEVOLVE_HOST` in it, unique to it.
        root: Its working directory.
        env: Added to the driver's environment.
        python: The interpreter.
    """

    def __init__(
        self, marker: str, root: Path, env: Mapping[str, str], python: str, listener: Listener
    ) -> None:
        self._marker = marker
        self._root = root
        self._env = env
        self._python = python
        self._listener = listener
        self._decoder = Decoder()
        self._tail = bytearray()
        self._dropped = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._ours: socket.socket | None = None
        self._output = -1
        self._pidfd = -1
        self._hung_up = asyncio.Event()
        self._ended = asyncio.Event()
        self._gone = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._reaping = threading.Lock()
        self._broken = False

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process else 0

    @property
    def tail(self) -> str:
        """The last 16 KB that the host and its children printed, after a mark where that is not all."""
        self._drain()
        mark = f"[truncated: {self._dropped} bytes before this]\n" if self._dropped else ""
        return mark + bytes(self._tail).decode("utf-8", "replace")

    async def start(self, order: Message) -> None:
        """Starts the process and sends it its order.

        Raises:
            OSError: The process cannot be started.
        """
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self._output = reading
        try:
            self._process = subprocess.Popen(
                [self._python, "-P", "-c", _START, str(theirs.fileno()), _SOURCE],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                cwd=self._root,
                env=self._environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            self._close_output()
            raise
        finally:
            theirs.close()
            os.close(writing)
        ours.setblocking(False)
        self._ours = ours
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._drain)
        self._watch_exit(loop)
        self._watch = loop.create_task(self._attend_end())
        await loop.create_unix_connection(lambda: self, sock=ours)
        self.send(order)

    def send(self, message: Message) -> None:
        """Sends a message; one to a host that hung up is lost, as its end will tell."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def kill(self) -> None:
        """Has the whole tree killed in a thread; `see_end` tells when that is done."""
        if self._process is not None and not self._ended.is_set():
            _KILLERS.submit(self._kill_unreaped)

    async def wait_gone(self) -> None:
        """Waits until the host and all that it started are dead."""
        if self._process is not None:
            await self._gone.wait()

    def destroy(self) -> None:
        """Kills the whole tree at once and lets go of everything; blocks for some milliseconds."""
        process = self._process
        if process is not None and not self._gone.is_set():
            self._kill_unreaped()
            self._reap(2.0)
        self._release()
        if self._watch is not None:
            self._watch.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: D102
        if self._broken:
            return
        messages: Sequence[Message]
        try:
            messages = self._decoder.feed(data)
        except WireError as error:
            self._broken = True
            self._tail += f"\n[capevolve: the channel is broken: {error}]\n".encode()
            self.kill()
            messages = error.before
        if messages:
            self._listener.hear(messages)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._hear_last_words()
        self._hung_up.set()

    def _hear_last_words(self) -> None:
        """Reads what a dead host still said: asyncio drops it when a write to that host fails first."""
        while self._ours is not None:
            try:
                data = self._ours.recv(65_536)
            except OSError:
                break
            if not data:
                break
            self.data_received(data)

    def _environment(self) -> dict[str, str]:
        own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", HOST_VARIABLE: self._marker}
        return {**os.environ, **self._env, **own}

    def _watch_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Learns of the exit without reaping: until then the group's id belongs to nobody else."""
        assert self._process is not None
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            threading.Thread(target=_wait_apart, args=(self._process, loop, self._ended), daemon=True).start()
        else:
            loop.add_reader(self._pidfd, self._see_exit)

    def _see_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._ended.set()

    async def _attend_end(self) -> None:
        """Sees to it that the end is told once, after the last words and when everything is dead."""
        ended = asyncio.ensure_future(self._ended.wait())
        hung_up = asyncio.ensure_future(self._hung_up.wait())
        try:
            await asyncio.wait({ended, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if not self._ended.is_set():
                await asyncio.wait(
                    {ended}, timeout=_ALONE_S
                )  # it closed the channel: it should be about to end
                self.kill()
                await ended
            await asyncio.wait({hung_up}, timeout=_LAST_WORDS_S)  # a fork may hold the channel open
            await asyncio.wrap_future(_KILLERS.submit(self._kill_unreaped))
        finally:
            ended.cancel()
            hung_up.cancel()
        code = self._reap(1.0)
        self._drain()
        self._release()
        self._gone.set()
        self._listener.see_end(code)

    def _kill_unreaped(self) -> None:
        # Once reaped, the process id may belong to somebody else.
        with self._reaping:
            if self._process is not None and self._process.returncode is None:
                kill_tree(self._process.pid, self._marker)

    def _reap(self, seconds: float) -> int:
        assert self._process is not None
        with self._reaping:
            reap(self._process, seconds)
        code = self._process.returncode
        return -signal.SIGKILL if code is None else code

    def _drain(self) -> None:
        """Reads what was printed, keeping the end; bounded, so that a flood does not hold the loop."""
        for _ in range(16):
            if self._output < 0:
                return
            try:
                data = os.read(self._output, 65_536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._close_output()
                return
            self._tail += data
            if len(self._tail) > TAIL_BYTES:
                self._dropped += len(self._tail) - TAIL_BYTES
                del self._tail[:-TAIL_BYTES]

    def _release(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._close_output()
        if self._pidfd >= 0:
            _forget(self._pidfd)
            self._pidfd = -1

    def _close_output(self) -> None:
        if self._output >= 0:
            _forget(self._output)
            self._output = -1


def describe_end(code: int) -> str:
    """Returns `exited with code 1` or `killed by SIGABRT`."""
    if code >= 0:
        return f"exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def _forget(fd: int) -> None:
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop().remove_reader(fd)
    with contextlib.suppress(OSError):
        os.close(fd)


def _wait_apart(
    process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, ended: asyncio.Event
) -> None:
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(ended.set)
