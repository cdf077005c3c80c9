"""`capevolve rescore`: stored rollouts under the current scorer, beside the scores that were recorded."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from capevolve.adapters.ready import refer_to_adapter
from capevolve.canonical import short
from capevolve.cli.console import out, show_note
from capevolve.cli.find import Found, find_candidate, found_run
from capevolve.errors import UserError
from capevolve.evaluate.comparison import Mean, RescoreComparison, compare
from capevolve.evaluate.rescore import Rescoring, rescore, select_evaluations
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.runs import RunRecord, read_run
from capevolve.report.wording import clean_line, format_number, format_value

NEW_RUN = (
    "Verdicts and the test number stand as they were claimed, under the scorer of their time. "
    "A claim under a changed scorer needs a new run."
)

_REASONS = {
    "truncated": "were cut when they were stored (too long)",
    "no_output": "have no stored output",
    "unreadable": "cannot be read",
    "scorer_error": "made the scorer raise; the next `rescore` asks again",
    "invalid_score": "got a score that is not one; the next `rescore` asks again",
    "timeout": "took the scorer too long; the next `rescore` asks again",
    "crash": "ended the scorer's process; the next `rescore` asks again",
}


def rescore_run(
    project: Path, run: str | None, candidate: str | None, split: str | None, *, again: bool = False
) -> None:
    """Scores the rollouts of a run again and shows old and new means."""
    if split not in (None, "train", "val", "test"):
        raise UserError(f"There is no split {split!r}.", where="--split", fix="Choose train or val.")
    with found_run(project, run) as found:
        with found.ledger.read() as connection:
            record = read_run(connection, found.run_id)
            candidate_id = (
                None if candidate is None else find_candidate(connection, found.run_id, candidate).id
            )
            chosen = select_evaluations(list_evaluations(connection, found.run_id), split, candidate_id)
        if not chosen:
            raise UserError("Nothing of this was evaluated.", where=f"run {found.run_id}")
        rescoring = asyncio.run(_rescore(found, split, candidate_id, again=again))
    _show(record, rescoring)


async def _rescore(found: Found, split: str | None, candidate_id: str | None, *, again: bool) -> Rescoring:
    spec = found.loaded.spec
    return await rescore(
        found.ledger,
        found.run_id,
        refer_to_adapter(found.loaded.root, spec),
        spec.evaluation,
        split=split,
        candidate_id=candidate_id,
        again=again,
        clock=time.time,
    )


def _show(record: RunRecord, rescoring: Rescoring) -> None:
    comparisons = [compare(rescored) for rescored in rescoring.evaluations]
    same = rescoring.facts.digest == record.adapter_digest
    which = "the adapter of the run" if same else "a changed adapter"
    out.print(
        f"run {record.id}, scored again by {short(rescoring.facts.digest)} ({which}): "
        f"{format_number(rescoring.scored_now, 'rollout')} now, the target was not called",
        markup=False,
    )
    out.print(_tabulate(comparisons))
    for comparison in comparisons:
        for sentence in _explain(comparison):
            out.print(f"- {sentence}", markup=False, style="dim")
    moved = sum(comparison.higher + comparison.lower for comparison in comparisons)
    if same and moved:
        out.print(
            "! The adapter did not change and the scores did: the scorer is no function of what is stored.",
            markup=False,
            style="bold yellow",
        )
    show_note(NEW_RUN)


def _tabulate(comparisons: list[RescoreComparison]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("candidate", "split", "old mean (n)", "new mean (n)", "tasks changed", "not rescored"):
        table.add_column(column, no_wrap=True)
    for comparison in comparisons:
        key = comparison.rescored.evaluation.key
        changed = comparison.higher + comparison.lower
        of = changed + comparison.same
        cells = (
            short(key.candidate_id),
            " ".join((key.split, *key.tag.split("/")[:2], "(subset)" if key.subset else "")).strip(),
            _format(comparison.old),
            _format(comparison.new),
            f"{changed} of {of} ({comparison.higher} up, {comparison.lower} down)",
            f"{sum(left.count for left in comparison.left):,}",
        )
        table.add_row(*map(escape, cells))
    return table


def _format(mean: Mean) -> str:
    return f"{format_value(mean.value)} ({format_number(mean.n_tasks, 'task')})"


def _explain(comparison: RescoreComparison) -> list[str]:
    """What must be known to read a line of the table."""
    key = comparison.rescored.evaluation.key
    name = f"{short(key.candidate_id)} on {' '.join((key.split, *key.tag.split('/')[:1]))}".strip()
    sentences = []
    for left in comparison.left:
        named = clean_line(", ".join(left.named)) + (", ..." if left.count > len(left.named) else "")
        words = _REASONS.get(
            left.reason, f"could not be scored ({left.reason}); the next `rescore` asks again"
        )
        sentences.append(f"{name}: {format_number(left.count, 'rollout')} {words}: {named}")
    if comparison.old.n_trials != comparison.new.n_trials or comparison.left:
        shared = comparison.old_shared
        sentences.append(
            f"{name}: over the {format_number(shared.n_trials, 'trial')} that have both scores the mean went "
            f"from {format_value(shared.value)} to {format_value(comparison.new_shared.value)}"
        )
    if comparison.agent_failures:
        count = format_number(comparison.agent_failures, "trial")
        sentences.append(f"{name}: {count} of the agent's own failure stay 0: no scorer is asked about them")
    return sentences
