"""The values of a design: what goes into it, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capevolve.gate.settings import Mode

POWER = 0.8
"""The chance with which an effect counts as found."""

FINAL_LEVEL = 0.05
"""The one-sided level at which the sealed test is planned."""

HurdleName = Literal["screen", "confirmation", "all_stages", "gate", "test", "test_new_tasks"]
PartName = Literal["aa_control", "baseline", "train_evidence", "candidates", "test"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tasks per split.

    Attributes:
        val_units, test_units: Independent units among them: clusters; the tasks where there are none.
        holdout: False when test shares tasks with train or val: its number is a fit metric.
    """

    train: int
    val: int
    test: int
    val_units: int
    test_units: int
    holdout: bool = True


@dataclass(frozen=True, slots=True)
class Variance:
    """The noise that a design is planned with.

    Attributes:
        within: Mean variance of one trial within a task, in [0, 0.5].
        source: `measured`, or `bound`: x (1 - x) of the mean reward x, 0.25 where x is unknown too.
        run_id: The run it was read from; None when nothing was measured yet.
        mean: The seed candidate's mean reward on val there; None when unknown.
        between: Variance of the tasks' true means; None where `within` is a bound.
        spread: Variance between tasks of an accepted edit's true effect; None when none was measured.
    """

    within: float = 0.25
    source: Literal["measured", "bound"] = "bound"
    run_id: str | None = None
    mean: float | None = None
    between: float | None = None
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A price of one rollout; `value` is None while it is unknown, which is not 0."""

    value: float | None = None
    source: Literal["measured", "stated", "unknown"] = "unknown"
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What one rollout takes: seconds, and US dollars."""

    seconds: Figure = Figure()
    usd: Figure = Figure()


@dataclass(frozen=True, slots=True)
class Effect:
    """A smallest effect; `reason` says why where there is none."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The smallest true improvement of the mean reward that a hurdle lets pass with a chance of `POWER`.

    Planned by normal approximations: with 0/1 rewards on few tasks the true chance is somewhat lower, but for
    `all_stages`, which allows for it.

    Attributes:
        name: `screen` (race and screen), `confirmation` (all fresh trials at the last look's level),
            `all_stages` (race, screen and every look, which may stop early), `gate` (the comparison of the
            other modes), `test` (the sealed test, on its own tasks), `test_new_tasks` (on tasks like them).
        n_tasks: Tasks it is measured on.
        candidate_trials, incumbent_trials: Trials per task of each arm.
        level: The one-sided p-value to reach; None where something else is to be exceeded.
        effect: In rewards, in [0, 1]; None where no effect is certified or where it is unknown.
        reason: Why `effect` is None.
    """

    name: HurdleName
    n_tasks: int
    candidate_trials: int
    incumbent_trials: int
    level: float | None
    effect: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Need:
    """What a hurdle takes to find a wanted effect.

    Attributes:
        trials: Trials per task and arm, on the tasks there are; None when no number does.
        tasks: Tasks, with the trials there are; None when no number does.
        unit: For a confirmation, the `look_trials` that make up `trials`.
        reason: Why both are None.
    """

    name: HurdleName
    trials: int | None
    tasks: int | None
    unit: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One item of the bill, in rollouts.

    Attributes:
        least: When every candidate is rejected as early as can be.
        most: When every candidate goes all the way.
    """

    name: PartName
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Range:
    """A cost from its least to its most."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Bill:
    """What a run costs, in rollouts; retries after infrastructure failures come on top.

    Attributes:
        parts: The items, in the order they fall due.
        candidate_least, candidate_most: What judging one candidate takes.
        least, most: All parts together.
        seconds: With `evaluation.concurrency` trials at a time; None while the price is unknown.
        usd: Without the proposer's money; None while the price is unknown.
    """

    parts: tuple[Part, ...]
    candidate_least: int
    candidate_most: int
    least: int
    most: int
    seconds: Range | None
    usd: Range | None


@dataclass(frozen=True, slots=True)
class Design:
    """What a project's design can show, and what it costs.

    Attributes:
        look_trials: Trials of one unit of a look; None outside mode `confirm`.
        wanted: The effect that `needs` are for.
        gate_error: How often the gate accepts an edit that changes nothing; None when it judges none.
        cautions: What a reader must know, each a sentence.
        hopeless: Why the gate can never accept; None when it can.
    """

    mode: Mode
    num_trials: int
    seal_trials: int
    look_trials: int | None
    max_iterations: int
    concurrency: int
    sizes: Sizes
    variance: Variance
    price: Price
    effects: tuple[Resolution, ...]
    wanted: float
    needs: tuple[Need, ...]
    bill: Bill
    gate_error: str | None
    cautions: tuple[str, ...]
    hopeless: str | None
