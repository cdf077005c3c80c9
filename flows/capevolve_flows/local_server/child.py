"""The server as a child process: spawn it on a port of its own, ask whether it is well, end it."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from capevolve_flows.local_server.record import ProcessMark, ServerRecord, is_alive, mark_process
from capevolve_flows.local_server.settings import HOST, server_environment

PROCESS_MODULE = "capevolve_flows.local_server.process"
STOP_GRACE_S = 16.0
"""A server with nothing left to record ends in 0.3 s; this covers `GRACE_S` and `DRAIN_LIMIT_S` inside it."""

KILL_WAIT_S = 5.0
LOG_LIMIT_BYTES = 5_000_000
LOG_TAIL_LINES = 20

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Servers started by this process: someone has to reap them."""


def spawn(state_dir: Path, home: Path, log_path: Path, app: str) -> ServerRecord:
    """Starts the process of a server and returns at once; the record has no users yet."""
    rotate(log_path)
    with socket.socket() as listener, log_path.open("ab") as log:
        # Without SO_REUSEADDR the bound port cannot be bound again, also before the process listens on it.
        listener.bind((HOST, 0))
        port = listener.getsockname()[1]
        descriptor = listener.fileno()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", PROCESS_MODULE, str(state_dir), str(descriptor), app],
            cwd=home,
            env=server_environment(port, home, os.environ),
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    mark = mark_process(child.pid) or ProcessMark(pid=child.pid, born=-1.0)  # it has ended already
    return ServerRecord(process=mark, port=port, home=home)


def is_running(server: ProcessMark) -> bool:
    """Returns True when the marked process runs and is a local server of ours."""
    _reap(server.pid)
    if not is_alive(server):
        return False
    with contextlib.suppress(psutil.Error):
        command = psutil.Process(server.pid).cmdline()
        return not command or PROCESS_MODULE in command  # for an instant of its start it has no command line
    return False


def answers(port: int, timeout_s: float) -> bool:
    """Returns True when the server on this port calls itself healthy. Goes through no proxy."""
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_s)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def end(server: ProcessMark) -> None:
    """Ends a server: SIGTERM, SIGKILL after `STOP_GRACE_S`; what is left below it is killed at once."""
    if not is_running(server):
        _reap(server.pid, KILL_WAIT_S)
        return
    tree = [server]
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(server.pid)
        below = [mark_process(child.pid) for child in process.children(recursive=True)]
        tree += [mark for mark in below if mark is not None]
        process.terminate()
    _wait_for_end([server], STOP_GRACE_S)
    for mark in tree:
        if is_alive(mark):
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(mark.pid).kill()
    _wait_for_end(tree, KILL_WAIT_S)


def _wait_for_end(marks: Sequence[ProcessMark], timeout_s: float) -> None:
    """Waits until the processes have ended, at most so long."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for mark in marks:
            _reap(mark.pid)
        if not any(is_alive(mark) for mark in marks):
            for mark in marks:
                # A process that has ended can be reaped only once all of its threads have.
                _reap(mark.pid, max(0.0, deadline - time.monotonic()))
            return
        time.sleep(0.02)


def _reap(pid: int, timeout_s: float = 0.0) -> None:
    child = _children.get(pid)
    if child is None:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout_s)
        _children.pop(pid, None)


def rotate(log_path: Path) -> None:
    """Puts a log that has grown large aside, over the one put aside before."""
    with contextlib.suppress(FileNotFoundError):
        if log_path.stat().st_size > LOG_LIMIT_BYTES:
            log_path.replace(log_path.with_name(f"{log_path.name}.1"))


def read_tail(log_path: Path) -> str:
    """Returns the last lines of the log; empty when there is none."""
    try:
        lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-LOG_TAIL_LINES:])
