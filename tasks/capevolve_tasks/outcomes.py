"""What the tasks hand to the flow: small frozen records. The values behind them are in the ledger."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Started:
    """A run whose splits are frozen; `sizes` are (split, tasks)."""

    seed_id: str
    sizes: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation's mean ± SE with its coverage.

    Attributes:
        exhausted: The cap that stopped it; None when it is finished. What was measured is kept.
        invalid: Why the candidate cannot be evaluated at all: the adapter cannot make it live.
    """

    candidate_id: str
    split: str
    mean: float | None
    se: float | None
    n_scored: int
    n_tasks: int
    exhausted: str | None = None
    invalid: str | None = None


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal; `candidate_id` is set when there is something to evaluate."""

    iteration: int
    status: str
    candidate_id: str | None
    summary: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict in short."""

    iteration: int
    decision: str
    reason: str


@dataclass(frozen=True, slots=True)
class Finalized:
    """The test numbers in short; `delta` is None with a reason when nothing was accepted."""

    test: float | None
    test_baseline: float | None
    delta: float | None
    delta_reason: str | None
    look: int
    fresh: bool
