"""What earlier verdicts leave to a confirmation: slots used up, and the incumbent's record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from capevolve.gate.confirm.case import Ask, Case, StageEvidence, join_measurements, plan_stages
from capevolve.gate.confirm.judge import used_slot
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.gate.confirm.seeds import ArmName, StageTag
from capevolve.gate.confirm.sizing import find_look_trials
from capevolve.gate.settings import GateSettings
from capevolve.ledger.evaluations import EvaluationKey
from capevolve.ledger.proposals import VerdictRecord
from capevolve.ledger.runs import RunRecord
from capevolve.model import Decision, Measurement, StageVerdict
from capevolve.spec import ProjectSpec

FindMeasurement = Callable[[EvaluationKey], Measurement | None]
"""Returns the measurement of a finished evaluation; None when there is none."""


@dataclass(frozen=True, slots=True)
class Past:
    """The run up to an iteration.

    Attributes:
        seed_id: The seed candidate.
        num_trials, base_seed: Of the run's evaluations.
        verdicts: The verdicts before the iteration, in order.
        find: Reads measurements.
    """

    run_id: str
    seed_id: str
    num_trials: int
    base_seed: int
    verdicts: tuple[VerdictRecord, ...]
    find: FindMeasurement

    @property
    def judged(self) -> frozenset[str]:
        """The seed candidate and every candidate with a verdict."""
        return frozenset({self.seed_id, *(record.candidate_id for record in self.verdicts)})


def describe_past(
    record: RunRecord, spec: ProjectSpec, verdicts: Sequence[VerdictRecord], find: FindMeasurement
) -> Past:
    """Returns a run's past with these verdicts."""
    return Past(
        run_id=record.id,
        seed_id=record.seed_candidate,
        num_trials=spec.evaluation.num_trials,
        base_seed=spec.base_seed(),
        verdicts=tuple(verdicts),
        find=find,
    )


def count_failures(verdicts: Sequence[VerdictRecord]) -> int:
    """Returns how many slots are used up."""
    return sum(used_slot(record.verdict) for record in verdicts)


def full_key(past: Past, candidate_id: str) -> EvaluationKey:
    """Returns the identity of a candidate's full val evaluation."""
    return EvaluationKey(past.run_id, candidate_id, "val", past.num_trials, past.base_seed)


def list_record_keys(past: Past, candidate_id: str, settings: GateSettings) -> tuple[EvaluationKey, ...]:
    """Returns the evaluations that make up an incumbent's record, oldest first.

    In mode `confirm` the seed candidate's begins with its full val evaluation, that of an accepted candidate
    with the fresh trials that confirmed it: what selected it for a confirmation is left out. The fresh
    trials of every later confirmation against it join. In the other modes it is its full val evaluation.
    """
    keys = []
    if settings.confirm is None:
        return (full_key(past, candidate_id),)
    if candidate_id == past.seed_id:
        keys.append(full_key(past, candidate_id))
    for record in past.verdicts:
        accepted = record.verdict.decision is Decision.ACCEPT
        arm: ArmName | None = None
        if record.candidate_id == candidate_id and accepted:
            arm = "candidate"
        elif record.incumbent_id == candidate_id:
            arm = "incumbent"
        if arm is not None:
            keys += [
                look_key(past.run_id, record, stage, arm) for stage in record.verdict.stages if stage.slot
            ]
    return tuple(keys)


def look_key(run_id: str, record: VerdictRecord, stage: StageVerdict, arm: ArmName) -> EvaluationKey:
    """Returns the identity of one arm of a look that a verdict names."""
    candidate_id = record.candidate_id if arm == "candidate" else record.incumbent_id
    ask = Ask(stage.stage, stage.task_ids, stage.num_trials, stage.base_seed, both=True)
    return stage_key(run_id, ask, StageTag(stage.stage, arm, record.candidate_id), candidate_id)


def read_record(
    past: Past, candidate_id: str, settings: GateSettings, task_ids: Sequence[str]
) -> Measurement | None:
    """Returns an incumbent's record over the val tasks; None while an evaluation of it is not finished."""
    found = [past.find(key) for key in list_record_keys(past, candidate_id, settings)]
    known = [measurement for measurement in found if measurement is not None]
    if not known or len(known) < len(found):
        return None
    return join_measurements(known, task_ids)


def stage_key(run_id: str, ask: Ask, tag: StageTag, candidate_id: str) -> EvaluationKey:
    """Returns the identity of one arm of a stage."""
    subset = None if ask.task_ids is None else tuple(sorted(ask.task_ids))
    return EvaluationKey(run_id, candidate_id, "val", ask.num_trials, ask.base_seed, tag.text, subset)


def build_case(
    past: Past,
    profile: ConfirmProfile,
    record: Measurement,
    *,
    subject: str,
    candidate_id: str,
    incumbent_id: str,
) -> Case:
    """Returns a candidate's case with every stage that is measured.

    Args:
        record: The incumbent's.
        subject: The candidate's digest, or `AA`.
    """
    empty = Case(
        subject=subject,
        run_seed=past.base_seed,
        record=record,
        profile=profile,
        look_trials=find_look_trials(profile, past.num_trials, record),
        failures=count_failures(past.verdicts),
    )
    evidence = []
    for ask in plan_stages(empty):
        mine = past.find(stage_key(past.run_id, ask, StageTag(ask.stage, "candidate", subject), candidate_id))
        theirs = None
        if ask.both:
            tag = StageTag(ask.stage, "incumbent", subject)
            theirs = past.find(stage_key(past.run_id, ask, tag, incumbent_id))
        if mine is None or (ask.both and theirs is None):
            break
        evidence.append(StageEvidence(ask.stage, mine, theirs))
    return replace(empty, evidence=tuple(evidence))
