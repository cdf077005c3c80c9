"""Kills process trees whole: children, their children, and those that tried to get away."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from capevolve.adapters.guard import GOOD_BYE, HOST_VARIABLE

_ROUNDS = 5


def kill_tree(pid: int, marker: str) -> None:
    """Kills a process, its descendants, its process group, and every process that carries the marker.

    Blocks until the last sweep finds nothing more, at most a few rounds.

    Args:
        pid: A process that leads its own group and that its parent has not reaped yet.
        marker: The value of `CAPEVOLVE_HOST` with which it was started.
    """
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(pid).children(recursive=True)
        _kill_group(pid)
        _kill_each(family)
    _kill_group(pid)
    sweep(marker)


def sweep(marker: str) -> int:
    """Kills every process whose environment names a host that begins with the marker.

    An environment outlives `setsid` and a double fork, by which a process leaves its group and its parent.

    Returns:
        How many processes were killed.
    """
    killed = 0
    for _ in range(_ROUNDS):
        found = find_marked(marker)
        if not found:
            break
        _kill_each(found)
        killed += len(found)
        _wait_dead(found, 0.5)
    return killed


def find_marked(marker: str) -> list[psutil.Process]:
    """Returns the living processes whose environment names a host that begins with the marker."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            marked = process.environ().get(HOST_VARIABLE, "").startswith(marker)
            if marked and process.pid != os.getpid() and _is_alive(process):
                found.append(process)
    return found


def ask_for_stacks(pid: int) -> None:
    """Makes a host write the stacks of its threads to its output (see `surroundings.explain_deaths`)."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR2)


def reap(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Waits for a killed child, so that it leaves no zombie; gives up quietly after so many seconds."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def _wait_dead(processes: Iterable[psutil.Process], seconds: float) -> None:
    # Not `psutil.wait_procs`: that reaps our own children, and with them the exit code.
    end = time.monotonic() + seconds
    while any(_is_alive(process) for process in processes) and time.monotonic() < end:
        time.sleep(0.002)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _kill_each(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def start_guard(marker: str) -> tuple[subprocess.Popen[bytes], int]:
    """Starts the guard of a pool, and returns it with the writing end of its pipe."""
    reading, writing = os.pipe()
    try:
        guard = subprocess.Popen(
            [
                sys.executable,
                "-I",
                str(Path(__file__).with_name("guard.py")),
                str(reading),
                marker,
                str(os.getpid()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(reading,),
            start_new_session=True,
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return guard, writing


def dismiss_guard(guard: subprocess.Popen[bytes], pipe: int) -> None:
    """Tells the guard that everything is cleaned up, and waits for its end."""
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, GOOD_BYE)
    os.close(pipe)
    reap(guard, 1.0)
    if guard.returncode is None:
        guard.kill()
        reap(guard, 1.0)
