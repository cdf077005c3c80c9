"""`capevolve run` and `finalize`: a Prefect server, the flow in this process, progress, a summary."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from capevolve.adapters.listing import list_tasks
from capevolve.candidates import read_tree
from capevolve.cli.console import err, show_note, show_warning
from capevolve.cli.find import find_run_id, found_run
from capevolve.cli.show import show_summary
from capevolve.cli.watch import watching
from capevolve.errors import CapevolveError, OutsideError
from capevolve.gate import chance_of_any_false_accept
from capevolve.gate.record import gate_settings
from capevolve.ledger.runs import find_run
from capevolve.proposers.command import CommandProposer, resolve_argv
from capevolve.proposers.proposal import make_proposer
from capevolve.runs import STATE_FOLDER, check_run_id, new_run_id, open_project_ledger
from capevolve.seal import Committed, read_state
from capevolve.spec import LoadedSpec, load_spec
from capevolve.splits import SplitPlan, make_splits
from capevolve.start import list_rows


def run_project(project: Path, *, resume: str | None, run_id: str | None) -> None:
    """Runs or resumes an optimization and shows its result."""
    loaded = load_spec(project)
    for note in loaded.notes:
        show_note(note)
    if resume is not None:
        with found_run(loaded.root, resume) as found:
            run_id = found.run_id
            done = _is_finished(found.ledger, run_id)
        if done:
            show_note(f"Run {run_id} is finished; nothing was called.")
            show_summary(loaded, run_id)
            return
    run_id = check_run_id(run_id) if run_id else new_run_id(loaded.spec.name, time.time())

    def start() -> Awaitable[str]:
        from capevolve_flows.optimize import optimize

        return optimize(str(loaded.root), run_id)

    with _server(loaded) as server:
        if resume is None:
            _show_plan(loaded, run_id)
        else:
            err.print(f"run {run_id}: resumed", markup=False)
        _drive(loaded, run_id, server, start)
    show_summary(loaded, run_id)


def finalize_run(project: Path, run: str | None, reason: str | None) -> None:
    """Finalizes a run, or shows the result of one that is finalized."""
    with found_run(project, run) as found:
        loaded, run_id = found.loaded, found.run_id
        with found.ledger.read() as connection:
            committed = isinstance(read_state(connection, run_id), Committed)
    if reason is None and os.environ.get("CAPEVOLVE_ALLOW_TEST_RESCORE") == "1":
        reason = os.environ.get("CAPEVOLVE_RESCORE_REASON", "").strip() or None
        if reason is None:
            from capevolve.errors import UserError

            raise UserError(
                "CAPEVOLVE_ALLOW_TEST_RESCORE takes a reason.",
                fix="Set CAPEVOLVE_RESCORE_REASON, or use --allow-test-rescore REASON.",
            )
    if committed and reason is None:
        show_note(f"Run {run_id} is finalized; nothing was called.")
        show_summary(loaded, run_id)
        return

    def start() -> Awaitable[str]:
        from capevolve_flows.finalize_run import finalize

        return finalize(str(loaded.root), run_id, reason)

    with _server(loaded) as server:
        _drive(loaded, run_id, server, start)
    show_summary(loaded, run_id)
