"""An open run: the project, its spec, its ledger, and the lease that lets this process drive it."""

from __future__ import annotations

import re
import secrets
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from capevolve.adapters.ready import refer_to_adapter
from capevolve.adapters.records import AdapterRef
from capevolve.canonical import digest_bytes
from capevolve.errors import FencedError, LedgerError, UserError
from capevolve.ledger.evaluations import EvaluationKey
from capevolve.ledger.events import append_event
from capevolve.ledger.leases import (
    LEASE_TTL_S,
    Driver,
    acquire_lease,
    check_lease,
    read_holder,
    refuse_live,
    release_lease,
    renew_lease,
)
from capevolve.ledger.runs import (
    RunRecord,
    RunStatus,
    find_run,
    read_run,
    set_run_status,
    update_run_spec,
)
from capevolve.ledger.store import Ledger, open_ledger
from capevolve.model import Split
from capevolve.spec import LoadedSpec, ProjectSpec, ledger_url, load_spec
from capevolve.spec.resume import parse_spec, restore_secrets, resume_spec, spec_json

STATE_FOLDER = ".capevolve"

Clock = Callable[[], float]

Admit = Callable[[int], Awaitable[None]]
"""Waits until so many calls of the target may begin, for all who share a deployment's limit."""

CONTROL_ONLY = "A/A control only"
"""Why a run ended that was made for the control; it is nobody's latest run."""


@dataclass(frozen=True, slots=True)
class RunRef:
    """A driven run as plain text and numbers, fit to be the argument of a Prefect task.

    Attributes:
        project: The folder of `capevolve.yaml`.
        owner, epoch: The lease that the driver holds; every write checks them.
        deadline: When the driver must stop spending, in seconds since the epoch; None is never.
    """

    project: str
    run_id: str
    owner: str
    epoch: int
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that this process drives; `admit` keeps the limit that `evaluation.prefect_limit` names."""

    id: str
    root: Path
    spec: ProjectSpec
    loaded: LoadedSpec
    ledger: Ledger
    driver: Driver
    clock: Clock
    deadline: float | None = None
    admit: Admit | None = None

    @property
    def folder(self) -> Path:
        """The run's folder: projections, logs and scratch; it can be deleted and rebuilt."""
        return run_folder(self.root, self.id)

    @property
    def adapter(self) -> AdapterRef:
        """The project's adapter."""
        return refer_to_adapter(self.root, self.spec)

    @property
    def ref(self) -> RunRef:
        """The run as an argument for a Prefect task."""
        return RunRef(str(self.root), self.id, self.driver.owner, self.driver.epoch, self.deadline)

    def key(self, candidate_id: str, split: Split) -> EvaluationKey:
        """The identity of the run's full evaluation of a candidate on train or val."""
        return EvaluationKey(
            self.id, candidate_id, split, self.spec.evaluation.num_trials, self.spec.base_seed()
        )


def run_folder(root: Path, run_id: str) -> Path:
    """The folder of a run's projections."""
    return root / STATE_FOLDER / "runs" / run_id


def new_run_id(name: str, now: float) -> str:
    """A readable id: the project's name, the time, and four random digits."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32] or "run"
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
    return f"{slug}-{stamp}-{secrets.token_hex(2)}"


def check_run_id(run_id: str) -> str:
    """Returns a run id that is fit for a folder name.

    Raises:
        UserError: It is not.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", run_id):
        raise UserError(
            f"{run_id!r} cannot name a run.", fix="Use up to 100 letters, digits, dots, dashes, underscores."
        )
    return run_id


def open_project_ledger(loaded: LoadedSpec, *, create: bool) -> Ledger:
    """Opens the ledger of a project."""
    return open_ledger(ledger_url(loaded), create=create)


