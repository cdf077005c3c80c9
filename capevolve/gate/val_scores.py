"""What a run knows of its candidates on val: the measurements that a report shows and a result keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capevolve.gate.confirm.case import Ask, join_measurements, split_race
from capevolve.gate.confirm.history import Past, full_key, list_record_keys, look_key, stage_key
from capevolve.gate.confirm.seeds import RACE, SCREEN, StageTag
from capevolve.gate.settings import GateSettings
from capevolve.ledger.evaluations import EvaluationKey
from capevolve.ledger.proposals import VerdictRecord
from capevolve.model import Decision, Measurement, StageVerdict, TaskOutcomes, TaskRef


def list_val_keys(
    past: Past, settings: GateSettings, record: VerdictRecord, task_ids: Sequence[str]
) -> tuple[EvaluationKey, ...]:
    """Returns the evaluations of a judged candidate on val.

    In mode `confirm` that is the record of one that was accepted, else its fresh trials, else, where it
    was dropped before a look, the trials of race and screen.
    """
    candidate_id = record.candidate_id
    if settings.confirm is None:
        return (full_key(past, candidate_id),)
    if record.verdict.decision is Decision.ACCEPT:
        return list_record_keys(past, candidate_id, settings)
    stages = record.verdict.stages
    fresh = [stage for stage in stages if stage.slot is not None]
    if fresh:
        return tuple(look_key(past.run_id, record, stage, "candidate") for stage in fresh)
    raced, rest = split_race(task_ids, settings.confirm, past.base_seed, candidate_id)
    subsets = {RACE: raced, SCREEN: rest}
    return tuple(_key_single(past, candidate_id, stage, subsets[stage.stage]) for stage in stages)


def _key_single(
    past: Past, candidate_id: str, stage: StageVerdict, task_ids: tuple[str, ...] | None
) -> EvaluationKey:
    ask = Ask(stage.stage, task_ids, stage.num_trials, stage.base_seed, both=False)
    return stage_key(past.run_id, ask, StageTag(stage.stage, "candidate", candidate_id), candidate_id)


def read_val_scores(past: Past, settings: GateSettings, refs: Sequence[TaskRef]) -> dict[str, Measurement]:
    """Returns the val measurement of the seed candidate and of every judged one, by candidate.

    Args:
        past: The run with all verdicts that are to count.
        refs: The val tasks in split order. A task that a candidate was not asked has no trial in it.
    """
    ids = [ref.id for ref in refs]
    keys = {past.seed_id: list_record_keys(past, past.seed_id, settings)}
    for record in past.verdicts:
        keys[record.candidate_id] = list_val_keys(past, settings, record, ids)
    scores = {}
    for candidate_id, wanted in keys.items():
        found = [measurement for key in wanted if (measurement := past.find(key)) is not None]
        if found:
            scores[candidate_id] = fill_tasks(join_measurements(found, ids), refs)
    return scores


def fill_tasks(measurement: Measurement, refs: Sequence[TaskRef]) -> Measurement:
    """Returns the measurement over all val tasks; those it was not asked for have no trial."""
    known = {task.task_id: task for task in measurement.tasks}
    tasks = tuple(known.get(ref.id) or TaskOutcomes(ref.id, (), (), ref.cluster) for ref in refs)
    return replace(measurement, tasks=tasks)
