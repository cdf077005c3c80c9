"""`capevolve run` and `finalize`: a Prefect server, the flow in this process, progress, a summary."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from capevolve.cli.console import err, show_note
from capevolve.cli.find import found_run
from capevolve.cli.preflight import look_ahead
from capevolve.cli.server import prefect_api
from capevolve.cli.show import show_summary
from capevolve.cli.watch import watching
from capevolve.errors import UserError
from capevolve.finalize import is_committed
from capevolve.ledger.runs import read_run
from capevolve.ledger.store import Ledger
from capevolve.runs import check_run_id, new_run_id, refuse_driven
from capevolve.spec import LoadedSpec, ledger_url, load_spec

RESCORE = "CAPEVOLVE_ALLOW_TEST_RESCORE"
RESCORE_REASON = "CAPEVOLVE_RESCORE_REASON"


def run_project(
    project: Path, *, resume: str | None, run_id: str | None, allow_hopeless_gate: bool = False
) -> None:
    """Runs or resumes an optimization and shows its result."""
    loaded = load_spec(project)
    for note in loaded.notes:
        show_note(note)
    if resume is not None:
        with found_run(loaded.root, resume) as found:
            run_id = found.run_id
            if _is_finished(found.ledger, run_id):
                show_note(f"Run {run_id} is finished; nothing was called.")
                show_summary(loaded, run_id)
                return
    run_id = check_run_id(run_id) if run_id else new_run_id(loaded.spec.name, time.time())

    def start() -> Awaitable[str]:
        from capevolve_flows.optimize import optimize

        return optimize(str(loaded.root), run_id, allow_hopeless_gate)

    _drive(loaded, run_id, start, fresh=resume is None, allow_hopeless_gate=allow_hopeless_gate)
    show_summary(loaded, run_id)


def finalize_run(project: Path, run: str | None, reason: str | None) -> None:
    """Finalizes a run, or shows the result of one that is finalized."""
    with found_run(project, run) as found:
        loaded, run_id = found.loaded, found.run_id
        with found.ledger.read() as connection:
            committed = is_committed(connection, run_id)
    reason = reason if reason is not None else _reason_of_environment()
    if reason is not None and not reason.strip():
        raise UserError("An override takes a reason in words.", where="--allow-test-rescore")
    if committed and reason is None:
        show_note(f"Run {run_id} is finalized; nothing was called.")
        show_summary(loaded, run_id)
        return

    def start() -> Awaitable[str]:
        from capevolve_flows.finalize_run import finalize

        return finalize(str(loaded.root), run_id, reason)

    _drive(loaded, run_id, start, fresh=False)
    show_summary(loaded, run_id)


def _reason_of_environment() -> str | None:
    if os.environ.get(RESCORE) != "1":
        return None
    reason = os.environ.get(RESCORE_REASON, "").strip()
    if not reason:
        raise UserError(
            f"{RESCORE}=1 takes a reason.", fix=f"Set {RESCORE_REASON}, or use --allow-test-rescore REASON."
        )
    return reason


def _is_finished(ledger: Ledger, run_id: str) -> bool:
    with ledger.read() as connection:
        finished = read_run(connection, run_id).status == "finished"
        return finished and is_committed(connection, run_id)


def _drive(
    loaded: LoadedSpec,
    run_id: str,
    start: Callable[[], Awaitable[str]],
    *,
    fresh: bool,
    allow_hopeless_gate: bool = False,
) -> None:
    """Runs a flow in this process, its server beside it, its progress on the terminal."""
    refuse_driven(loaded, run_id, time.time())
    with prefect_api(loaded.root) as api:
        if fresh:
            asyncio.run(look_ahead(loaded, run_id, allow_hopeless_gate=allow_hopeless_gate))
        else:
            err.print(f"run {run_id}", markup=False)
        _quieten_prefect()
        import prefect  # noqa: F401  (1.3 s, while the server starts)

        ui = api.wait()
        if ui is not None:
            err.print(f"  watch it: {ui}", markup=False)
        try:
            with watching(ledger_url(loaded), run_id, err):
                asyncio.run(_await(start))
        except BaseException as error:
            again = f"capevolve run {os.path.relpath(loaded.root)} --resume {run_id}"
            show_note(f"What was measured is kept. Continue: {again}")
            if type(error).__name__ == "TerminationSignal":  # what Prefect makes of SIGTERM
                raise SystemExit(128 + signal.SIGTERM) from None
            raise


async def _await(start: Callable[[], Awaitable[str]]) -> str:
    return await start()


def _quieten_prefect() -> None:
    """Keeps Prefect's log lines in its UI, off the terminal: errors are shown once, without a traceback."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    logging.captureWarnings(capture=True)
