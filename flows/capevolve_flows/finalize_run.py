"""Finalize alone: the sealed test number of a run whose search ended, or its result once more."""

from __future__ import annotations

from pathlib import Path

from prefect import flow, tags

from capevolve.runs import drive_run, end_run
from capevolve_flows.naming import name_run
from capevolve_tasks import finalize as finalize_task
from capevolve_tasks import report


@flow(name="finalize", flow_run_name=name_run)
async def finalize(project: str, run: str, allow_test_rescore: str | None = None) -> str:
    """Scores the sealed test split for the best and the seed candidate of a run, once.

    Args:
        project: The folder of `capevolve.yaml`.
        run: The run.
        allow_test_rescore: Why test may be scored although it was before; on record for ever.

    Returns:
        The path of report.html.
    """
    with tags(f"run:{run}"), drive_run(Path(project), run, create=False) as driven:
        await finalize_task(driven.ref, allow_test_rescore)
        end_run(driven, "finished", "finalized")
        return await report(driven.ref)
