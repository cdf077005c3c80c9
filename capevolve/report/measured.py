"""What was measured and what it cost, as values: a mean is never without its error, n and coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capevolve.stats import Interval


@dataclass(frozen=True, slots=True)
class MeanFacts:
    """A candidate's mean reward on a split.

    Attributes:
        mean: Unweighted mean of the task means; None when nothing was measured.
        se: Its standard error; None for fewer than two tasks or clusters, and where all tasks agree, which
            says nothing of the error of their mean.
        interval: Two-sided 95 % interval within [0, 1]; Student's t, or Wilson's where `se` is None because
            every task passed or every task failed.
        n_scored, n_tasks: Tasks measured, of tasks planned; `coverage` is their ratio.
        num_trials: Trials planned per task.
        n_trials, n_missing: Trials measured, and trials that ended without a reward.
        missing: (reason, trials) of the latter.
    """

    mean: float | None
    se: float | None
    interval: Interval | None
    interval_kind: Literal["t", "wilson"] | None
    n_scored: int
    n_tasks: int
    coverage: float | None
    num_trials: int
    n_trials: int
    n_missing: int
    missing: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationFacts:
    """A candidate's evaluation on val: `score` is None until every trial has its result."""

    candidate_id: str
    done: int
    total: int
    score: MeanFacts | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A candidate on one val task.

    Attributes:
        mean: Mean reward over the measured trials; None when there is none, and `note` then says why.
    """

    mean: float | None
    n_trials: int
    note: str


@dataclass(frozen=True, slots=True)
class TaskScore:
    """A candidate on one test task: a `Cell` with the standard error over its trials; None below two."""

    mean: float | None
    se: float | None
    n_trials: int
    note: str


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """A candidate in the matrix; `iteration` is 0 for the seed candidate."""

    iteration: int
    candidate_id: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A val task in the matrix, one cell per column."""

    task_id: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Val tasks by candidates."""

    columns: tuple[MatrixColumn, ...]
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True, slots=True)
class RoleSpend:
    """What one role has cost.

    Attributes:
        cost_usd: Sum of what was reported; None when no call reported a price.
        unpriced: Calls without a reported price.
        tokens: None when not reported.
    """

    role: Literal["target", "proposer"]
    calls: int
    cost_usd: float | None
    unpriced: int
    tokens: int | None
