"""Everything a report shows, as values: each number with its error, its n and its coverage.

What is undefined is None. All text in here is one line without control or bidirectional characters, except
task ids in `SplitFacts`, which are data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capevolve.evaluate.course import Course
from capevolve.gate.val_record import Shrunken
from capevolve.ledger.attempts import AttemptState
from capevolve.ledger.proposals import ProposalStatus
from capevolve.model import Decision, Estimate
from capevolve.report.measured import EvaluationFacts, Matrix, MeanFacts, RoleSpend, TaskScore
from capevolve.result import FinalResult

Liveness = Literal["never started", "running", "stalled", "stopped", "crashed", "finished"]
SealName = Literal["sealed", "open", "committed"]


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """Who drives a run, or last did; `heartbeat_age_s` is at least 0."""

    pid: int
    host: str
    epoch: int
    acquired_at: float
    heartbeat_at: float
    heartbeat_age_s: float
    released_at: float | None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a run is and how it stands, told from the lease and not from what the run said of itself."""

    id: str
    name: str
    liveness: Liveness
    stop_reason: str | None
    created_at: float
    ended_at: float | None
    version: str
    spec_digest: str
    adapter_digest: str
    driver: DriverFacts | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """What two splits share: task ids, and contents under any id."""

    first: str
    second: str
    ids: int
    contents: int


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """The frozen splits.

    Attributes:
        test_ids: None until a result was committed.
        overlaps: Pairs of splits that share something, computed from the tasks; pairs with test only once
            its ids are known.
    """

    train: int
    val: int
    test: int
    unused: int
    seed: int
    method: str
    holdout: bool
    val_holdout: bool
    warnings: tuple[str, ...]
    digest: str
    test_digest: str
    test_ids_digest: str
    train_ids: tuple[str, ...]
    val_ids: tuple[str, ...]
    test_ids: tuple[str, ...] | None
    overlaps: tuple[Overlap, ...]


@dataclass(frozen=True, slots=True)
class ConfirmFacts:
    """Mode confirm: the run-level error, the confirmations that may fail, and those that did."""

    alpha_run: float
    slots: int
    failed: int


@dataclass(frozen=True, slots=True)
class GateFacts:
    """The gate and what it costs.

    Attributes:
        looks: Verdicts so far.
        false_accept: The chance that one look accepts an edit that changes nothing; None when unknown.
        any_false_accept: The chance that `looks` such edits include an accepted one; None when unknown or
            before the first look.
        confirm: For mode confirm, whose error is bounded and not estimated.
    """

    mode: str
    k_se: float
    threshold: float
    min_coverage: float
    looks: int
    false_accept: float | None
    any_false_accept: float | None
    confirm: ConfirmFacts | None = None


@dataclass(frozen=True, slots=True)
class VerdictFacts:
    """The gate's verdict; `delta` is against the incumbent, over the `n` tasks measured on both sides."""

    decision: Decision
    rule: str
    reason: str
    delta: Estimate
    bar: float | None
    p_value: float | None
    n: int
    improved: int
    worse: int
    same: int
    dropped: int


@dataclass(frozen=True, slots=True)
class IterationFacts:
    """One iteration: what was proposed and what became of it.

    Attributes:
        evaluation: The candidate's on val; for a duplicate that of the candidate it repeats.
        verdict: None when there was nothing to judge, or not yet.
        is_incumbent: Whether its candidate is the incumbent now.
    """

    number: int
    status: ProposalStatus
    candidate_id: str | None
    parent_id: str
    evaluation: EvaluationFacts | None
    verdict: VerdictFacts | None
    is_incumbent: bool
    summary: str
    detail: str
    cost_usd: float | None
    tokens: int | None
    calls: int
    started_at: float
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class TrajectoryPoint:
    """The incumbent after an iteration; 0 is the seed candidate."""

    iteration: int
    candidate_id: str
    score: MeanFacts


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """An attempt at the test split; `claimed` of `planned` test trials were begun."""

    number: int
    state: AttemptState
    look: int
    override_reason: str | None
    opened_at: float
    ended_at: float | None
    claimed: int
    planned: int
    interrupted: int
    result: FinalResult | None


@dataclass(frozen=True, slots=True)
class SealFacts:
    """The seal and every look.

    Attributes:
        looks: Attempts at this test set by all runs of the ledger, so far.
        chain_head: Hash of the last seal event; None when there is none.
    """

    name: SealName
    attempts: tuple[AttemptFacts, ...]
    looks: int
    chain_head: str | None


@dataclass(frozen=True, slots=True)
class TestTaskFacts:
    """A test task after the commit.

    Attributes:
        best, baseline: Either candidate on it; `baseline` is None when the best is the seed candidate.
        delta: best - baseline, over these trials; undefined unless both were measured.
        note: What was not measured.
    """

    __test__ = False

    task_id: str
    best: TaskScore
    baseline: TaskScore | None
    delta: Estimate
    note: str


@dataclass(frozen=True, slots=True)
class FinalFacts:
    """The committed result.

    Attributes:
        result: `final.json`.
        best, baseline: Its two candidates on test.
        gap: Test minus val of the best candidate; the error treats both as independent.
        tasks: Every test task, sorted by delta, those without one last.
        attempt: The number of the attempt it comes from.
    """

    result: FinalResult
    best: MeanFacts
    baseline: MeanFacts
    gap: Estimate
    tasks: tuple[TestTaskFacts, ...]
    attempt: int
    committed_at: float | None


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What a reader must know about the numbers; a `banner` comes before the first of them."""

    kind: str
    text: str
    banner: bool = False


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as its ledger proves it, at the time `as_of`.

    Attributes:
        seed_id, best_id: The seed candidate and the incumbent.
        baseline, best_val: Their evaluations on val; None before the first trial.
        num_trials, test_num_trials: Trials per task on val and on test.
        final: The latest committed result; None when the run is not finalised.
        shrinkage: None for fewer than four measured candidates.
        course: What rate limits did to the concurrency; None without any.
    """

    info: RunInfo
    as_of: float
    seed_id: str
    best_id: str
    splits: SplitFacts
    gate: GateFacts
    num_trials: int
    test_num_trials: int
    max_iterations: int
    baseline: EvaluationFacts | None
    best_val: EvaluationFacts | None
    iterations: tuple[IterationFacts, ...]
    trajectory: tuple[TrajectoryPoint, ...]
    matrix: Matrix
    seal: SealFacts
    final: FinalFacts | None
    shrinkage: Shrunken | None
    spend: tuple[RoleSpend, ...]
    disclosures: tuple[Disclosure, ...]
    course: Course | None = None

    @property
    def accepted(self) -> bool:
        """Whether any candidate replaced the seed candidate."""
        return self.best_id != self.seed_id

    @property
    def banners(self) -> tuple[Disclosure, ...]:
        """The disclosures that come before the first number."""
        return tuple(d for d in self.disclosures if d.banner)

    @property
    def caveats(self) -> tuple[Disclosure, ...]:
        """The other disclosures."""
        return tuple(d for d in self.disclosures if not d.banner)
