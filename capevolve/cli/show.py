"""What a run has shown: status, report, diff, and the summary that ends a run. Prefect is not needed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from capevolve.candidates import diff_candidates
from capevolve.cli.console import err, out
from capevolve.cli.find import find_candidate, found_run
from capevolve.ledger.store import Ledger
from capevolve.report import read_facts, render_markdown, write_projections
from capevolve.report.headline import build_headline
from capevolve.report.liveness import describe_liveness
from capevolve.report.rows import COLUMNS, candidate_rows
from capevolve.report.status import build_status
from capevolve.report.values import RunFacts
from capevolve.report.wording import format_evaluation, format_score
from capevolve.runs import open_project_ledger
from capevolve.spec import LoadedSpec

WIDE = 130
"""From this width on the reasons of the verdicts are shown too; the report always has them."""

TONE_STYLES = {"accept": "green", "reject": "dim", "indecisive": "yellow"}
"""How a row of candidates looks, by its tone; others look plain."""


def show_status(project: Path, run: str | None, *, as_json: bool) -> None:
    """Says how a run stands."""
    with found_run(project, run) as found:
        facts = read_facts(found.ledger, found.run_id, now=time.time(), with_matrix=False)
    if as_json:
        sys.stdout.write(build_status(facts).model_dump_json(indent=2) + "\n")
        return
    out.print(f"run {facts.info.id}: {describe_liveness(facts.info)}", markup=False)
    if facts.info.stop_reason:
        out.print(f"  {facts.info.stop_reason}", markup=False)
    _show_facts(facts)


def show_report(project: Path, run: str | None, *, as_json: bool) -> None:
    """Writes the projections again and shows the report."""
    with found_run(project, run) as found:
        written = write_projections(found.ledger, found.loaded.root, found.run_id, now=time.time())
    facts = written.facts
    if as_json:
        sys.stdout.write(build_status(facts).model_dump_json(indent=2) + "\n")
    else:
        sys.stdout.write(render_markdown(facts))
    err.print(f"written: {os.path.relpath(written.report_html)}", markup=False, style="dim")


def show_diff(project: Path, run: str | None, candidate: str, against: str) -> None:
    """Shows what changed from one candidate to another, as a unified diff."""
    with found_run(project, run) as found, found.ledger.read() as connection:
        new = find_candidate(connection, found.run_id, candidate)
        old = find_candidate(connection, found.run_id, against)
        text = diff_candidates(connection, old, new)
    sys.stdout.write(text or f"{candidate} and {against} are the same candidate.\n")


def show_summary(loaded: LoadedSpec, run_id: str) -> None:
    """Shows the result of a run and where things are."""
    ledger = open_project_ledger(loaded, create=False)
    try:
        _summarize(ledger, loaded.root, run_id)
    finally:
        ledger.close()


def _summarize(ledger: Ledger, root: Path, run_id: str) -> None:
    written = write_projections(ledger, root, run_id, now=time.time())
    _show_facts(written.facts)
    for name, path in (("report", written.report_html), ("result", written.final)):
        if path is not None:
            out.print(f"{name}: {os.path.relpath(path)}", markup=False)


def _show_facts(facts: RunFacts) -> None:
    for banner in facts.banners:
        out.print(f"! {banner.text}", markup=False, style="bold yellow")
    wide = out.width >= WIDE
    columns = COLUMNS if wide else COLUMNS[:-1]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], overflow="fold")
    for row in candidate_rows(facts):
        table.add_row(*map(escape, row.cells[: len(columns)]), style=TONE_STYLES.get(row.tone))
    out.print(table)
    for name, evaluation in (("baseline", facts.baseline), ("best", facts.best_val)):
        score = None if evaluation is None else evaluation.score
        words = format_evaluation(evaluation) if score is None else format_score(score)
        out.print(f"{name} on val: {words}", markup=False)
    out.print(build_headline(facts), markup=False, style="bold")
    for caveat in facts.caveats:
        out.print(f"- {caveat.text}", markup=False, style="dim")
