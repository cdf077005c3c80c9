"""A host's end of the channel, and the queue of what it was asked to run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import NoReturn

from capevolve.adapters.records import TrialRequest
from capevolve.adapters.wire import Close, Decoder, Message, Recall, Returned, Run, encode

_READ = 1 << 18


class Channel:
    """Sends and receives messages on a descriptor that user code is unlikely to close.

    Args:
        fd: The descriptor that the pool passed; it is closed after being moved out of the way.
    """

    def __init__(self, fd: int) -> None:
        self._fd = move_high(fd)
        os.close(fd)
        self._decoder = Decoder()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._abandon)

    def send(self, message: Message) -> None:
        """Sends a message whole; ends the process when nobody listens any more."""
        data = encode(message)
        with self._lock:
            if self._fd < 0:
                os._exit(1)  # a fork of the host ran on into the host's own code
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except (BrokenPipeError, ConnectionResetError):
                die()

    def receive(self) -> list[Message] | None:
        """Waits for bytes and returns the messages they complete; None at the end of the channel."""
        try:
            data = os.read(self._fd, _READ)
        except ConnectionResetError:
            return None
        return self._decoder.feed(data) if data else None

    def _abandon(self) -> None:
        """A fork must not keep the channel open, nor speak on it."""
        fd, self._fd = self._fd, -1
        self._lock = threading.Lock()
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


class Inbox:
    """Requests that have not started."""

    def __init__(self) -> None:
        self._waiting: deque[TrialRequest] = deque()
        self._change = threading.Condition()
        self._closing = False
        self.on_change: Callable[[], object] | None = None
        """Called from the reader's thread after every change."""

    @property
    def closing(self) -> bool:
        """True when nothing more may start."""
        return self._closing

    def put(self, requests: Iterable[TrialRequest]) -> None:
        """Appends requests."""
        with self._change:
            self._waiting.extend(requests)
            self._change.notify_all()
        self._tell()

    def take(self, *, wait: bool) -> TrialRequest | None:
        """Removes and returns the next request; None when there is none, or when the host is closing."""
        with self._change:
            while wait and not self._waiting and not self._closing:
                self._change.wait()
            if self._closing or not self._waiting:
                return None
            return self._waiting.popleft()

    def take_call(self, most: int, *, wait: bool) -> list[TrialRequest]:
        """Removes and returns the next request with those of its call behind it; [] where `take` has None."""
        with self._change:
            first = self.take(wait=wait)
            taken = [] if first is None else [first]
            while first and self._waiting and len(taken) < most and self._waiting[0].call == first.call:
                taken.append(self._waiting.popleft())
            return taken

    def recall(self) -> tuple[int, ...]:
        """Removes all requests and returns their keys."""
        with self._change:
            keys = tuple(request.key for request in self._waiting)
            self._waiting.clear()
            return keys

    def close(self) -> None:
        """Lets nothing more start."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._tell()

    def wait_closing(self, seconds: float) -> bool:
        """Waits at most so long for the close, and returns whether it came."""
        with self._change:
            return self._change.wait_for(lambda: self._closing, seconds)

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()


def listen(channel: Channel, inbox: Inbox) -> None:
    """Reads the channel until it ends, in a thread of its own; the end of the channel ends the host."""
    while (messages := channel.receive()) is not None:
        for message in messages:
            if isinstance(message, Run):
                inbox.put(message.requests)
            elif isinstance(message, Recall):
                channel.send(Returned(inbox.recall()))
            elif isinstance(message, Close):
                inbox.close()
    die()


def move_high(fd: int) -> int:
    """Returns a close-on-exec copy of a descriptor, out of the way of code that closes low numbers."""
    for lowest in (900, 200, 3):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue
    raise OSError(f"descriptor {fd} cannot be copied")


def die() -> NoReturn:
    """Kills this host and its process group at once."""
    with contextlib.suppress(OSError):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
