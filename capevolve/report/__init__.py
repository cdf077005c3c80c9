"""What a run has shown: facts from the ledger, and their renderings as Markdown, HTML, JSON and files."""

from capevolve.report.facts import read_facts
from capevolve.report.html import render_html
from capevolve.report.markdown import render_markdown
from capevolve.report.projections import Projections, write_projections
from capevolve.report.rows import COLUMNS, CandidateRow, candidate_rows
from capevolve.report.status import render_status
from capevolve.report.values import RunFacts

__all__ = [
    "COLUMNS",
    "CandidateRow",
    "Projections",
    "RunFacts",
    "candidate_rows",
    "read_facts",
    "render_html",
    "render_markdown",
    "render_status",
    "write_projections",
]
