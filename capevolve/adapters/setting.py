"""What every host of a pool is started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capevolve.adapters.records import AdapterRef
from capevolve.adapters.seat import Limits
from capevolve.adapters.wire import Open


@dataclass(frozen=True, slots=True)
class Setting:
    """What every host of a pool is started with.

    Attributes:
        env: Added to the driver's environment.
        python: The interpreter.
        trials_per_host: See `HostPool`.
        batch_size: See `HostPool`.
    """

    adapter: AdapterRef
    candidate_dir: Path
    slots: int
    limits: Limits
    trials_per_host: int | None
    env: Mapping[str, str]
    python: str
    batch_size: int = 0


def make_order(setting: Setting, widths: tuple[int, int, int]) -> Open:
    """Returns the first message to a host.

    Args:
        widths: Trials at once where the adapter is plain, async, or has a batch hook.
    """
    return Open(
        root=str(setting.adapter.root),
        target=setting.adapter.target,
        candidate_dir=str(setting.candidate_dir),
        sync_width=widths[0],
        async_width=widths[1],
        timeout_s=setting.limits.timeout_s,
        grace_s=setting.limits.grace_s,
        parent_pid=os.getpid(),
        listing=False,
        ready=setting.adapter.ready,
        batch_width=widths[2],
        memory_mb=setting.limits.memory_mb,
        max_payload=setting.limits.max_payload,
    )
