"""What a project's newest runs say of its target: the noise, and what a rollout takes. Test is not read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlalchemy import Connection

from capevolve.design.values import Figure, Price, Variance
from capevolve.evaluate.measurement import read_measurement, read_tasks
from capevolve.ledger.evaluations import EvaluationRecord, list_evaluations, read_evaluation
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.runs import RunRecord, list_runs
from capevolve.ledger.trials import read_trials
from capevolve.model import Decision, Measurement
from capevolve.stats import between_variance, compare, planning_se, planning_variance, task_stats

LOOKED_AT = 10
"""Only so many of the newest runs are read."""


def read_variance(connection: Connection, name: str) -> Variance:
    """Returns the noise measured on the newest run of a project that measured it, else its bound.

    Args:
        name: The project's: a ledger may hold the runs of others.
    """
    first: Variance | None = None
    for run in _list_newest(connection, name):
        baseline = _read_baseline(connection, run)
        if baseline is None:
            continue
        found = summarize_noise(run.id, baseline, _read_accepted(connection, run.id))
        if found.source == "measured":
            return found
        first = first or found
    return first or Variance()


def _list_newest(connection: Connection, name: str) -> Sequence[RunRecord]:
    mine = [run for run in list_runs(connection) if run.name == name]
    return mine[: -LOOKED_AT - 1 : -1]


def _read_baseline(connection: Connection, run: RunRecord) -> Measurement | None:
    """The seed candidate's full val measurement, the one with most trials; None when none is finished."""
    found = [
        evaluation
        for evaluation in list_evaluations(connection, run.id)
        if evaluation.key.candidate_id == run.seed_candidate
        and _is_full_val(evaluation)
        and not evaluation.key.tag
    ]
    if not found:
        return None
    return _read(connection, max(found, key=lambda evaluation: evaluation.key.num_trials))


def _is_full_val(evaluation: EvaluationRecord) -> bool:
    key = evaluation.key
    return key.split == "val" and key.subset is None and evaluation.finished_at is not None


def _read(connection: Connection, evaluation: EvaluationRecord) -> Measurement:
    return read_measurement(connection, evaluation, read_tasks(connection, evaluation))


def _read_accepted(connection: Connection, run_id: str) -> list[tuple[Measurement, Measurement]]:
    """What accepted each accepted candidate: its trials and the incumbent's, over all val tasks."""
    pairs = []
    for record in read_verdicts(connection, run_id):
        if record.verdict.decision is not Decision.ACCEPT:
            continue
        arms = [
            read_evaluation(connection, evaluation_id)
            for evaluation_id in (record.candidate_evaluation, record.incumbent_evaluation)
            if evaluation_id is not None
        ]
        if len(arms) == 2 and all(_is_full_val(arm) for arm in arms):
            pairs.append((_read(connection, arms[0]), _read(connection, arms[1])))
    return pairs


def summarize_noise(
    run_id: str, baseline: Measurement, accepted: Sequence[tuple[Measurement, Measurement]]
) -> Variance:
    """Returns the noise that measurements of one run show.

    Args:
        baseline: The seed candidate's on val.
        accepted: Candidate and incumbent of each accepted edit, on the same tasks.
    """
    noise = planning_variance(baseline)
    tasks = [task_stats(task.rewards) for task in baseline.tasks if task.rewards]
    means = [task.value for task in tasks if task.value is not None]
    measured = noise.source == "measured"
    return Variance(
        within=noise.value,
        source=noise.source,
        run_id=run_id if means else None,
        mean=math.fsum(means) / len(means) if means else None,
        between=between_variance(means, [task.se for task in tasks]) if measured else None,
        spread=find_spread(accepted, noise.value) if measured else None,
    )


def find_spread(accepted: Sequence[tuple[Measurement, Measurement]], within: float) -> float | None:
    """Returns the variance between tasks (or clusters) of the true effect of accepted edits.

    Formula: max(0, mean over edits of u (SE^2 - v (1 / k_c + 1 / k_i) / n)), with u independent units, SE of
        the paired delta and v the variance within tasks

    Undefined: None without an accepted edit whose delta has a standard error.
    """
    found = []
    for candidate, incumbent in accepted:
        delta = compare(candidate, incumbent)
        noise = planning_se(within, candidate.num_trials, incumbent.num_trials, delta.n)
        if delta.se is not None and noise is not None:
            found.append(delta.units * (delta.se**2 - noise**2))
    return max(0.0, math.fsum(found) / len(found)) if found else None


def read_price(connection: Connection, name: str) -> Price:
    """Returns the mean seconds and the mean cost of a rollout on the newest run with finished trials.

    Only trials that report a figure enter its mean.
    """
    for run in _list_newest(connection, name):
        seconds, costs = [], []
        finished = 0
        for evaluation in list_evaluations(connection, run.id):
            if evaluation.key.split == "test":
                continue
            for trial in read_trials(connection, evaluation.id):
                finished += trial.outcome is not None
                if trial.outcome is not None and trial.duration_s is not None:
                    seconds.append(trial.duration_s)
                if trial.outcome is not None and trial.cost_usd is not None:
                    costs.append(trial.cost_usd)
        if finished:
            return Price(_average(seconds, run.id), _average(costs, run.id))
    return Price()


def _average(values: Sequence[float], run_id: str) -> Figure:
    return Figure(math.fsum(values) / len(values), "measured", run_id) if values else Figure()
