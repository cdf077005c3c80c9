"""The limit of a host's address space, and the words for a host or a trial that met it."""

from __future__ import annotations

import resource
from pathlib import Path

from capevolve.errors import AdapterError

_MB = 1 << 20
_ROOM_MB = 32
_SIGNS = (
    "MemoryError",
    "Cannot allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "failed to map segment",
    "can't start new thread",
)


def limit_memory(megabytes: int) -> None:
    """Limits the address space of this process and of what it starts from now on (RLIMIT_AS).

    Raises:
        AdapterError: The limit leaves no room for an adapter beside capevolve itself.
    """
    used = _read_used_mb()
    if used + _ROOM_MB > megabytes:
        raise AdapterError(
            f"evaluation.memory_mb is {megabytes}, and a process takes {used} MB of address space before it "
            "loads an adapter",
            where="evaluation.memory_mb",
            fix=_fix(),
        )
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = megabytes * _MB if hard == resource.RLIM_INFINITY else min(megabytes * _MB, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def over_limit(words: str, megabytes: int | None) -> str:
    """Returns the words, after `over the memory limit of N MB` where they tell of memory that ran out."""
    if megabytes is None or not any(sign in words for sign in _SIGNS):
        return words
    return f"over the memory limit of {megabytes} MB: {words}"


def explain_load(error: BaseException, megabytes: int | None) -> AdapterError | None:
    """Returns the error for an adapter that a memory limit kept from loading; None when it did not."""
    words = f"{type(error).__name__}: {error}"
    named = over_limit(words, megabytes)
    if named == words:
        return None
    return AdapterError(
        f"the adapter cannot be loaded under evaluation.memory_mb {megabytes}: {words}",
        where="evaluation.memory_mb",
        fix=_fix(),
    )


def explain_start(words: str, megabytes: int | None) -> AdapterError | None:
    """Returns the error for hosts that ended at their start under a memory limit; None without one."""
    if megabytes is None:
        return None
    return AdapterError(
        f"under evaluation.memory_mb {megabytes} {words}", where="evaluation.memory_mb", fix=_fix()
    )


def _fix() -> str:
    return "raise evaluation.memory_mb: it counts address space, which is far more than the memory in use"


def _read_used_mb() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0  # no Linux
    return pages * resource.getpagesize() // _MB
