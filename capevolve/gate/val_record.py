"""What a result keeps of val, and the selected mean with its selection accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from capevolve.model import Measurement
from capevolve.stats import estimate_mean, james_stein, summarize
from capevolve.stats.shrinkage import FEWEST


class ValScore(BaseModel):
    """One candidate on val: what the search knew of it, with its standard error; None where undefined."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reward: float | None
    stderr: float | None
    n_tasks: int
    n_scored: int
    n_trials: int


class ValRecord(BaseModel):
    """What val said when the test split was scored, to compare with what test says.

    Attributes:
        selected: Whether the best candidate was chosen for its val score, which is then biased upward.
        fresh: Whether its score rests on fresh trials that confirmed it and not on those that selected it.
        shrunken: The best candidate's mean pulled towards the mean of all `candidates` that were measured on
            the whole split (James and Stein, 1961); None for fewer than four.
        weight: The share of their spread that is not noise, in [0, 1].
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    best: ValScore
    baseline: ValScore
    selected: bool
    fresh: bool
    shrunken: float | None
    weight: float | None
    candidates: int


def build_val(
    best_id: str, seed_id: str, scores: Mapping[str, Measurement], *, fresh: bool
) -> ValRecord | None:
    """Computes what a result keeps of val.

    Args:
        scores: The val measurement of the seed candidate and of every judged one, over all val tasks.
        fresh: Whether accepted candidates are measured by the trials that confirmed them.

    Returns:
        None when one of the two was not measured.
    """
    if best_id not in scores or seed_id not in scores:
        return None
    shrunk = shrink_scores(best_id, scores)
    return ValRecord(
        best=_val_score(scores[best_id]),
        baseline=_val_score(scores[seed_id]),
        selected=best_id != seed_id,
        fresh=fresh and best_id != seed_id,
        shrunken=None if shrunk is None else shrunk.value,
        weight=None if shrunk is None else shrunk.weight,
        candidates=len(scores) if shrunk is None else shrunk.n,
    )


def _val_score(measurement: Measurement) -> ValScore:
    summary = summarize(measurement)
    return ValScore(
        reward=summary.mean,
        stderr=summary.se,
        n_tasks=summary.n_tasks,
        n_scored=summary.n_scored,
        n_trials=summary.n_trials,
    )


@dataclass(frozen=True, slots=True)
class Shrunken:
    """A selected mean with its selection accounted for: James-Stein over `n` candidates."""

    value: float
    weight: float
    n: int


def shrink_scores(best_id: str, scores: Mapping[str, Measurement]) -> Shrunken | None:
    """Returns the best candidate's val mean pulled towards the mean of all that were asked every task.

    Returns:
        None when the best candidate has no mean with an error, or `james_stein` is undefined.
    """
    if len(scores) < FEWEST:
        return None
    usable = []
    for candidate_id, measurement in scores.items():
        estimate = estimate_mean(measurement)
        asked = all(task.rewards or task.unmeasured for task in measurement.tasks)
        if asked and estimate.mean is not None and estimate.se is not None:
            usable.append((candidate_id, estimate.mean, estimate.se**2))
    shrunk = james_stein([mean for _, mean, _ in usable], [variance for _, _, variance in usable])
    names = [name for name, _, _ in usable]
    if shrunk is None or best_id not in names:
        return None
    return Shrunken(shrunk.values[names.index(best_id)], shrunk.weight, len(names))
