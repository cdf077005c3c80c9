"""The record of a project's local Prefect server: its process, its port and who uses it.

The record is one JSON file in the state directory. It is changed only under a file lock (`flock`), which
the kernel releases when its holder dies, and it is replaced as a whole, so it can be read without the lock.
A process is named by its id *and* its birth: a process id alone is given to another process sooner or later.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from capevolve.errors import OutsideError

RECORD_NAME = "prefect-server.json"
LOCK_NAME = "prefect-server.lock"

BIRTH_TOLERANCE_S = 0.05
"""Births are kept to 0.01 s and pass through floating point."""


class ProcessMark(BaseModel):
    """One process, distinct from later ones with the same id.

    Attributes:
        pid: The process id.
        born: Seconds at which it was created: since boot on Linux, where a step of the wall clock moves
            the creation time that the kernel reports; since the epoch elsewhere.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    born: float


class ServerUser(BaseModel):
    """One use of the server: a process and a token, as one process may use it twice."""

    model_config = ConfigDict(frozen=True)

    process: ProcessMark
    token: str


class ServerRecord(BaseModel):
    """What is known about the server of a state directory.

    Attributes:
        process: The server's process.
        port: The port on 127.0.0.1 that it listens on.
        home: Its PREFECT_HOME.
        users: Who uses it, oldest first; the first one is its owner. May name dead processes.
        kept: It stays when its last user leaves (`capevolve up`).
    """

    model_config = ConfigDict(frozen=True)

    process: ProcessMark
    port: int
    home: Path
    users: tuple[ServerUser, ...] = ()
    kept: bool = False

    def live_users(self) -> tuple[ServerUser, ...]:
        """Returns the users whose process is alive."""
        return tuple(user for user in self.users if is_alive(user.process))


def mark_process(pid: int) -> ProcessMark | None:
    """Returns the mark of a process, or None when it is gone or has ended and waits to be reaped."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        born = process.create_time() - (psutil.boot_time() if psutil.LINUX else 0.0)
    except psutil.Error:
        return None
    return ProcessMark(pid=pid, born=round(born, 2))


def is_alive(mark: ProcessMark) -> bool:
    """Returns True when the very process that was marked is running."""
    now = mark_process(mark.pid)
    return now is not None and abs(now.born - mark.born) < BIRTH_TOLERANCE_S


def read_record(state_dir: Path) -> ServerRecord | None:
    """Returns the record, or None when there is none or it is damaged: its server then ends by itself.

    Raises:
        OSError: The record is there and cannot be read.
    """
    try:
        return ServerRecord.model_validate_json((state_dir / RECORD_NAME).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def write_record(state_dir: Path, record: ServerRecord) -> None:
    """Replaces the record in one step. The caller holds the lock."""
    fresh = state_dir / f"{RECORD_NAME}.new"
    fresh.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    fresh.replace(state_dir / RECORD_NAME)


def remove_record(state_dir: Path) -> None:
    """Removes the record. The caller holds the lock."""
    (state_dir / RECORD_NAME).unlink(missing_ok=True)


def take_lock(state_dir: Path, timeout_s: float) -> int | None:
    """Takes the lock of the record.

    Returns:
        A descriptor: the lock is held until it is closed or the process dies. None after `timeout_s`.

    Raises:
        OSError: The state directory is gone or cannot be written.
    """
    descriptor = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(0.02)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise


@contextlib.contextmanager
def locked(state_dir: Path, timeout_s: float = 30.0) -> Iterator[None]:
    """Holds the lock of the record.

    Raises:
        OutsideError: Another process held it for `timeout_s`; starts and stops take seconds.
    """
    descriptor = take_lock(state_dir, timeout_s)
    if descriptor is None:
        raise OutsideError(
            f"Another process has been starting or stopping the local Prefect server for {timeout_s:.0f} s.",
            where=str(state_dir / LOCK_NAME),
            fix="Look for a hung `capevolve` process, end it and run the command again.",
        )
    try:
        yield
    finally:
        os.close(descriptor)
