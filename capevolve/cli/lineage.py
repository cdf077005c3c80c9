"""`log` and `show`: where candidates come from, what the gate said of them, and what is in them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.tree import Tree
from sqlalchemy import Connection

from capevolve.candidates import Candidate, diff_candidates, load_candidate, read_file
from capevolve.cli.console import out
from capevolve.cli.find import Found, find_candidate, found_run
from capevolve.cli.show import TONE_STYLES
from capevolve.ledger.proposals import VerdictRecord, read_verdicts
from capevolve.model import StageVerdict
from capevolve.report import read_facts
from capevolve.report.rows import CandidateRow, candidate_rows
from capevolve.report.values import IterationFacts, RunFacts


def show_log(project: Path, run: str | None) -> None:
    """Shows a run's candidates as a tree: each below the one that it edited."""
    with found_run(project, run) as found:
        facts = _read(found)
    out.print(build_lineage(facts))


def _read(found: Found) -> RunFacts:
    return read_facts(found.ledger, found.run_id, now=time.time(), with_matrix=False)


def build_lineage(facts: RunFacts) -> Tree:
    """Returns the tree of a run, rooted at its seed candidate.

    An iteration without a new candidate is a leaf below the candidate that it was to edit.
    """
    seed, *rows = candidate_rows(facts)
    tree = Tree(escape(f"{seed.candidate} {seed.verdict}: val {seed.val}"), guide_style="dim")
    places = {facts.seed_id: tree}
    for iteration, row in zip(facts.iterations, rows, strict=True):
        place = places[iteration.parent_id].add(escape(_describe(row)), style=TONE_STYLES.get(row.tone, ""))
        if iteration.candidate_id is not None:
            places.setdefault(iteration.candidate_id, place)
    return tree


def _describe(row: CandidateRow) -> str:
    lines = [f"#{row.number} {row.candidate} {row.verdict}: val {row.val}", row.summary, row.reason]
    return "\n".join(line for line in lines if line)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a candidate comes from; the seed candidate has a row alone, one of another run nothing."""

    row: CandidateRow | None
    iteration: IterationFacts | None
    verdict: VerdictRecord | None


def show_candidate(project: Path, run: str | None, name: str) -> None:
    """Shows a candidate: its origin, the gate's verdict stage by stage, its files, what it changed."""
    with found_run(project, run) as found:
        facts = _read(found)
        with found.ledger.read() as connection:
            candidate = find_candidate(connection, found.run_id, name)
            origin = _find_origin(connection, found.run_id, facts, candidate)
            for line in _head(candidate, origin):
                out.print(line, markup=False, soft_wrap=True)
            for file in candidate.files:
                size = len(read_file(connection, file))
                out.print(
                    f"  {file.path}, {size:,} bytes{', executable' if file.executable else ''}", markup=False
                )
            if origin.iteration is None:
                return
            parent = load_candidate(connection, origin.iteration.parent_id)
            sys.stdout.write("\n" + diff_candidates(connection, parent, candidate))


def _find_origin(connection: Connection, run_id: str, facts: RunFacts, candidate: Candidate) -> _Origin:
    """The iteration that made it."""
    seed, *rows = candidate_rows(facts)
    verdicts = {record.iteration: record for record in read_verdicts(connection, run_id)}
    for iteration, row in zip(facts.iterations, rows, strict=True):
        if iteration.candidate_id == candidate.id and candidate.id != facts.seed_id:
            return _Origin(row, iteration, verdicts.get(iteration.number))
    return _Origin(seed if candidate.id == facts.seed_id else None, None, None)


def _head(candidate: Candidate, origin: _Origin) -> list[str]:
    row, iteration = origin.row, origin.iteration
    lines = [f"candidate {candidate.id}"]
    if row is None:
        return [*lines, "of another run of this ledger", "files:"]
    if iteration is None:
        return [*lines, f"{row.verdict}: val {row.val} (n = {row.n})", "files:"]
    lines += [
        f"parent    {iteration.parent_id}",
        f"iteration {row.number}, proposed for {row.cost}",
        *([f"edit      {row.summary}"] if row.summary else []),
        f"val       {row.val} (n = {row.n}), delta {row.delta}",
        f"verdict   {row.verdict}: {row.reason}",
    ]
    if origin.verdict is not None:
        lines += [f"  {describe_stage(stage)}" for stage in origin.verdict.verdict.stages]
    return [*lines, "files:"]


def describe_stage(stage: StageVerdict) -> str:
    """Returns what a stage of a confirmation found, and its limits."""
    p_value = "undefined" if stage.p_value is None else f"{stage.p_value:.3g}"
    words = f"{stage.stage}: p {p_value}, rejects above {stage.reject_above:.3g}"
    if stage.accept_at is not None:
        words += f", accepts up to {stage.accept_at:.3g}"
    return words if stage.slot is None else f"{words} (slot {stage.slot})"
