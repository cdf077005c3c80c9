"""Simulated runs through the shipped gate: what it accepts, what that was truly worth, what it cost.

No rule is written down here: the uncontrolled modes are judged by `gate.rules.judge`, mode `confirm` by
`gate.confirm.judge.advance` on the stages of `plan_stages`. Rewards are 0 or 1. Every evaluation is a session
of its own, whose effect ~ N(0, drift) shifts all its pass rates (clipped to [0, 1]); the two arms of a look
share one. Stored incumbent trials keep the session they were made in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from benchmarks.gate_streams import STREAMS, Edit, Floats, Kind, draw_edits, draw_seed_rates
from capevolve.gate import GateSettings, judge
from capevolve.gate.confirm.case import Ask, Case, StageEvidence, join_measurements, plan_stages
from capevolve.gate.confirm.judge import advance, used_slot
from capevolve.gate.confirm.profile import PROFILES
from capevolve.gate.confirm.sizing import find_look_trials
from capevolve.model import Decision, Measurement, TaskOutcomes, Verdict

GATES: dict[str, GateSettings] = {
    "paired": GateSettings(),
    "significant": GateSettings(mode="significant"),
    "threshold": GateSettings(mode="threshold", threshold=0.05),
    "strict": GateSettings(mode="strict"),
    "confirm": GateSettings(mode="confirm", confirm=PROFILES["default"]),
    "confirm-strict": GateSettings(mode="confirm", confirm=PROFILES["strict"]),
}

NO_GAIN = 1e-12
"""A true mean effect up to this is none: only rounding keeps it from 0."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One cell: `drift` is the sd of a session's effect, `seed` that of the whole simulation."""

    stream: str
    n_tasks: int = 50
    num_trials: int = 3
    candidates: int = 20
    drift: float = 0.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one candidate: `effect` is its true mean effect on the incumbent it edited."""

    kind: Kind
    effect: float
    accepted: bool
    ended: str
    rollouts: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run: `gain` is the true mean of the last incumbent minus the seed candidate's."""

    steps: tuple[Step, ...]
    gain: float
    rollouts: int

    @property
    def false_bank(self) -> bool:
        """Whether any edit that truly gains nothing was accepted."""
        return any(step.accepted and step.effect <= NO_GAIN for step in self.steps)


class Target:
    """The simulated target: 0/1 rewards at given pass rates."""

    def __init__(self, rng: np.random.Generator, sessions: np.random.Generator, drift: float) -> None:
        self._rng = rng
        self._sessions = sessions
        self._drift = drift

    def open_session(self) -> float:
        """Returns what an evaluation session adds to all pass rates."""
        return float(self._sessions.normal(0.0, 1.0)) * self._drift

    def measure(
        self,
        candidate_id: str,
        rates: Floats,
        trials: int,
        session: float,
        tasks: Sequence[int] | None = None,
    ) -> Measurement:
        """Runs trials on all tasks, or on some."""
        chosen = range(len(rates)) if tasks is None else tasks
        asked = rates if tasks is None else rates[list(tasks)]
        passes = self._rng.binomial(trials, np.clip(asked + session, 0.0, 1.0)).tolist()
        outcomes = tuple(_outcome(i, passed, trials) for i, passed in zip(chosen, passes, strict=True))
        return Measurement("1", candidate_id, "val", trials, 0, outcomes, subset=tasks is not None)


@lru_cache(maxsize=1 << 16)
def _outcome(task: int, passed: int, trials: int) -> TaskOutcomes:
    return TaskOutcomes(_task_id(task), (1.0,) * passed + (0.0,) * (trials - passed))


def _task_id(task: int) -> str:
    return f"t{task:04d}"


def simulate_run(setup: Setup, settings: GateSettings, number: int) -> Outcome:
    """Returns run `number` of a cell: the same one in every process, and the same ideas for every gate."""
    key = (setup.n_tasks, setup.num_trials, list(STREAMS).index(setup.stream), number)
    ideas, trials, sessions = (
        np.random.default_rng(child) for child in np.random.SeedSequence(setup.seed, spawn_key=key).spawn(3)
    )
    rates = draw_seed_rates(setup.n_tasks, ideas)
    edits = draw_edits(setup.stream, setup.n_tasks, setup.candidates, ideas)
    target = Target(trials, sessions, setup.drift)
    if settings.confirm is None:
        return run_uncontrolled(settings, rates, edits, setup.num_trials, target)
    return run_confirm(settings, rates, edits, setup.num_trials, target, run_seed=number)


def run_uncontrolled(
    settings: GateSettings, seed_rates: Floats, edits: Sequence[Edit], num_trials: int, target: Target
) -> Outcome:
    """Plays a run of a mode that judges full val evaluations.

    An accepted candidate's evaluation, which selected it, is what the next candidates are compared with.
    """
    rates = seed_rates
    reference = target.measure("seed", rates, num_trials, target.open_session())
    steps = []
    for number, edit in enumerate(edits):
        edited = edit.apply(rates)
        measured = target.measure(f"c{number}", edited, num_trials, target.open_session())
        verdict = judge(measured, reference, settings)
        accepted = verdict.decision is Decision.ACCEPT
        effect = float(np.mean(edited - rates))
        steps.append(Step(edit.kind, effect, accepted, verdict.rule, len(rates) * num_trials))
        if accepted:
            rates, reference = edited, measured
    return _conclude(steps, seed_rates, rates, num_trials)


