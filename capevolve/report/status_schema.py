"""The schema of `capevolve status --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from capevolve.report.values import (
    Liveness,
    SealName,
)
from capevolve.result import FinalResult


class _Stated(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DriverStatus(_Stated):
    """Who drives the run, or last did."""

    pid: int
    host: str
    epoch: int
    acquired_at: float
    heartbeat_at: float
    heartbeat_age_s: float
    released_at: float | None


class RunStatus(_Stated):
    """What the run is. `status` is told from the lease and the process table."""

    id: str
    name: str
    status: Liveness
    stop_reason: str | None
    created_at: float
    ended_at: float | None
    version: str
    spec_digest: str
    adapter_digest: str
    seed_candidate: str
    incumbent: str
    driver: DriverStatus | None


class ScoreStatus(_Stated):
    """A mean reward; `stderr` and `ci95` are null where undefined, never 0."""

    reward: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n_scored: int
    n_tasks: int
    coverage: float | None
    num_trials: int
    n_trials: int
    n_missing: int


class EvaluationStatus(_Stated):
    """An evaluation on val; `score` is null until every trial has its result."""

    candidate: str
    trials_done: int
    trials_total: int
    score: ScoreStatus | None


class VerdictStatus(_Stated):
    """A gate's verdict; the delta is against the incumbent at that time."""

    decision: Literal["accept", "reject", "indecisive"]
    rule: str
    reason: str
    delta: float | None
    stderr: float | None
    bar: float | None
    p_value: float | None
    n: int
    improved: int
    worse: int
    same: int
    dropped: int


class IterationStatus(_Stated):
    """One iteration. `state` is the decision where there is one, else how far it is."""

    iteration: int
    state: str
    proposal: str
    candidate: str | None
    label: str | None
    parent: str
    is_incumbent: bool
    val: EvaluationStatus | None
    verdict: VerdictStatus | None
    summary: str
    detail: str
    cost_usd: float | None
    tokens: int | None


class SplitStatus(_Stated):
    """The frozen splits."""

    train: int
    val: int
    test: int
    unused: int
    seed: int
    method: str
    holdout: bool
    val_holdout: bool
    digest: str
    test_digest: str
    test_used: bool
    warnings: list[str]


class AttemptStatus(_Stated):
    """An attempt at the test split."""

    number: int
    state: Literal["open", "committed", "superseded"]
    look: int
    override_reason: str | None
    trials_claimed: int
    trials_planned: int
    trials_interrupted: int


class SealStatus(_Stated):
    """The seal; `looks` counts the attempts of all runs at this test set."""

    state: SealName
    looks: int
    chain_head: str | None
    attempts: list[AttemptStatus]


class SpendStatus(_Stated):
    """What a role has cost; null is not reported, which is not 0."""

    role: Literal["target", "proposer"]
    calls: int
    cost_usd: float | None
    unpriced_calls: int
    tokens: int | None


class ShrunkStatus(_Stated):
    """The incumbent's val mean with its selection accounted for."""

    reward: float
    weight: float
    n_candidates: int


class GapStatus(_Stated):
    """Test minus val of the best candidate."""

    value: float | None
    stderr: float | None


class DisclosureStatus(_Stated):
    """What a reader must know; a banner comes before the first number."""

    kind: str
    banner: bool
    text: str


class StatusDocument(_Stated):
    """`capevolve status --json`, version 1. `final` is `final.json`; null means not finalised."""

    schema_version: Literal[1] = 1
    as_of: float
    run: RunStatus
    splits: SplitStatus
    baseline_val: EvaluationStatus | None
    incumbent_val: EvaluationStatus | None
    incumbent_val_shrunk: ShrunkStatus | None
    iterations: list[IterationStatus]
    max_iterations: int
    seal: SealStatus
    final: FinalResult | None
    test_minus_val: GapStatus | None
    spend: list[SpendStatus]
    disclosures: list[DisclosureStatus]
