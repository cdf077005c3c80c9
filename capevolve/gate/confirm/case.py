"""What a confirmation judges, what it asks for next, and how measurements join: plain values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capevolve.canonical import digest
from capevolve.errors import UserError
from capevolve.gate.confirm.profile import FEWEST_TO_PART, ConfirmProfile
from capevolve.gate.confirm.seeds import LOOK, PEEK, RACE, SCREEN, stage_seed
from capevolve.model import Measurement, TaskOutcomes


@dataclass(frozen=True, slots=True)
class Ask:
    """Trials that a gate needs before it can go on.

    Attributes:
        stage: What they are for.
        task_ids: The val tasks, in split order; None is all of them.
        num_trials: Trials per task.
        base_seed: The seed of the first trial.
        both: Whether the incumbent is measured too, interleaved with the candidate.
    """

    stage: str
    task_ids: tuple[str, ...] | None
    num_trials: int
    base_seed: int
    both: bool


@dataclass(frozen=True, slots=True)
class StageEvidence:
    """What was measured for a stage; `incumbent` is set where the ask was for both."""

    stage: str
    candidate: Measurement
    incumbent: Measurement | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A candidate under confirmation.

    Attributes:
        subject: The candidate's digest, or `AA` for the A/A control.
        run_seed: The run's seed; race, screen and looks derive theirs from it.
        record: The incumbent's val measurement: all tasks, every trial that is not a selected one.
        look_trials: Trials of one unit of a look.
        failures: Slots used up so far.
        evidence: What was measured for the stages so far, in their order.
    """

    subject: str
    run_seed: int
    record: Measurement
    profile: ConfirmProfile
    look_trials: int
    failures: int
    evidence: tuple[StageEvidence, ...] = ()


def plan_stages(case: Case) -> tuple[Ask, ...]:
    """Returns every stage that a candidate may have to pass, in order."""
    profile = case.profile
    ids = tuple(task.task_id for task in case.record.tasks)
    raced, rest = split_race(ids, profile, case.run_seed, case.subject)

    def ask(stage: str, task_ids: tuple[str, ...] | None, trials: int, *, both: bool) -> Ask:
        return Ask(stage, task_ids, trials, stage_seed(case.run_seed, case.subject, stage), both)

    stages = [ask(RACE, raced, 1, both=False)] if raced else []
    stages.append(ask(SCREEN, rest, 1, both=False))
    peeked, left = split_peek(ids, profile, case.run_seed, case.subject)
    if peeked:
        stages.append(ask(PEEK, peeked, profile.looks[0] * case.look_trials, both=True))
    for number, units in enumerate(profile.looks, start=1):
        task_ids = left if number == 1 else None
        stages.append(ask(f"{LOOK}{number}", task_ids, units * case.look_trials, both=True))
    return tuple(stages)


def split_race(
    ids: Sequence[str], profile: ConfirmProfile, run_seed: int, subject: str
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Returns the val tasks of the race and those of the screen, in split order.

    The race takes a random part: another one for each candidate, the same one whenever it is asked. Without
    a race the screen takes all tasks, which is None.
    """
    return _part(ids, profile.race_frac, [run_seed, subject])


def split_peek(
    ids: Sequence[str], profile: ConfirmProfile, run_seed: int, subject: str
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Returns the val tasks of the peek and those that the first look adds, in split order.

    The peek takes a random part of its own. Without one the first look takes all tasks, which is None.
    """
    return _part(ids, profile.peek_frac, [run_seed, subject, PEEK])


def count_part(share: float, n_tasks: int) -> int:
    """Returns how many of the val tasks race, or are peeked at; 0 where there is no such stage."""
    part = math.ceil(share * n_tasks)
    return 0 if n_tasks < FEWEST_TO_PART or part >= n_tasks else part


def _part(
    ids: Sequence[str], share: float, key: list[int | str]
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    count = count_part(share, len(ids))
    if not count:
        return (), None
    shuffled = sorted(ids, key=lambda task_id: digest([*key, task_id]))
    chosen = frozenset(shuffled[:count])
    return tuple(i for i in ids if i in chosen), tuple(i for i in ids if i not in chosen)


def join_measurements(measurements: Sequence[Measurement], task_ids: Sequence[str]) -> Measurement:
    """Returns one measurement of all trials of a candidate on these tasks.

    Args:
        measurements: Of one candidate on val, at least one; each on any of the tasks.
        task_ids: The tasks of the result, in its order.

    Returns:
        The measurement; `num_trials` is that of the task that was asked most often.

    Raises:
        UserError: They are of different candidates or splits.
    """
    first = measurements[0]
    if any((m.candidate_id, m.split) != (first.candidate_id, first.split) for m in measurements):
        raise UserError("only measurements of one candidate on one split can be joined", where="gate.confirm")
    found: dict[str, TaskOutcomes] = {}
    planned: Counter[str] = Counter()
    for measurement in measurements:
        for task in measurement.tasks:
            before = found.get(task.task_id)
            found[task.task_id] = task if before is None else _join(before, task)
            planned[task.task_id] += measurement.num_trials
    return replace(
        first,
        num_trials=max(planned.values(), default=0),
        tasks=tuple(found[task_id] for task_id in task_ids if task_id in found),
        subset=False,
    )


def _join(before: TaskOutcomes, task: TaskOutcomes) -> TaskOutcomes:
    return replace(
        before, rewards=before.rewards + task.rewards, unmeasured=before.unmeasured + task.unmeasured
    )
