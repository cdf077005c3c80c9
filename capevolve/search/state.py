"""What a search policy sees, and what it answers: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from capevolve.ledger.proposals import ProposalRecord, ProposalStatus, VerdictRecord
from capevolve.model import Decision


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration that has ended: `decision` is None when there was nothing to evaluate."""

    number: int
    status: ProposalStatus
    candidate_id: str | None
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class SearchState:
    """The run so far.

    Attributes:
        finished: Iterations that need no more work, in order.
        incumbent_id: The latest accepted candidate, at first the seed candidate.
        incumbent_mean: Its val mean; None when it is unknown or a trial of it is missing.
    """

    finished: tuple[Iteration, ...]
    incumbent_id: str
    incumbent_mean: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next.

    Attributes:
        iteration: The iteration to make, or to continue, from 1; None ends the search.
        parent_id: The candidate to edit.
        stop_reason: Why the search ends.
    """

    iteration: int | None
    parent_id: str
    stop_reason: str | None


def find_incumbent(seed_id: str, verdicts: tuple[VerdictRecord, ...]) -> str:
    """The latest accepted candidate; the seed candidate before the first acceptance."""
    accepted = [v.candidate_id for v in verdicts if v.verdict.decision is Decision.ACCEPT]
    return accepted[-1] if accepted else seed_id


def build_state(
    seed_id: str,
    proposals: tuple[ProposalRecord, ...],
    verdicts: tuple[VerdictRecord, ...],
    incumbent_mean: float | None,
) -> SearchState:
    """Derives the state from the run's rows.

    An iteration has ended when it has a verdict, or when its proposal ended without a new candidate. A
    `started` or `proposed` one without a verdict is continued.
    """
    decisions = {v.iteration: v.verdict.decision for v in verdicts}
    finished = tuple(
        Iteration(p.iteration, p.status, p.candidate_id, decisions.get(p.iteration))
        for p in proposals
        if p.iteration in decisions or p.status not in ("started", "proposed")
    )
    return SearchState(finished, find_incumbent(seed_id, verdicts), incumbent_mean)
