"""How trials are spread over hosts, and how far ahead of them requests are sent."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

MAX_SYNC_HOSTS = 8
"""Plain adapters get a process per slot up to here, then threads."""

MAX_AHEAD = 256
"""The most requests that wait in a host per slot."""

_WAIT_S = 0.1
_MEMORY = 64
_LOOK_EVERY = 16


def plan_widths(slots: int, *, is_async: bool, cpus: int, trials_per_host: int | None) -> tuple[int, ...]:
    """Returns how many trials each host runs at once; the sum is `slots`.

    Args:
        slots: Trials at once in all, at least 1.
        is_async: Event loops spread over the processors; plain adapters get a process per slot up to 8.
        cpus: Processors; beyond 8 slots plain adapters get a process for each, at most 8.
        trials_per_host: Overrides both rules: no host runs more than this at once.
    """
    if trials_per_host is not None:
        hosts = -(-slots // trials_per_host)
    else:
        threaded = min(MAX_SYNC_HOSTS, cpus)  # isolation is gone by then; more only start slower
        plain = slots if slots <= MAX_SYNC_HOSTS else threaded
        hosts = min(slots, cpus) if is_async else plain
    least, more = divmod(slots, hosts)
    return tuple(least + (index < more) for index in range(hosts))


@dataclass(frozen=True, slots=True)
class HostPlan:
    """How many trials each host runs at once, by what the adapter turns out to be.

    Attributes:
        plain: For `def run_target`.
        on_loop: For `async def run_target`.
        batch: For a batch hook.
    """

    plain: tuple[int, ...]
    on_loop: tuple[int, ...]
    batch: tuple[int, ...]

    def at(self, index: int) -> tuple[int, int, int]:
        """Returns the three widths of a host."""
        plain, on_loop, batch = (
            plan[min(index, len(plan) - 1)] for plan in (self.plain, self.on_loop, self.batch)
        )
        return plain, on_loop, batch

    def least_hosts(self) -> int:
        """Returns how many hosts there will be in any case, unless the adapter has a batch hook."""
        return min(len(self.plain), len(self.on_loop))


def plan_hosts(slots: int, *, cpus: int, trials_per_host: int | None, batch_size: int) -> HostPlan:
    """Plans the hosts for an adapter that is not loaded yet; see `plan_widths`."""
    plain, on_loop = (
        plan_widths(slots, is_async=is_async, cpus=cpus, trials_per_host=trials_per_host)
        for is_async in (False, True)
    )
    batch = plan_widths(slots, is_async=False, cpus=cpus, trials_per_host=batch_size) if batch_size else plain
    return HostPlan(plain, on_loop, batch)


class Pace:
    """Watches how long trials take.

    A host that must wait for its next request idles for a round trip, which only matters when trials are
    short. So about a tenth of a second of work, by the median of the last 64 trials, may wait in each slot.

    Args:
        enabled: False to send nothing ahead.
    """

    def __init__(self, *, enabled: bool) -> None:
        self.ahead = 0
        """How many requests may wait per slot."""
        self._enabled = enabled
        self._durations: deque[float] = deque(maxlen=_MEMORY)
        self._since_look = 0

    def record(self, duration_s: float) -> None:
        """Takes the duration of a finished trial, in seconds."""
        if not self._enabled:
            return
        self._durations.append(duration_s)
        self._since_look += 1
        if self._since_look >= _LOOK_EVERY or not self.ahead:
            self._since_look = 0
            median = statistics.median(self._durations)
            self.ahead = min(MAX_AHEAD, int(_WAIT_S / max(median, 1e-6)))
