"""How far an evaluation is, for bars and artifacts."""

from __future__ import annotations

from dataclasses import dataclass

from capevolve.model import Outcome, Scored


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of an evaluation under way.

    Attributes:
        done: Trials with a result, of `total`.
        scored: Trials measured so far in this session; `reward_sum` is the sum of their rewards.
        missing: Trials that ended unmeasured in this session.
        cost_usd: Sum of the reported costs of this session.
    """

    title: str
    done: int
    total: int
    scored: int = 0
    missing: int = 0
    reward_sum: float = 0.0
    cost_usd: float = 0.0

    @property
    def mean(self) -> float | None:
        """Mean reward of the trials measured in this session; None before the first."""
        return self.reward_sum / self.scored if self.scored else None

    def count(self, outcome: Outcome, cost_usd: float | None) -> Progress:
        """The progress after one more trial."""
        measured = isinstance(outcome, Scored)
        return Progress(  # not `replace`: it takes four times as long, once for every trial
            self.title,
            self.done + 1,
            self.total,
            self.scored + measured,
            self.missing + (not measured),
            self.reward_sum + (outcome.reward if isinstance(outcome, Scored) else 0.0),
            self.cost_usd + (cost_usd or 0.0),
        )


def ignore_progress(_progress: Progress) -> None:
    """Shows nothing."""
