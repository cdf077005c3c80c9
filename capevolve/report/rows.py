"""The table of candidates as finished cells, shared by every surface that shows a table."""

from __future__ import annotations

from dataclasses import dataclass

from capevolve.canonical import short
from capevolve.model import Decision
from capevolve.report.measured import EvaluationFacts
from capevolve.report.values import IterationFacts, RunFacts
from capevolve.report.wording import (
    format_count,
    format_estimate,
    format_evaluation,
    format_usd,
    shorten,
)

COLUMNS = ("#", "candidate", "val ± SE", "n", "delta ± SE", "verdict", "reason")
"""Headings of the seven cells that every surface shows."""

REASON_LIMIT = 300
SUMMARY_LIMIT = 300
NO_CANDIDATE = "no candidate"
NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One row: plain text, clean of control characters, not escaped for any markup.

    Attributes:
        number: The iteration; 0 is the seed candidate.
        n: Val tasks measured, of those planned, with the coverage.
        delta: Against the incumbent that it edited.
        verdict: The gate's decision, or the proposal's status where there is none.
        counts: Tasks improved, worse and the same.
        summary: The proposer's words.
        tone: Which of a few looks the verdict has.
    """

    number: str
    candidate: str
    val: str
    n: str
    delta: str
    verdict: str
    reason: str
    counts: str = ""
    summary: str = ""
    cost: str = ""
    tone: str = "plain"

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells under `COLUMNS`."""
        return (self.number, self.candidate, self.val, self.n, self.delta, self.verdict, self.reason)

    def as_columns(self) -> dict[str, str]:
        """The cells by heading."""
        return dict(zip(COLUMNS, self.cells, strict=True))


def candidate_rows(facts: RunFacts) -> tuple[CandidateRow, ...]:
    """Returns the rows of a run: the seed candidate, then one per iteration."""
    seed = CandidateRow(
        number="0",
        candidate=short(facts.seed_id),
        val=format_evaluation(facts.baseline),
        n=_count(facts.baseline),
        delta="reference",
        verdict="seed candidate" if facts.accepted else "seed candidate, incumbent",
        reason="",
        tone="seed",
    )
    return (seed, *(_row(iteration) for iteration in facts.iterations))


def _row(iteration: IterationFacts) -> CandidateRow:
    verdict = iteration.verdict
    candidate_id = iteration.candidate_id
    return CandidateRow(
        number=str(iteration.number),
        candidate=NO_CANDIDATE if candidate_id is None else short(candidate_id),
        val=format_evaluation(iteration.evaluation),
        n=_count(iteration.evaluation),
        delta=NOT_JUDGED if verdict is None else format_estimate(verdict.delta),
        verdict=find_verdict_words(iteration),
        reason=shorten(iteration.detail if verdict is None else verdict.reason, REASON_LIMIT),
        counts="" if verdict is None else f"{verdict.improved} / {verdict.worse} / {verdict.same}",
        summary=shorten(iteration.summary, SUMMARY_LIMIT),
        cost=format_usd(iteration.cost_usd),
        tone=_find_tone(iteration),
    )


def _count(evaluation: EvaluationFacts | None) -> str:
    if evaluation is None or evaluation.score is None:
        return "0"
    return format_count(evaluation.score)


def find_verdict_words(iteration: IterationFacts) -> str:
    """Returns the decision on an iteration, or how far it is."""
    if iteration.verdict is not None:
        decision = iteration.verdict.decision.value
        return f"{decision}, incumbent" if iteration.is_incumbent else decision
    if iteration.status == "started":
        return "proposing"
    return "measuring" if iteration.status == "proposed" else iteration.status


def _find_tone(iteration: IterationFacts) -> str:
    if iteration.verdict is None:
        return "plain"
    tones = {Decision.ACCEPT: "accept", Decision.REJECT: "reject", Decision.INDECISIVE: "indecisive"}
    return tones[iteration.verdict.decision]
