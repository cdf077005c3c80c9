"""The guard: a small process beside a pool that outlives its driver by a moment, to kill what was left.

A host dies with its driver, but what a trial started need not: a daemon in a session of its own, a child of a
host that was killed by the kernel. The guard waits for the end of a pipe that only the driver holds, and
then kills every process that carries the pool's marker. It is run by path and imports nothing until then.
"""

from __future__ import annotations

import os
import select
import sys

HOST_VARIABLE = "CAPEVOLVE_HOST"
"""The environment variable that marks a host and everything it starts."""

GOOD_BYE = b"."
"""What the driver writes when it has cleaned up by itself."""


def watch(pipe: int, marker: str, driver: int) -> None:
    """Waits for the driver to say good-bye or to die; in the latter case kills everything marked.

    Args:
        pipe: The reading end of a pipe that only the driver can write to.
        marker: What the value of `CAPEVOLVE_HOST` begins with.
        driver: The driver's process id.
    """
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while not poll.poll(1000):
        if os.getppid() != driver:  # a fork of the driver may hold the pipe open
            break
    else:
        if os.read(pipe, 1) == GOOD_BYE:
            return
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
    from capevolve.adapters.processes import sweep

    sweep(marker)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
