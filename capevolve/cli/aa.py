"""`capevolve aa`: the noise of an evaluation, seen by its own gate."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from capevolve.cli.console import err, out
from capevolve.cli.evaluate import NO_PREFECT
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.gate.control import Control, describe_noise, refuse_noise, run_control
from capevolve.runs import CONTROL_ONLY, OpenRun, drive_run, end_run, new_run_id
from capevolve.search.planning import read_remaining
from capevolve.spec import load_spec
from capevolve.start import start_run


def control_project(project: Path, run_id: str | None) -> None:
    """Runs the A/A control as a run of its own, and prints the noise floor.

    Raises:
        UserError: The gate accepted or vetoed a copy of the seed candidate.
    """
    loaded = load_spec(project)
    name = run_id or new_run_id(f"{loaded.spec.name}-aa", time.time())
    err.print(f"run {name}: A/A control of gate {loaded.spec.gate.mode}; test stays sealed", markup=False)
    if loaded.spec.evaluation.prefect_limit is not None:
        err.print(NO_PREFECT.strip(), markup=False)
    with drive_run(loaded.root, name) as run:
        control = asyncio.run(_measure(run))
        end_run(run, "stopped", CONTROL_ONLY)
    out.print(describe_noise(control), markup=False, soft_wrap=True)
    refuse_noise(control)


async def _measure(run: OpenRun) -> Control:
    started = await start_run(run)
    request = EvaluationRequest(started.record.seed_candidate, "val")
    await evaluate(run, request, remaining=read_remaining(run))
    return await run_control(run, remaining=lambda: read_remaining(run))
