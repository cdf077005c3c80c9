"""The state of a run as JSON, for programs: `capevolve status --json`. One schema, with a version."""

from __future__ import annotations

from typing import Any

from capevolve.canonical import short
from capevolve.report.measured import EvaluationFacts, MeanFacts
from capevolve.report.rows import find_verdict_words
from capevolve.report.status_schema import (
    AttemptStatus,
    DisclosureStatus,
    DriverStatus,
    EvaluationStatus,
    GapStatus,
    IterationStatus,
    RunStatus,
    ScoreStatus,
    SealStatus,
    ShrunkStatus,
    SpendStatus,
    SplitStatus,
    StatusDocument,
    VerdictStatus,
)
from capevolve.report.values import (
    AttemptFacts,
    FinalFacts,
    IterationFacts,
    RunFacts,
)


def render_status(facts: RunFacts) -> dict[str, Any]:
    """Returns the state of a run as JSON values."""
    return build_status(facts).model_dump(mode="json")


def build_status(facts: RunFacts) -> StatusDocument:
    """Returns the state of a run."""
    shrunk = facts.shrinkage
    return StatusDocument(
        as_of=facts.as_of,
        run=_run(facts),
        splits=_splits(facts),
        baseline_val=_evaluation(facts.baseline),
        incumbent_val=_evaluation(facts.best_val),
        incumbent_val_shrunk=None
        if shrunk is None
        else ShrunkStatus(reward=shrunk.value, weight=shrunk.weight, n_candidates=shrunk.n),
        iterations=[_iteration(iteration) for iteration in facts.iterations],
        max_iterations=facts.max_iterations,
        seal=SealStatus(
            state=facts.seal.name,
            looks=facts.seal.looks,
            chain_head=facts.seal.chain_head,
            attempts=[_attempt(attempt) for attempt in facts.seal.attempts],
        ),
        final=None if facts.final is None else facts.final.result,
        test_minus_val=_gap(facts.final),
        spend=[
            SpendStatus(
                role=spend.role,
                calls=spend.calls,
                cost_usd=spend.cost_usd,
                unpriced_calls=spend.unpriced,
                tokens=spend.tokens,
            )
            for spend in facts.spend
        ],
        disclosures=[
            DisclosureStatus(kind=disclosure.kind, banner=disclosure.banner, text=disclosure.text)
            for disclosure in facts.disclosures
        ],
    )


def _run(facts: RunFacts) -> RunStatus:
    info = facts.info
    driver = info.driver
    return RunStatus(
        id=info.id,
        name=info.name,
        status=info.liveness,
        stop_reason=info.stop_reason,
        created_at=info.created_at,
        ended_at=info.ended_at,
        version=info.version,
        spec_digest=info.spec_digest,
        adapter_digest=info.adapter_digest,
        seed_candidate=facts.seed_id,
        incumbent=facts.best_id,
        driver=None
        if driver is None
        else DriverStatus(
            pid=driver.pid,
            host=driver.host,
            epoch=driver.epoch,
            acquired_at=driver.acquired_at,
            heartbeat_at=driver.heartbeat_at,
            heartbeat_age_s=driver.heartbeat_age_s,
            released_at=driver.released_at,
        ),
    )


def _splits(facts: RunFacts) -> SplitStatus:
    splits = facts.splits
    return SplitStatus(
        train=splits.train,
        val=splits.val,
        test=splits.test,
        unused=splits.unused,
        seed=splits.seed,
        method=splits.method,
        holdout=splits.holdout,
        val_holdout=splits.val_holdout,
        digest=splits.digest,
        test_digest=splits.test_digest,
        test_used=splits.test_ids is not None,
        warnings=list(splits.warnings),
    )


def _evaluation(evaluation: EvaluationFacts | None) -> EvaluationStatus | None:
    if evaluation is None:
        return None
    return EvaluationStatus(
        candidate=evaluation.candidate_id,
        trials_done=evaluation.done,
        trials_total=evaluation.total,
        score=None if evaluation.score is None else _score(evaluation.score),
    )


def _score(score: MeanFacts) -> ScoreStatus:
    return ScoreStatus(
        reward=score.mean,
        stderr=score.se,
        ci95=None if score.interval is None else (score.interval.low, score.interval.high),
        n_scored=score.n_scored,
        n_tasks=score.n_tasks,
        coverage=score.coverage,
        num_trials=score.num_trials,
        n_trials=score.n_trials,
        n_missing=score.n_missing,
    )


def _iteration(iteration: IterationFacts) -> IterationStatus:
    candidate_id = iteration.candidate_id
    return IterationStatus(
        iteration=iteration.number,
        state=find_verdict_words(iteration),
        proposal=iteration.status,
        candidate=candidate_id,
        label=None if candidate_id is None else short(candidate_id),
        parent=iteration.parent_id,
        is_incumbent=iteration.is_incumbent,
        val=_evaluation(iteration.evaluation),
        verdict=_verdict(iteration),
        summary=iteration.summary,
        detail=iteration.detail,
        cost_usd=iteration.cost_usd,
        tokens=iteration.tokens,
    )


def _verdict(iteration: IterationFacts) -> VerdictStatus | None:
    verdict = iteration.verdict
    if verdict is None:
        return None
    return VerdictStatus(
        decision=verdict.decision.value,
        rule=verdict.rule,
        reason=verdict.reason,
        delta=verdict.delta.value,
        stderr=verdict.delta.se,
        bar=verdict.bar,
        p_value=verdict.p_value,
        n=verdict.n,
        improved=verdict.improved,
        worse=verdict.worse,
        same=verdict.same,
        dropped=verdict.dropped,
    )


def _attempt(attempt: AttemptFacts) -> AttemptStatus:
    return AttemptStatus(
        number=attempt.number,
        state=attempt.state,
        look=attempt.look,
        override_reason=attempt.override_reason,
        trials_claimed=attempt.claimed,
        trials_planned=attempt.planned,
        trials_interrupted=attempt.interrupted,
    )


def _gap(final: FinalFacts | None) -> GapStatus | None:
    return None if final is None else GapStatus(value=final.gap.value, stderr=final.gap.se)