def take_run(project: Path, run_id: str, *, create: bool = True, clock: Clock = time.time) -> OpenRun:
    """Takes the lease of a run, new or known, and opens it.

    Args:
        project: The folder of `capevolve.yaml`, or the file.
        create: False refuses a run that the ledger does not know.

    Raises:
        LeaseHeldError: Another live driver holds the run.
        SpecError: The spec was changed in a way that changes what the run's numbers mean.
    """
    check_run_id(run_id)
    loaded = load_spec(project)
    ledger = open_project_ledger(loaded, create=create)
    try:
        with ledger.write() as connection:
            record = find_run(connection, run_id)
            if record is None and not create:
                read_run(connection, run_id)
            spec = loaded.spec if record is None else resume_spec(record.id, record.spec, loaded.spec)
            driver = acquire_lease(connection, run_id, clock())
            if record is not None:
                _note_resumption(connection, record, spec, clock())
    except BaseException:
        ledger.close()
        raise
    minutes = spec.budget.max_minutes
    deadline = None if minutes is None else clock() + 60.0 * minutes
    run = OpenRun(run_id, loaded.root, spec, loaded, ledger, driver, clock, deadline)
    shutil.rmtree(run.folder / "work", ignore_errors=True)
    return run


def refuse_driven(loaded: LoadedSpec, run_id: str, now: float) -> None:
    """Refuses a run that another process drives, before anything is prepared for it.

    Raises:
        LeaseHeldError: Its driver is alive.
    """
    ledger = open_project_ledger(loaded, create=True)
    try:
        with ledger.read() as connection:
            refuse_live(run_id, read_holder(connection, run_id), now)
    finally:
        ledger.close()


def attach_run(ref: RunRef, *, clock: Clock = time.time) -> OpenRun:
    """Opens a run that a driver holds, from its reference. The first write checks the lease.

    Raises:
        LedgerError: There is no ledger, or it cannot be read.
    """
    loaded = load_spec(Path(ref.project))
    ledger = open_project_ledger(loaded, create=False)
    driver = Driver(ref.run_id, ref.owner, ref.epoch)
    try:
        with ledger.read() as connection:
            record = find_run(connection, ref.run_id)
    except BaseException:
        ledger.close()
        raise
    spec = loaded.spec if record is None else restore_secrets(parse_spec(record.spec), loaded.spec)
    return OpenRun(ref.run_id, loaded.root, spec, loaded, ledger, driver, clock, ref.deadline)


def _note_resumption(connection: Connection, record: RunRecord, spec: ProjectSpec, now: float) -> None:
    text = spec_json(spec)
    if text != record.spec:
        update_run_spec(connection, record.id, text, digest_bytes(text.encode("utf-8")))
        append_event(connection, record.id, "spec_changed", {"was": record.spec, "is": text}, now)
    if record.status != "finished":
        set_run_status(connection, record.id, "running", None, now)
    append_event(connection, record.id, "resumed", {"status": record.status}, now)


@contextmanager
def keep_lease(run: OpenRun, interval_s: float = LEASE_TTL_S / 5) -> Iterator[threading.Event]:
    """Writes heartbeats in the background; the event yielded is set when the lease was lost."""
    stop, lost = threading.Event(), threading.Event()

    def beat() -> None:
        while not stop.wait(interval_s):
            try:
                with run.ledger.write() as connection:
                    renew_lease(connection, run.driver, run.clock())
            except FencedError:
                lost.set()
                return
            except LedgerError:
                continue  # the next write of the driver itself will say what is wrong

    thread = threading.Thread(target=beat, name="capevolve-heartbeat", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        stop.set()
        thread.join()


def release_run(run: OpenRun) -> None:
    """Gives the lease back and closes the ledger."""
    try:
        shutil.rmtree(run.folder / "work", ignore_errors=True)
        with run.ledger.write() as connection:
            release_lease(connection, run.driver, run.clock())
    finally:
        run.ledger.close()


@contextmanager
def drive_run(
    project: Path, run_id: str, *, create: bool = True, clock: Clock = time.time
) -> Iterator[OpenRun]:
    """Takes the lease of a run, keeps it while the body runs, and gives it back however the body ends.

    Raises:
        LeaseHeldError: Another live driver holds the run.
    """
    run = take_run(project, run_id, create=create, clock=clock)
    try:
        with keep_lease(run):
            yield run
    finally:
        release_run(run)


def end_run(run: OpenRun, status: RunStatus, reason: str | None) -> None:
    """Notes that the run stopped (it can be resumed) or is finished."""
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        set_run_status(connection, run.id, status, reason, run.clock())
        append_event(connection, run.id, status, {"reason": reason}, run.clock())
