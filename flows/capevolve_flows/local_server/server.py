"""Start, join, wait for and leave the local server of a state directory."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType

import psutil

from capevolve.errors import OutsideError, UserError
from capevolve_flows.local_server.child import answers, end, is_running, read_tail, spawn
from capevolve_flows.local_server.record import (
    ServerRecord,
    ServerUser,
    locked,
    mark_process,
    read_record,
    remove_record,
    write_record,
)
from capevolve_flows.local_server.settings import HOST, client_settings

PREFECT_APP = "capevolve_flows.local_server.app:create_app"
START_LIMIT_S = 120.0
HEALTH_PERIOD_S = 0.05
FLUSH_LIMIT_S = 5.0
PATIENCE_S = 10.0
"""How long a server past its start may take to answer before it counts as hung."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A healthy local server and one use of it.

    Attributes:
        started_here: This use started the process; False when it joined a running one.
        home: Its PREFECT_HOME, `<state_dir>/prefect`.
        token: Names this use in the record; empty when the server was only looked up.
    """

    api_url: str
    ui_url: str
    pid: int
    started_here: bool
    home: Path
    token: str = ""

    def environment(self) -> dict[str, str]:
        """Returns what to set before the first import of Prefect, in this process and its children."""
        return client_settings(self.api_url, self.home, os.environ)


class Stopped(StrEnum):
    """What `stop_kept_server` did."""

    NOTHING = "nothing"
    STOPPED = "stopped"
    IN_USE = "in use"


class StartingServer:
    """A server whose process runs and that may not answer yet; made by `start_local_server`."""

    def __init__(self, state_dir: Path, log_path: Path, record: ServerRecord, server: LocalServer) -> None:
        self._state_dir = state_dir
        self._log_path = log_path
        self._record = record
        self._server = server

    def environment(self) -> dict[str, str]:
        """Returns what to set before the first import of Prefect; known before the server answers."""
        return self._server.environment()

    def wait(self, timeout_s: float = START_LIMIT_S) -> LocalServer:
        """Waits until the server is healthy.

        Raises:
            OutsideError: Its process ended, or it does not answer after `timeout_s` seconds; the message
                holds the end of its log. The use is over then.
        """
        deadline = time.monotonic() + timeout_s
        while not answers(self._record.port, timeout_s=2.0):
            if not is_running(self._record.process):
                raise self._failure("The local Prefect server ended while it started.")
            if time.monotonic() >= deadline:
                raise self._failure(f"The local Prefect server does not answer after {timeout_s:g} s.")
            time.sleep(HEALTH_PERIOD_S)
        return self._server

    def stop(self) -> None:
        """Ends this use; the last one stops the server, unless it is kept. A second call does nothing."""
        _leave(self._state_dir, self._server.token)

    def _failure(self, what: str) -> OutsideError:
        tail = read_tail(self._log_path)
        _leave(self._state_dir, self._server.token, release=self._server.started_here)
        return OutsideError(
            f"{what} Its last words:\n{tail}" if tail else what,
            where=str(self._log_path),
            fix="Run it again, or set PREFECT_API_URL to a server of your own.",
        )


def start_local_server(
    state_dir: Path, *, log_path: Path | None = None, keep: bool = False, app: str = PREFECT_APP
) -> StartingServer:
    """Starts the server of a state directory, or joins the one that runs, and returns at once.

    A record whose process is gone is cleaned. A server whose users are all dead is joined, and stopped by
    its last user like any other; one that nobody uses and that does not answer is replaced.

    Args:
        state_dir: The project's `.capevolve`; made if missing.
        log_path: Where the server's output goes; `<state_dir>/logs/prefect-server.log` by default.
        keep: The server stays when its last user leaves, also one that was started without.
        app: The ASGI application as `module:factory`; for tests.

    Raises:
        UserError: The state directory cannot be used.
        OutsideError: Another process has held the lock for 30 s.
    """
    state_dir = state_dir.resolve()
    home = state_dir / "prefect"
    log_path = log_path or state_dir / "logs" / "prefect-server.log"
    user = _make_user()
    try:
        for folder in (home, log_path.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(state_dir):
            old = _find_usable(state_dir)
            base = old or spawn(state_dir, home, log_path, app)
            record = base.model_copy(update={"users": (*base.live_users(), user), "kept": base.kept or keep})
            write_record(state_dir, record)
    except OSError as error:
        raise UserError(
            f"The local Prefect server cannot be started: {error}.",
            where=str(state_dir),
            fix="Make the folder writable, or set PREFECT_API_URL to a server of your own.",
        ) from error
    return StartingServer(state_dir, log_path, record, _describe(record, user.token, old is None))


@contextlib.contextmanager
def local_server(
    state_dir: Path,
    *,
    keep: bool = False,
    log_path: Path | None = None,
    timeout_s: float = START_LIMIT_S,
    app: str = PREFECT_APP,
) -> Iterator[LocalServer]:
    """Yields a healthy local server and ends its use however the block is left.

    SIGTERM and SIGHUP end Python without unwinding it. In here, in the main thread and unless the program
    handles them itself, they raise `SystemExit(128 + signal)` instead.
    """
    with exit_on_signals():
        starting = start_local_server(state_dir, log_path=log_path, keep=keep, app=app)
        try:
            yield starting.wait(timeout_s)
        finally:
            starting.stop()


def stop_local_server(server: LocalServer) -> None:
    """Ends one use of a server; the last one stops it, unless it is kept."""
    _leave(server.home.parent, server.token)


def find_kept_server(state_dir: Path) -> LocalServer | None:
    """Returns the kept server of a state directory if it runs and is healthy."""
    record = read_record(state_dir.resolve())
    if record is None or not record.kept or not is_running(record.process):
        return None
    return _describe(record, "", started_here=False) if answers(record.port, PATIENCE_S) else None


def stop_kept_server(state_dir: Path) -> Stopped:
    """Stops a kept server; while others use it, it is only no longer kept, and the last of them stops it."""
    state_dir = state_dir.resolve()
    if read_record(state_dir) is None:
        return Stopped.NOTHING
    with locked(state_dir):
        record = read_record(state_dir)
        if record is None or not is_running(record.process):
            remove_record(state_dir)
            return Stopped.NOTHING
        released = record.model_copy(update={"kept": False})
        return Stopped.STOPPED if _end_if_unused(state_dir, released) else Stopped.IN_USE


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into SystemExit where nothing else handles them; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _make_user() -> ServerUser:
    me = mark_process(os.getpid())
    if me is None:
        raise OutsideError("This process cannot read when it was started.", fix="Is /proc mounted?")
    return ServerUser(process=me, token=uuid.uuid4().hex)


def _describe(record: ServerRecord, token: str, started_here: bool) -> LocalServer:
    root = f"http://{HOST}:{record.port}"
    return LocalServer(f"{root}/api", root, record.process.pid, started_here, record.home, token)


def _find_usable(state_dir: Path) -> ServerRecord | None:
    """Returns the record of a server that can be joined, after ending one that hangs. Under the lock."""
    record = read_record(state_dir)
    if record is None or not is_running(record.process):
        return None
    age_s = time.time() - psutil.Process(record.process.pid).create_time()
    starting = age_s < START_LIMIT_S
    if starting or record.live_users() or answers(record.port, PATIENCE_S):
        return record
    end(record.process)
    return None


def _leave(state_dir: Path, token: str, *, release: bool = False) -> None:
    """Takes one use out of the record and ends the server if it was the last; `release` stops keeping it."""
    seen = read_record(state_dir)
    if seen is None or all(user.token != token for user in seen.users):
        return
    if is_running(seen.process):
        _flush_prefect()
    with locked(state_dir):
        record = read_record(state_dir)
        if record is None or all(user.token != token for user in record.users):
            return
        others = tuple(user for user in record.users if user.token != token)
        left = record.model_copy(update={"users": others, "kept": record.kept and not release})
        _end_if_unused(state_dir, left)


def _flush_prefect() -> None:
    """Sends the events and log lines that Prefect, if this process uses it, has not sent yet."""
    if "prefect" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    def flush() -> None:
        EventsWorker.drain_all(timeout=FLUSH_LIMIT_S)
        APILogWorker.drain_all(timeout=FLUSH_LIMIT_S)

    # In a thread without an event loop `drain_all` waits; in one with a loop it returns something to await.
    flusher = threading.Thread(target=flush, name="flush-prefect")
    flusher.start()
    flusher.join()


def _end_if_unused(state_dir: Path, record: ServerRecord) -> bool:
    """Ends the server if it is neither kept nor used, else writes the record. Under the lock."""
    users = record.live_users()
    if is_running(record.process) and (record.kept or users):
        write_record(state_dir, record.model_copy(update={"users": users}))
        return False
    end(record.process)
    remove_record(state_dir)
    return True
