"""Hill climbing: every proposal edits the incumbent, and an accepted one becomes it."""

from __future__ import annotations

from dataclasses import dataclass

from capevolve.model import PASS_REWARD, Decision
from capevolve.search.state import SearchState, Step

MAX_BARREN = 3
"""Consecutive proposals without a candidate to evaluate after which the search ends."""


@dataclass(frozen=True, slots=True)
class HillClimb:
    """The policy and its limits.

    Attributes:
        max_iterations: Proposals to make at most.
        stall: Consecutive rejections after which the search ends; 0 is never. An indecisive verdict is
            no judgement on the edit: it neither counts nor resets.
    """

    max_iterations: int
    stall: int

    def plan_step(self, state: SearchState) -> Step:
        """The next step for a state: the iteration to make, or why the search ends."""
        reason = self._stop_reason(state)
        if reason is not None:
            return Step(None, state.incumbent_id, reason)
        return Step(len(state.finished) + 1, state.incumbent_id, None)

    def _stop_reason(self, state: SearchState) -> str | None:
        finished = state.finished
        if state.incumbent_mean is not None and state.incumbent_mean >= PASS_REWARD:
            return "no headroom: the incumbent already scores 1.0 on val"
        if finished and finished[-1].status == "exhausted":
            return "the proposer has nothing more to propose"
        if len(finished) >= self.max_iterations:
            return f"max_iterations reached ({self.max_iterations})"
        rejections = _count_rejections(state)
        if self.stall and rejections >= self.stall:
            return f"stalled: {rejections} rejections in a row"
        barren = _count_barren(state)
        if barren >= MAX_BARREN:
            return f"{barren} proposals in a row held nothing to evaluate"
        return None


def _count_rejections(state: SearchState) -> int:
    count = 0
    for iteration in reversed(state.finished):
        if iteration.decision is Decision.ACCEPT:
            break
        count += iteration.decision is Decision.REJECT
    return count


def _count_barren(state: SearchState) -> int:
    count = 0
    for iteration in reversed(state.finished):
        if iteration.decision is not None:
            break
        count += 1
    return count
