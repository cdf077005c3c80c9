"""The process of a project's local Prefect server: uvicorn, and a watch that ends it when nobody uses it.

It runs as `python -P -m capevolve_flows.local_server.process STATE_DIR DESCRIPTOR APP`. The watch is a thread
of the same process, so there is one process to stop and none that could outlive it. It needs no signal from
the users: one that was killed with -9 is noticed because its process is gone.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import uvicorn

from capevolve_flows.local_server.record import ServerRecord, read_record, take_lock

WATCH_PERIOD_S = 1.0
GRACE_S = 4
"""How long open connections (a browser with the UI) may hold up the end; then Prefect drains its queues."""

END_LIMIT_S = 18.0
"""The process ends by force when it has not ended by itself after this time."""


def is_unused(record: ServerRecord | None, pid: int) -> bool:
    """Returns True when nobody could miss server `pid`: the record is another's, or no user of it lives."""
    if record is None or record.process.pid != pid:
        return True
    return not record.kept and not record.live_users()


def take_lock_when_unused(state_dir: Path, pid: int) -> bool:
    """Returns True, holding the lock for good, when nobody uses this server.

    The lock is released by the death of the process. Until then nobody can join a server that is ending;
    who waits for the lock finds a dead server and starts another.
    """
    if not is_unused(read_record(state_dir), pid):
        return False
    descriptor = take_lock(state_dir, timeout_s=WATCH_PERIOD_S)
    if descriptor is None:
        return False
    if is_unused(read_record(state_dir), pid):
        return True
    os.close(descriptor)  # someone joined in between
    return False


def is_over(state_dir: Path, pid: int) -> bool:
    """Returns True when this server shall end; not being able to tell is no reason to."""
    try:
        return take_lock_when_unused(state_dir, pid)
    except FileNotFoundError:
        return True  # the state directory is gone: nobody can find this server again
    except OSError:
        return False


def watch(state_dir: Path) -> None:
    """Ends this process once nobody uses it. Never returns."""
    while not is_over(state_dir, os.getpid()):
        time.sleep(WATCH_PERIOD_S)
    os.write(2, b"capevolve: nobody uses this Prefect server any more; it ends.\n")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(END_LIMIT_S)
    os._exit(1)


def serve(app: str, listener: socket.socket) -> None:
    """Serves an ASGI application, named `module:factory`, on a bound socket until SIGTERM."""
    config = uvicorn.Config(
        app,
        factory=True,
        lifespan="on",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run(sockets=[listener])


def main(arguments: list[str]) -> None:
    """Runs the server; `arguments` are the state directory, the socket's descriptor and the application."""
    state_dir, descriptor, app = arguments
    threading.Thread(target=watch, args=(Path(state_dir),), daemon=True, name="watch").start()
    serve(app, socket.socket(fileno=int(descriptor)))


if __name__ == "__main__":
    main(sys.argv[1:])
