"""What a run shows in the Prefect UI: a live progress bar, the table of candidates, the report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)

from capevolve.evaluate.progress import Progress
from capevolve.report import CandidateRow

UPDATE_INTERVAL_S = 1.0


def artifact_key(*parts: str) -> str:
    """A key that Prefect accepts: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def describe_progress(progress: Progress) -> str:
    """One line: how far, how good so far, what is missing."""
    mean = "" if progress.mean is None else f", mean of this session's trials {progress.mean:.3f}"
    missing = f", {progress.missing} unmeasured" if progress.missing else ""
    return f"{progress.title}: {progress.done} of {progress.total} trials{mean}{missing}"


@asynccontextmanager
async def progress_artifact(key: str, title: str) -> AsyncIterator[Callable[[Progress], None]]:
    """A live progress bar, updated at most once a second. Yields what `evaluate` calls."""
    latest = Progress(title, 0, 0)
    artifact = await acreate_progress_artifact(0.0, key=key, description=title)

    def note(progress: Progress) -> None:
        nonlocal latest
        latest = progress

    async def show(progress: Progress) -> None:
        share = 100.0 * progress.done / progress.total if progress.total else 100.0
        await aupdate_progress_artifact(artifact, share, description=describe_progress(progress))

    async def follow() -> None:
        shown = latest
        while True:
            await asyncio.sleep(UPDATE_INTERVAL_S)
            if latest is not shown:
                shown = latest
                await show(shown)

    follower = asyncio.create_task(follow())
    try:
        yield note
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
        await show(latest)


async def show_candidates(run_id: str, rows: tuple[CandidateRow, ...]) -> None:
    """The table of candidates, one row each."""
    table = [row.as_columns() for row in rows]
    await acreate_table_artifact(table, key=artifact_key("candidates", run_id), description=f"Run {run_id}")


async def show_report(run_id: str, markdown: str) -> None:
    """The report."""
    await acreate_markdown_artifact(markdown, key=artifact_key("report", run_id), description=f"Run {run_id}")


async def show_seal(run_id: str, head: str) -> None:
    """The head of the seal's chain: a witness outside the ledger."""
    await acreate_markdown_artifact(
        f"Seal of run `{run_id}`: head of the chain `{head}`", key=artifact_key("seal", run_id)
    )
