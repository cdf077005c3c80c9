"""Named points between durable steps, so that tests can crash or pause a process exactly there.

`CAPEVOLVE_FAILPOINT=name` kills the process with SIGKILL when it reaches that point, `name:3` when it
reaches it the third time. Tests in the same process set `hook` instead. Without either, a point costs one
comparison.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

hook: Callable[[str], None] | None = None
"""Called with the name of every point reached; None outside tests."""

_name, _, _count = os.environ.get("CAPEVOLVE_FAILPOINT", "").partition(":")
_left = int(_count or 1)


def failpoint(name: str) -> None:
    """Marks a point between two durable steps."""
    global _left
    if hook is not None:
        hook(name)
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
