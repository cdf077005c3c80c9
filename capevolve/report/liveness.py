"""Whether a run is alive, told from its lease and the process table, not from its last words."""

from __future__ import annotations

from capevolve.ledger.leases import Holder, is_alive, this_host
from capevolve.ledger.runs import RunRecord
from capevolve.report.values import DriverFacts, Liveness, RunInfo
from capevolve.report.wording import clean_line, format_time

WORDS: dict[Liveness, str] = {
    "never started": "nobody has driven it yet",
    "running": "a live driver holds it",
    "stalled": "its driver's process exists but sends no heartbeat",
    "stopped": "it can be resumed",
    "crashed": "its driver is gone without giving it back; it can be resumed",
    "finished": "it has its result",
}
"""What each state means."""


def describe_run(record: RunRecord, holder: Holder | None, now: float) -> RunInfo:
    """Returns what a run is and how it stands at the time `now`."""
    return RunInfo(
        id=record.id,
        name=clean_line(record.name),
        liveness=find_liveness(record, holder, now),
        stop_reason=None if record.stop_reason is None else clean_line(record.stop_reason),
        created_at=record.created_at,
        ended_at=record.ended_at,
        version=record.version,
        spec_digest=record.spec_digest,
        adapter_digest=record.adapter_digest,
        driver=None if holder is None else _describe_driver(holder, now),
    )


def find_liveness(record: RunRecord, holder: Holder | None, now: float) -> Liveness:
    """Returns the state that the evidence shows."""
    if record.status == "finished":
        return "finished"
    if holder is None:
        return "never started"
    if is_alive(holder, now):
        return "running"
    if record.status == "stopped" or holder.released_at is not None:
        return "stopped"
    # Asked as of its own heartbeat, a lease tells only whether the process is there.
    if holder.host == this_host() and is_alive(holder, holder.heartbeat_at):
        return "stalled"
    return "crashed"


def describe_liveness(info: RunInfo) -> str:
    """Returns a run's state in words, with the driver that matters for it."""
    text = f"{info.liveness}: {WORDS[info.liveness]}"
    driver = info.driver
    if driver is None or info.liveness in ("finished", "stopped"):
        return text
    who = f"PID {driver.pid} on {driver.host}"
    if info.liveness == "running":
        return f"{text} ({who}, last heartbeat {driver.heartbeat_age_s:.0f} s ago)"
    return f"{text} ({who}, last heartbeat {format_time(driver.heartbeat_at)})"


def _describe_driver(holder: Holder, now: float) -> DriverFacts:
    return DriverFacts(
        pid=holder.pid,
        host=clean_line(holder.host.partition("/")[0]),
        epoch=holder.epoch,
        acquired_at=holder.acquired_at,
        heartbeat_at=holder.heartbeat_at,
        heartbeat_age_s=max(0.0, now - holder.heartbeat_at),
        released_at=holder.released_at,
    )
