"""One driver per run: a lease with a heartbeat and a fencing epoch.

Safety is the epoch, which every write of a driver checks inside its own transaction. The clock and the
process table only decide when a takeover is tried.
"""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from capevolve.errors import FencedError, LeaseHeldError
from capevolve.failpoints import failpoint
from capevolve.ledger import schema
from capevolve.ledger.events import append_event

LEASE_TTL_S = 30.0
"""A lease whose heartbeat is older than this may be taken over from any host."""

_table = schema.leases


@dataclass(frozen=True, slots=True)
class Driver:
    """The right to write to a run: who holds it and in which epoch."""

    run_id: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds, or last held, the lease of a run."""

    owner: str
    host: str
    pid: int
    pid_started_at: float
    epoch: int
    acquired_at: float
    heartbeat_at: float
    released_at: float | None


def this_host() -> str:
    """This machine, told apart from containers that share its name."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return socket.gethostname() + (f"/{space}" if space else "")


def read_holder(connection: Connection, run_id: str, *, lock: bool = False) -> Holder | None:
    """The lease of a run; None when nobody ever drove it. `lock` keeps it as it is until the commit."""
    statement = select(_table).where(_table.c.run_id == run_id)
    row = connection.execute(statement.with_for_update() if lock else statement).one_or_none()
    if row is None:
        return None
    values = row._asdict()
    del values["run_id"]
    return Holder(**values)


def is_alive(holder: Holder, now: float) -> bool:
    """True unless the lease was released, its process is gone, or its heartbeat stopped."""
    if holder.released_at is not None or now - holder.heartbeat_at > LEASE_TTL_S:
        return False
    if holder.host != this_host():
        return True
    try:
        process = psutil.Process(holder.pid)
        if process.status() == psutil.STATUS_ZOMBIE:  # killed, but its parent has not asked yet
            return False
        return abs(process.create_time() - holder.pid_started_at) < 1.0
    except psutil.NoSuchProcess:
        return False


def refuse_live(run_id: str, holder: Holder | None, now: float) -> None:
    """Refuses a run that somebody drives.

    Raises:
        LeaseHeldError: Its driver is alive.
    """
    if holder is None or not is_alive(holder, now):
        return
    raise LeaseHeldError(
        f"Run {run_id} is driven by PID {holder.pid} on {holder.host.partition('/')[0]} since "
        f"{_clock(holder.acquired_at)}, last heartbeat {max(0, round(now - holder.heartbeat_at))} s ago.",
        fix=f"Wait for it, or stop that process; then: capevolve run --resume {run_id}.",
    )


def acquire_lease(connection: Connection, run_id: str, now: float) -> Driver:
    """Takes the lease of a run at a new epoch. Call it in a write transaction.

    Raises:
        LeaseHeldError: A live driver holds it.
    """
    holder = read_holder(connection, run_id, lock=True)
    refuse_live(run_id, holder, now)
    failpoint("lease.read")
    process = psutil.Process()
    values = {
        "owner": uuid.uuid4().hex,
        "host": this_host(),
        "pid": process.pid,
        "pid_started_at": process.create_time(),
        "epoch": 1 if holder is None else holder.epoch + 1,
        "acquired_at": now,
        "heartbeat_at": now,
        "released_at": None,
    }
    if holder is None:
        _insert_first(connection, run_id, values)
    else:
        connection.execute(update(_table).where(_table.c.run_id == run_id).values(**values))
        if holder.released_at is None:
            lost = {"from_pid": holder.pid, "from_host": holder.host, "from_epoch": holder.epoch}
            append_event(connection, run_id, "takeover", lost, now)
    return Driver(run_id, str(values["owner"]), int(str(values["epoch"])))


def _insert_first(connection: Connection, run_id: str, values: dict[str, object]) -> None:
    """Adds the first lease of a run. PostgreSQL cannot lock a row that is not there yet: the key decides."""
    try:
        with connection.begin_nested():
            connection.execute(insert(_table).values(run_id=run_id, **values))
    except IntegrityError:
        raise LeaseHeldError(
            f"Run {run_id} was taken by another driver at this very moment.",
            fix=f"Wait for it; `capevolve status {run_id}` says who it is.",
        ) from None


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_HOLDER = (
    select(_table.c.owner, _table.c.epoch, _table.c.released_at, _table.c.pid, _table.c.host)
    .where(_table.c.run_id == bindparam("run_id"))
    .with_for_update()
)
"""Made once: it is asked before every commit."""


def check_lease(connection: Connection, driver: Driver) -> None:
    """Refuses a driver whose epoch is over. Every write of a driver calls it first in its own transaction.

    The writers of a run wait for each other here, so what a transaction reads after it holds until its end.

    Raises:
        FencedError: Another driver took the run over, or the lease was released.
    """
    row = connection.execute(_HOLDER, {"run_id": driver.run_id}).one_or_none()
    if row is None or row.owner != driver.owner or row.epoch != driver.epoch or row.released_at is not None:
        who = (
            "nobody" if row is None else f"PID {row.pid} on {row.host.partition('/')[0]} (epoch {row.epoch})"
        )
        raise FencedError(
            f"This driver's epoch {driver.epoch} of run {driver.run_id} is over; it is now driven by {who}.",
            fix="Nothing of this process is written any more. Watch the other driver, or resume later.",
        )


def renew_lease(connection: Connection, driver: Driver, now: float) -> None:
    """Writes a heartbeat.

    Raises:
        FencedError: Another driver took the run over.
    """
    check_lease(connection, driver)
    connection.execute(update(_table).where(_table.c.run_id == driver.run_id).values(heartbeat_at=now))


def release_lease(connection: Connection, driver: Driver, now: float) -> None:
    """Gives the lease back, if this driver still holds it."""
    connection.execute(
        update(_table)
        .where(
            _table.c.run_id == driver.run_id,
            _table.c.owner == driver.owner,
            _table.c.epoch == driver.epoch,
        )
        .values(released_at=now)
    )
