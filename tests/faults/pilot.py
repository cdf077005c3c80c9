"""Drives a whole run, from splits to the sealed number, in a process of its own that can be killed.

    python pilot.py PROJECT RUN [finalize]

Prefect is left out: what must survive a kill is the domain's. With CAPEVOLVE_RECORD=FILE every failpoint
reached is written down.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from capevolve import failpoints
from capevolve.design import refuse_hopeless_gate
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.finalize import conclude
from capevolve.gate.record import find_ask, measure_ask, record_verdict
from capevolve.ledger.evaluations import list_evaluations
from capevolve.proposers.proposal import load_proposer, make_proposal
from capevolve.runs import OpenRun, drive_run, end_run
from capevolve.search.planning import plan_next, read_remaining
from capevolve.start import start_run


async def search(run: OpenRun) -> str:
    """Splits, baseline, and iterations until the search ends; returns why it did."""
    started = await start_run(run)
    with run.ledger.read() as connection:
        is_new = not list_evaluations(connection, run.id)
    if is_new:
        refuse_hopeless_gate(run.spec, started.splits.size("val"))
    await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"))
    while (step := plan_next(run)).iteration is not None:
        if load_proposer(run.root, run.spec).needs_evidence:
            await evaluate(run, EvaluationRequest(step.parent_id, "train"))
        proposal = await make_proposal(run, step.iteration, step.parent_id)
        if proposal.status == "proposed":
            while (asked := find_ask(run, step.iteration))[1] is not None:
                await measure_ask(run, *asked, remaining=read_remaining(run))
            record_verdict(run, step.iteration)
    return step.stop_reason or ""


async def pilot(run: OpenRun) -> None:
    reason = await search(run)
    await conclude(run)
    end_run(run, "finished", reason)


def main() -> None:
    project, run_id = Path(sys.argv[1]), sys.argv[2]
    record = os.environ.get("CAPEVOLVE_RECORD")
    if record:

        def note(name: str) -> None:
            with open(record, "a") as file:
                file.write(f"{name}\n")

        failpoints.hook = note
    with drive_run(project, run_id) as run:
        asyncio.run(pilot(run))


if __name__ == "__main__":
    main()
