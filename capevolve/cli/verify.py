"""`capevolve verify` and `export`: a run computed again from its rows, and handed to those without them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from capevolve.cli.console import out, show_note
from capevolve.cli.find import found_run
from capevolve.report.agreement import check_projections
from capevolve.runs import check_run_id, run_folder
from capevolve.verify import (
    Verified,
    read_environment,
    verify_bundle,
    verify_run,
    write_bundle,
    write_rollouts,
)


def verify_target(project: Path, target: str | None) -> None:
    """Verifies a bundle when the target is a file, else the run of that name."""
    if target is not None and (Path(target).is_file() or _is_path(target)):
        _show(verify_bundle(Path(target)), f"bundle {target}", ())
        return
    with found_run(project, target) as found:
        with found.ledger.read() as connection:
            verified = verify_run(connection, found.run_id)
        root = found.loaded.root
        count = check_projections(found.ledger, root, check_run_id(found.run_id), now=time.time())
    _show(verified, f"run {found.run_id}", (f"{count} of its projections",) if count else ())


def _is_path(target: str) -> bool:
    """Whether a name can only be meant as a file, there or not."""
    return os.sep in target or target.endswith(".zip")


def _show(verified: Verified, name: str, more: tuple[str, ...]) -> None:
    done = "is" if verified.committed else "will be"
    kind = "" if verified.holdout else f" Its test number {done} a fit metric: test is no holdout."
    far = "" if verified.committed else ", as far as it went"
    out.print(f"PASS: {name} is what its rows say{far}.{kind}", markup=False, style="bold green")
    out.print(f"checked: {', '.join((*verified.checked, *more))}", markup=False)
    for sentence in verified.unchecked:
        out.print(f"not checked: {sentence}", markup=False)
    out.print(f"head of the seal's chain: {verified.chain_head}", markup=False)


def export_run(project: Path, run: str | None, bundle: Path | None) -> None:
    """Writes a run's trials as files, or everything of it as one bundle."""
    with found_run(project, run) as found, found.ledger.read() as connection:
        if bundle is not None:
            written = write_bundle(connection, found.run_id, bundle, read_environment())
            out.print(f"{written.path}  {written.digest}", markup=False)
            show_note("It holds train tasks with their content, and all outputs. Keep its SHA-256.")
            return
        folder = run_folder(found.loaded.root, check_run_id(found.run_id))
        rollouts = write_rollouts(connection, found.run_id, folder)
    out.print(f"{os.path.relpath(rollouts.folder)}: {rollouts.count:,} trials", markup=False)
    if rollouts.withheld:
        show_note(
            "Trials of test are not among them, or not all: they are shown once their result is committed."
        )