def run_confirm(
    settings: GateSettings,
    seed_rates: Floats,
    edits: Sequence[Edit],
    num_trials: int,
    target: Target,
    *,
    run_seed: int,
) -> Outcome:
    """Plays a run of mode `confirm`; the incumbent's record is kept as `list_record_keys` says."""
    if settings.confirm is None:
        raise ValueError("mode confirm has a profile")
    rates, incumbent, failures, steps = seed_rates, "seed", 0, []
    record = target.measure(incumbent, rates, num_trials, target.open_session())
    task_ids = tuple(task.task_id for task in record.tasks)
    for number, edit in enumerate(edits):
        edited = edit.apply(rates)
        trials = find_look_trials(settings.confirm, num_trials, record)
        case = Case(f"c{number}", run_seed, record, settings.confirm, trials, failures)
        trial = Confirmation(case, settings, target, edited, rates, incumbent)
        verdict = trial.decide()
        accepted = verdict.decision is Decision.ACCEPT
        effect = float(np.mean(edited - rates))
        ended, spent = trial.find_end(verdict), trial.count_rollouts(verdict)
        steps.append(Step(edit.kind, effect, accepted, ended, spent))
        failures += used_slot(verdict)
        looked = {stage.stage for stage in verdict.stages if stage.slot}
        fresh = [evidence for evidence in trial.evidence if evidence.stage in looked]
        if accepted:
            record = join_measurements([evidence.candidate for evidence in fresh], task_ids)
            rates, incumbent = edited, case.subject
        elif fresh:
            theirs = [evidence.incumbent for evidence in fresh if evidence.incumbent is not None]
            record = join_measurements([record, *theirs], task_ids)
    return _conclude(steps, seed_rates, rates, num_trials)


class Confirmation:
    """One candidate before mode `confirm`.

    Race and screen are drawn before the gate is asked, and the looks once it asks for the first: the gate
    looks at stages in their order and at none beyond the one that decides, so its verdict is the same as
    when each stage is drawn on its own, and only the stages in the verdict are counted.
    """

    def __init__(
        self,
        case: Case,
        settings: GateSettings,
        target: Target,
        edited: Floats,
        rates: Floats,
        incumbent: str,
    ) -> None:
        self._case = case
        self._settings = settings
        self._target = target
        self._rates = {case.subject: edited, incumbent: rates}
        self._incumbent = incumbent
        self._asks: tuple[Ask, ...] = ()
        self.evidence: tuple[StageEvidence, ...] = ()

    def decide(self) -> Verdict:
        profile = self._case.profile
        if self._case.failures < profile.max_failed_confirmations:
            self._asks = plan_stages(self._case)
        self.evidence = tuple(self._draw(ask) for ask in self._asks if not ask.both)
        step = advance(replace(self._case, evidence=self.evidence), self._settings)
        if isinstance(step, Ask):
            self.evidence += tuple(self._draw(ask) for ask in self._asks if ask.both)
            step = advance(replace(self._case, evidence=self.evidence), self._settings)
        if isinstance(step, Ask):
            raise AssertionError("a case with every stage measured has a verdict")
        return step

    def _draw(self, ask: Ask) -> StageEvidence:
        session = self._target.open_session()
        subject = self._case.subject
        tasks = None if ask.task_ids is None else [int(task_id[1:]) for task_id in ask.task_ids]
        mine = self._target.measure(subject, self._rates[subject], ask.num_trials, session, tasks)
        if not ask.both:
            return StageEvidence(ask.stage, mine)
        rates = self._rates[self._incumbent]
        return StageEvidence(
            ask.stage, mine, self._target.measure(self._incumbent, rates, ask.num_trials, session, tasks)
        )

    def count_rollouts(self, verdict: Verdict) -> int:
        """Returns the trials of both arms over the stages that the gate looked at."""
        looked = {stage.stage for stage in verdict.stages}
        n_tasks = len(self._case.record.tasks)
        return sum(
            (n_tasks if ask.task_ids is None else len(ask.task_ids)) * ask.num_trials * (2 if ask.both else 1)
            for ask in self._asks
            if ask.stage in looked
        )

    @staticmethod
    def find_end(verdict: Verdict) -> str:
        """Returns the stage that decided, or the rule where none was measured."""
        return verdict.stages[-1].stage if verdict.stages else verdict.rule


def _conclude(steps: Sequence[Step], first: Floats, last: Floats, num_trials: int) -> Outcome:
    rollouts = len(first) * num_trials + sum(step.rollouts for step in steps)
    return Outcome(tuple(steps), float(np.mean(last - first)), rollouts)
