"""What a gate looks at, which of it is refused outright, and when it says too little for a decision."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capevolve.errors import TrainGateError
from capevolve.model import Measurement
from capevolve.stats import Comparison, MeanEstimate, compare, estimate_mean, fisher_exact

ERROR_ASYMMETRY_LEVEL = 0.05
"""Below this two-sided p-value the arms' shares of unmeasured trials differ."""

FEWEST_PAIRS = 2


@dataclass(frozen=True, slots=True)
class Evidence:
    """Two val measurements and what they say of each other."""

    candidate: MeanEstimate
    incumbent: MeanEstimate
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why no decision can be taken: the rule that found it, and the sentence."""

    rule: str
    reason: str


def refuse_unfit(measurement: Measurement, side: str) -> None:
    """Raises unless the measurement may gate.

    Raises:
        TrainGateError: It is not of the val split, or only of a subset of it.
    """
    refuse_split(measurement, side)
    if measurement.subset:
        raise TrainGateError(
            "a subset of val never gates: the choice of tasks could decide the verdict",
            where=_name(measurement, side),
            fix="evaluate both sides on all val tasks",
        )


def refuse_split(measurement: Measurement, side: str) -> None:
    """Raises unless the measurement is of val.

    Raises:
        TrainGateError: It is of another split.
    """
    if measurement.split != "val":
        raise TrainGateError(
            f"a gate judges on val only, and was given {measurement.split}",
            where=_name(measurement, side),
            fix="evaluate both sides on the val split",
        )


def _name(measurement: Measurement, side: str) -> str:
    return f"the {side}'s evaluation {measurement.evaluation_id}"


def find_unusable(measurement: Measurement, side: str, min_coverage: float) -> Doubt | None:
    """Returns why one side cannot be judged on: a reward that is no number, or too little measured."""
    for task in measurement.tasks:
        if not all(math.isfinite(reward) for reward in task.rewards):
            where = f"task {task.task_id} of the {side}"
            return Doubt("not_a_number", f"{where} has a reward that is not a finite number")
    planned = len(measurement.tasks)
    scored = sum(bool(task.rewards) for task in measurement.tasks)
    if scored == 0:
        return Doubt("coverage", f"nothing was measured: 0 of {planned} tasks of the {side}")
    if scored / planned < min_coverage:
        share = f"{scored} of {planned} tasks ({scored / planned:.0%}) of the {side}"
        return Doubt("coverage", f"too little was measured: {share}, {min_coverage:.0%} is needed")
    return None


def find_asymmetry(candidate: Measurement, incumbent: Measurement) -> Doubt | None:
    """Returns the doubt that errors hit one arm more than the other, so that the rest is not comparable.

    Two-sided Fisher exact test on measured against unmeasured trials, at `ERROR_ASYMMETRY_LEVEL`.
    """
    mine, theirs = _count(candidate), _count(incumbent)
    p = fisher_exact(*mine, *theirs)
    if p is None or p >= ERROR_ASYMMETRY_LEVEL:
        return None
    return Doubt(
        "asymmetric_errors",
        f"trials went unmeasured unevenly: {mine[1]} of {sum(mine)} of the candidate, "
        f"{theirs[1]} of {sum(theirs)} of the incumbent (Fisher p {p:.3f})",
    )


def gather(candidate: Measurement, incumbent: Measurement) -> Evidence:
    """Returns the evidence of two usable measurements."""
    return Evidence(estimate_mean(candidate), estimate_mean(incumbent), compare(candidate, incumbent))


def find_shortage(found: Comparison) -> Doubt | None:
    """Returns the doubt that too few tasks were measured on both sides."""
    n = found.n
    if n >= FEWEST_PAIRS:
        return None
    return Doubt("pairs", f"tasks measured on both sides: {n}, needed: {FEWEST_PAIRS}")


def find_flat(candidate: Measurement, incumbent: Measurement) -> Doubt | None:
    """Returns the doubt that every trial of both sides has one reward: such a val tells nothing apart."""
    rewards = {r for side in (candidate, incumbent) for task in side.tasks for r in task.rewards}
    if len(rewards) != 1:
        return None
    reward = rewards.pop()
    return Doubt(
        "no_variation",
        f"every trial of both sides has the reward {reward:g}: these val tasks cannot tell candidates apart",
    )


def _count(measurement: Measurement) -> tuple[int, int]:
    measured = sum(len(task.rewards) for task in measurement.tasks)
    return measured, sum(len(task.unmeasured) for task in measurement.tasks)
