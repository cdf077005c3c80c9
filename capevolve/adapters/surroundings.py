"""What a trial shares with the next one in the same host, and how it is put right in between."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from capevolve.adapters.channel import die, move_high

_PR_SET_PDEATHSIG = 1
_CLONE_FS = 0x200


class Surroundings:
    """The working directory, the standard streams and the global random generators of a host.

    Args:
        home: The working directory in which every trial starts.

    Attributes:
        alone: True when trials run one at a time. Only then can everything be put right; otherwise a
            neighbour may be using what was changed.
    """

    def __init__(self, home: Path) -> None:
        self._home = str(home)
        self.alone = False
        self._random = random.Random()
        self._saved = {fd: (move_high(fd), _identify(fd)) for fd in (1, 2)}
        self._streams = (sys.stdout, sys.stderr)
        self._spare: list[Any] = []

    @property
    def output(self) -> int:
        """A descriptor of the host's output that user code does not know."""
        return self._saved[2][0]

    def restore(self) -> None:
        """Puts right what a trial may have changed."""
        with contextlib.suppress(OSError):
            os.chdir(self._home)
        for fd, (saved, identity) in self._saved.items():
            now = _identify(fd)
            if now is None or (self.alone and now != identity):
                os.dup2(saved, fd)
        self._restore_streams()
        if self.alone:
            # A trial that seeded a global generator must decide nothing about the next one. Fresh
            # entropy, not the trial's seed: two hosts must never draw the same "unique" names.
            random.seed(self._random.getrandbits(64))
            reseed = getattr(sys.modules.get("numpy.random"), "seed", None)
            if reseed is not None:
                reseed(self._random.getrandbits(32))

    def _restore_streams(self) -> None:
        out, err = self._streams
        if out.closed or err.closed:
            self._spare += [out, err]  # collecting the old object would close the descriptor again
            out = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            err = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            self._streams = (out, err)
            sys.stdout, sys.stderr = out, err
        elif self.alone:
            sys.stdout, sys.stderr = out, err


def _identify(fd: int) -> tuple[int, int] | None:
    try:
        state = os.fstat(fd)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def explain_deaths(output: int) -> None:
    """Writes the stack of every thread to the output on a fatal signal, and on SIGUSR2 even in a C call."""
    faulthandler.enable(output)
    faulthandler.register(signal.SIGUSR2, file=output, all_threads=True)


def die_with(parent_pid: int) -> None:
    """Makes the kernel kill this process when its parent dies, where the kernel can (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Not `!= parent_pid`: an interpreter may be a wrapper script that stays in between.
    if os.getppid() == 1 and parent_pid != 1:
        die()


def own_working_directory() -> None:
    """Gives the calling thread a working directory of its own, where the kernel can (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).unshare(_CLONE_FS)
