"""How far an evaluation is, for bars and artifacts."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        cost = self.cost_usd + (cost_usd or 0.0)
        if isinstance(outcome, Scored):
            total = self.reward_sum + outcome.reward
            return replace(self, done=self.done + 1, scored=self.scored + 1, reward_sum=total, cost_usd=cost)
        return replace(self, done=self.done + 1, missing=self.missing + 1, cost_usd=cost)


def ignore_progress(_progress: Progress) -> None:
    """Shows nothing."""
