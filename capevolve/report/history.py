"""What was tried and what became of it: pure functions of the run's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capevolve.ledger.proposals import ProposalRecord, VerdictRecord
from capevolve.model import Decision, Estimate
from capevolve.report.measured import EvaluationFacts, RoleSpend
from capevolve.report.values import IterationFacts, TrajectoryPoint, VerdictFacts
from capevolve.report.wording import clean_line

Evaluations = Mapping[str, EvaluationFacts]


def build_iterations(
    proposals: Sequence[ProposalRecord],
    verdicts: Sequence[VerdictRecord],
    evaluations: Evaluations,
    best_id: str,
) -> tuple[IterationFacts, ...]:
    """Returns one entry per iteration, in order.

    Args:
        evaluations: Val evaluations by candidate.
        best_id: The incumbent.
    """
    judged = {record.iteration: record for record in verdicts}
    return tuple(_describe(p, judged.get(p.iteration), evaluations, best_id) for p in proposals)


def _describe(
    proposal: ProposalRecord, judged: VerdictRecord | None, evaluations: Evaluations, best_id: str
) -> IterationFacts:
    accepted = judged is not None and judged.verdict.decision is Decision.ACCEPT
    return IterationFacts(
        number=proposal.iteration,
        status=proposal.status,
        candidate_id=proposal.candidate_id,
        parent_id=proposal.parent_id,
        evaluation=evaluations.get(proposal.candidate_id or ""),
        verdict=None if judged is None else _describe_verdict(judged),
        is_incumbent=accepted and proposal.candidate_id == best_id,
        summary=clean_line(proposal.summary),
        detail=clean_line(proposal.detail),
        cost_usd=proposal.cost_usd,
        tokens=proposal.tokens,
        calls=proposal.calls,
        started_at=proposal.started_at,
        finished_at=proposal.finished_at,
    )


def _describe_verdict(record: VerdictRecord) -> VerdictFacts:
    verdict = record.verdict
    return VerdictFacts(
        decision=verdict.decision,
        rule=clean_line(verdict.rule),
        reason=clean_line(verdict.reason),
        delta=Estimate(verdict.delta, verdict.se),
        bar=verdict.bar,
        p_value=verdict.p_value,
        n=verdict.n,
        improved=verdict.improved,
        worse=verdict.worse,
        same=verdict.same,
        dropped=len(verdict.dropped),
    )


def build_trajectory(
    seed_id: str, iterations: Sequence[IterationFacts], evaluations: Evaluations
) -> tuple[TrajectoryPoint, ...]:
    """Returns the incumbent's val score at the start and after every iteration that was judged."""
    points = []
    incumbent = seed_id
    for number, iteration in [(0, None), *((i.number, i) for i in iterations if i.verdict is not None)]:
        if iteration is not None and iteration.verdict is not None and iteration.candidate_id is not None:
            accepted = iteration.verdict.decision is Decision.ACCEPT
            incumbent = iteration.candidate_id if accepted else incumbent
        evaluation = evaluations.get(incumbent)
        if evaluation is not None and evaluation.score is not None:
            points.append(TrajectoryPoint(number, incumbent, evaluation.score))
    return tuple(points)


def sum_proposer_spend(proposals: Sequence[ProposalRecord]) -> RoleSpend:
    """Returns what the proposer has cost. An interrupted call's price is unknown."""
    prices = [proposal.cost_usd for proposal in proposals if proposal.cost_usd is not None]
    tokens = [proposal.tokens for proposal in proposals if proposal.tokens is not None]
    calls = sum(proposal.calls for proposal in proposals)
    return RoleSpend(
        "proposer",
        calls,
        sum(prices) if prices else None,
        calls - len(prices),
        sum(tokens) if tokens else None,
    )
