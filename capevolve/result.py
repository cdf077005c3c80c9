"""The result of a run, `final.json`: the test numbers, what they rest on, and how often test was looked at.

Pure: measurements in, result out. The stored JSON is this model; `capevolve verify` builds it again from
the trials and compares.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from capevolve.canonical import canonical_json
from capevolve.gate.val_record import ValRecord
from capevolve.ledger.runs import SplitSet
from capevolve.model import Estimate, Measurement, Summary
from capevolve.stats import PValue, compare, sign_flip, summarize, within_task_permutation

INDICATIVE_BELOW = 8
"""With fewer test tasks than this the interval of the delta is only indicative."""


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PassRate(_Stored):
    """pass^k or pass@k for one measured k, with its standard error."""

    value: float | None
    se: float | None


class TestScore(_Stored):
    """One candidate on the test split.

    `reward` is the mean over scored tasks of their mean reward, `stderr` its standard error for new tasks
    and new trials, `fixed_stderr` for these tasks only; None where undefined. `pass_k` and `pass_at_k`
    hold measured k only.
    """

    __test__ = False

    candidate: str
    reward: float | None
    stderr: float | None
    fixed_stderr: float | None
    n_tasks: int
    n_scored: int
    coverage: float | None
    num_trials: int
    n_trials: int
    n_missing: int
    pass_k: dict[str, PassRate]
    pass_at_k: dict[str, PassRate]


class PermutationP(_Stored):
    """A one-sided permutation p-value; `exact` is False when it was estimated by Monte Carlo."""

    value: float
    exact: bool


class TestDelta(_Stored):
    """The held-out improvement: best minus seed, paired by task.

    Attributes:
        delta: Mean over tasks scored on both sides of the difference of task means.
        ci95: Two-sided 95 % t interval; clustered when tasks have clusters. None when undefined.
        p_t: One-sided p of the paired t test.
        p_sign_flip: One-sided p over tasks: carries the claim to new tasks.
        p_within_task: One-sided p within these tasks.
        indicative: True when so few tasks entered that the interval is only indicative.
    """

    __test__ = False

    delta: float | None
    stderr: float | None
    df: int | None
    ci95: tuple[float, float] | None
    p_t: float | None
    p_sign_flip: PermutationP | None
    p_within_task: PermutationP | None
    n: int
    improved: int
    worse: int
    same: int
    dropped: tuple[tuple[str, str], ...]
    degenerate: bool
    indicative: bool


class SealRecord(_Stored):
    """How the test split was used.

    Attributes:
        look: Which look at this test set this result is, over all runs of the ledger.
        looks: Looks at this test set so far.
        attempts: Attempts of this run.
        interrupted_trials: Test trials that were in flight when a driver died, and ran again.
        chain_head: Hash of the last seal event before the commit.
    """

    look: int
    looks: int
    attempts: int
    interrupted_trials: int
    override_reason: str | None
    plan_digest: str
    test_digest: str
    chain_head: str


class FinalResult(_Stored):
    """`final.json`, version 1."""

    schema_version: Literal[1] = 1
    run: str
    capevolve_version: str
    kind: Literal["held_out", "fit_metric"]
    best_id: str
    baseline_id: str
    test: TestScore
    test_baseline: TestScore
    test_delta: TestDelta | None
    test_delta_reason: Literal["no_change", "not_measured"] | None
    test_looks: int
    seal: SealRecord
    val: ValRecord | None = None

    def to_json(self) -> str:
        """The result as canonical JSON."""
        return canonical_json(self.model_dump(mode="json"))


def build_result(
    *,
    run_id: str,
    version: str,
    best_id: str,
    seed_id: str,
    best: Measurement,
    seed: Measurement | None,
    ks: tuple[int, ...],
    splits: SplitSet,
    seal: SealRecord,
    val: ValRecord | None = None,
) -> FinalResult:
    """Computes the result from the test measurements.

    Args:
        seed: The seed candidate's measurement; None when the best candidate is the seed candidate, which
            leaves `test_delta` undefined with the reason `no_change`.
    """
    delta = None if seed is None else _delta(best, seed)
    reason: Literal["no_change", "not_measured"] | None = None
    if seed is None:
        reason = "no_change"
    elif delta is None:
        reason = "not_measured"
    return FinalResult(
        run=run_id,
        capevolve_version=version,
        kind="held_out" if splits.holdout else "fit_metric",
        best_id=best_id,
        baseline_id=seed_id,
        test=_score(best, ks),
        test_baseline=_score(seed or best, ks),
        test_delta=delta,
        test_delta_reason=reason,
        test_looks=seal.look,
        seal=seal,
        val=val,
    )


def _score(measurement: Measurement, ks: tuple[int, ...]) -> TestScore:
    summary: Summary = summarize(measurement, ks)
    return TestScore(
        candidate=measurement.candidate_id,
        reward=summary.mean,
        stderr=summary.se,
        fixed_stderr=summary.fixed_se,
        n_tasks=summary.n_tasks,
        n_scored=summary.n_scored,
        coverage=summary.coverage,
        num_trials=measurement.num_trials,
        n_trials=summary.n_trials,
        n_missing=summary.n_missing,
        pass_k={str(k): _rate(value) for k, value in summary.pass_k.items()},
        pass_at_k={str(k): _rate(value) for k, value in summary.pass_at_k.items()},
    )


def _rate(estimate: Estimate) -> PassRate:
    return PassRate(value=estimate.value, se=estimate.se)


def _p_value(p: PValue | None) -> PermutationP | None:
    return None if p is None else PermutationP(value=p.value, exact=p.exact)


def _delta(best: Measurement, seed: Measurement) -> TestDelta | None:
    comparison = compare(best, seed)
    if comparison.mean is None:
        return None
    return TestDelta(
        delta=comparison.mean,
        stderr=comparison.se,
        df=comparison.df,
        ci95=None if comparison.ci is None else (comparison.ci.low, comparison.ci.high),
        p_t=comparison.p_t,
        p_sign_flip=_p_value(sign_flip(comparison.unit_deltas)),
        p_within_task=_p_value(within_task_permutation(comparison.arms)),
        n=comparison.n,
        improved=comparison.improved,
        worse=comparison.worse,
        same=comparison.same,
        dropped=comparison.dropped,
        degenerate=comparison.degenerate,
        indicative=comparison.n < INDICATIVE_BELOW,
    )
