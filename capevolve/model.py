"""The nouns of capevolve as values: what an adapter speaks, what a trial yields, what a gate decides.

`Task`, `Rollout` and `Score` are written by users in their adapters, so they are plain dataclasses with
the fields of cap-evolve. Everything else is frozen. A trial that was not measured is a case of a type
(`Unmeasured`), never a 0 and never a NaN.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")

PASS_REWARD = 1.0 - 1e-9
"""A trial passes when its reward is at least this."""


class AgentFailure(Exception):  # noqa: N818  (the word users know)
    """Raised by `run_target` when the agent itself failed: the trial scores 0."""


@dataclass
class Task:
    """One evaluation case.

    Attributes:
        id: Stable, unique text.
        input: What the agent is given. JSON.
        target: What the scorer compares with. JSON. Never shown to the agent by capevolve.
        metadata: Free JSON; `cluster` names the cluster for clustered errors, any key can group splits.
    """

    id: str
    input: Any = None
    target: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)


def task_seed(task: Task, seed: int) -> int:
    """Returns a seed of a task's own for a trial, the same for every candidate.

    Trial k has the seed base_seed + k on every task. An agent that draws its random numbers from that alone
    has the same luck on every task of trial k: tasks are then not independent, and every standard error and
    p-value is too small.

    Args:
        task: The task that is run.
        seed: What `run_target` was given.

    Returns:
        In [0, 2^31): a hash of both.
    """
    text = f"{seed} {task.id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


@dataclass
class Rollout:
    """What one trial of the target produced.

    Attributes:
        error: Set when the *infrastructure* failed: the trial becomes missing data. A failure of the
            agent itself is a low score or an `AgentFailure`, not an error.
        cost_usd: What the trial cost; None is "not reported", which is not 0.
    """

    task_id: str
    output: Any = None
    trace: Any = None
    tool_calls: list[Any] = field(default_factory=list)
    cost_usd: float | None = None
    tokens: int | None = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Score:
    """The score of one rollout.

    Attributes:
        reward: In [0, 1]. Anything else makes the trial unmeasured, by name; nothing is clamped.
        feedback: Words for the proposer. Only train feedback ever reaches it.
        metrics: Shown-only figures, each `{name, value, primary, direction}`; exactly one is primary and
            equals `reward`.
        n, stderr, trial_rewards, raw: Accepted from cap-evolve adapters and ignored: capevolve counts
            trials itself.
    """

    task_id: str
    reward: float = 0.0
    feedback: str = ""
    n: int = 1
    stderr: float = 0.0
    trial_rewards: list[float] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)


class Reason(StrEnum):
    """Why a trial has no reward."""

    INFRA = "infra"
    CRASH = "crash"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    SCORER_ERROR = "scorer_error"
    INVALID_SCORE = "invalid_score"


SCORERS_FAULTS = frozenset({Reason.SCORER_ERROR, Reason.INVALID_SCORE})
"""The reasons of a trial whose target left a rollout: its scorer was called."""

TOO_SLOW = "timeout: the agent was "
"""What the feedback of a trial begins with that scores 0 because it was over its limit."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A trial that was measured; `reward` is in [0, 1]."""

    reward: float


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A trial that ended without a reward: missing data."""

    reason: Reason
    detail: str = ""


Outcome = Scored | Unmeasured


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task as the splits froze it: its id, the digest of its content (without the id), its cluster."""

    id: str
    digest: str
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class TaskOutcomes:
    """All trials of one task in one evaluation.

    Attributes:
        rewards: The rewards of the measured trials, in trial order.
        unmeasured: The trials that ended without a reward.
    """

    task_id: str
    rewards: tuple[float, ...]
    unmeasured: tuple[Unmeasured, ...] = ()
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of an evaluation: per-task values of one candidate on one split.

    Attributes:
        evaluation_id: The evaluation it was read from.
        candidate_id: The candidate's digest.
        subset: True when only some tasks of the split were asked for; such a measurement never gates.
        num_trials: Trials planned per task.
        tasks: One entry per task of the evaluation, in split order, measured or not.
    """

    evaluation_id: str
    candidate_id: str
    split: Split
    num_trials: int
    base_seed: int
    tasks: tuple[TaskOutcomes, ...]
    subset: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error; either is None when undefined."""

    value: float | None
    se: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a measurement says about a split.

    Attributes:
        mean: Unweighted mean of the task means over tasks with a measured trial; None when there is none.
        se: Standard error of `mean` for new tasks and new trials (see `stats.combined_stderr`).
        fixed_se: Standard error for these tasks only; None when a task has fewer than two trials.
        n_tasks: Tasks planned.
        n_scored: Tasks with at least one measured trial.
        coverage: `n_scored / n_tasks`; None when no task was planned.
        n_trials: Trials measured.
        n_missing: Trials that ended unmeasured.
        pass_k: For each measured k, the chance that all k trials pass.
        pass_at_k: For each measured k, the chance that at least one of k trials passes.
    """

    mean: float | None
    se: float | None
    fixed_se: float | None
    n_tasks: int
    n_scored: int
    coverage: float | None
    n_trials: int
    n_missing: int
    pass_k: Mapping[int, Estimate]
    pass_at_k: Mapping[int, Estimate]


class Decision(StrEnum):
    """What a gate says of a proposal."""

    ACCEPT = "accept"
    REJECT = "reject"
    INDECISIVE = "indecisive"


@dataclass(frozen=True, slots=True)
class StageVerdict:
    """What one stage of a confirmation found.

    Attributes:
        stage: `race`, `screen`, `peek`, `look-1`, ...
        p_value: One-sided, of all that the stage judges on; None when too little was measured for one.
        reject_above: The stage rejects a larger p-value.
        accept_at: The stage accepts this p-value or a smaller one; None for a stage that can never accept.
        slot: Which of the slots a look uses, from 1; None for a stage that spends no alpha.
        alpha: The level of that slot.
        num_trials, base_seed: Trials per task and arm that the stage added, and the seed of the first.
        candidate_evaluation, incumbent_evaluation: Where they are; None where the incumbent's record served.
        task_ids: The val tasks of a peek and of the look that completes it; None is all of them, or the part
            that a race or a screen takes.
    """

    stage: str
    p_value: float | None
    reject_above: float
    accept_at: float | None
    slot: int | None
    alpha: float | None
    num_trials: int
    base_seed: int
    candidate_evaluation: str
    incumbent_evaluation: str | None
    task_ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate's decision with everything it rests on.

    Attributes:
        rule: The rule that decided, which is the mode or a fall-back named in `reason`.
        delta: Mean paired (or unpaired) improvement over the incumbent; None when undefined.
        se: Standard error of `delta`; None when undefined.
        bar: What `delta` had to exceed; None where a p-value decided.
        p_value: One-sided p-value where one decided or was computed.
        n: Tasks that entered the comparison.
        improved, worse, same: Counts of those tasks by sign of their delta.
        dropped: Tasks left out, each with the reason.
        stages: For mode `confirm` what was judged on, stage by stage.
    """

    decision: Decision
    rule: str
    reason: str
    delta: float | None
    se: float | None
    bar: float | None
    p_value: float | None
    n: int
    improved: int
    worse: int
    same: int
    dropped: tuple[tuple[str, str], ...] = ()
    stages: tuple[StageVerdict, ...] = ()
