"""The facts of a run, read from its ledger in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from capevolve.errors import LedgerError
from capevolve.evaluate.course import read_course
from capevolve.evaluate.measurement import build_measurement
from capevolve.gate import chance_of_any_false_accept, false_accept_rate
from capevolve.gate.confirm.case import join_measurements
from capevolve.gate.confirm.history import Past, count_failures, describe_past, full_key, list_record_keys
from capevolve.gate.confirm.seeds import parse_tag
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.settings import GateSettings
from capevolve.gate.val_record import shrink_scores
from capevolve.gate.val_scores import fill_tasks, list_val_keys
from capevolve.ledger.bulk import paused_collector
from capevolve.ledger.evaluations import EvaluationKey, EvaluationRecord, list_evaluations
from capevolve.ledger.leases import read_holder
from capevolve.ledger.outcomes import read_outcomes
from capevolve.ledger.proposals import ProposalRecord, VerdictRecord, read_proposals, read_verdicts
from capevolve.ledger.runs import RunRecord, SplitSet, find_splits, read_run, read_split
from capevolve.ledger.store import Ledger
from capevolve.ledger.timeouts import count_too_slow
from capevolve.ledger.trials import read_target_spend
from capevolve.model import Decision, Measurement, TaskRef
from capevolve.report.disclosures import disclose, disclose_timeouts
from capevolve.report.history import build_iterations, build_trajectory, sum_proposer_spend
from capevolve.report.liveness import describe_run
from capevolve.report.looks import find_committed, read_final, read_seal, read_test_tasks
from capevolve.report.measured import EvaluationFacts, Matrix, MatrixColumn, RoleSpend
from capevolve.report.scores import build_matrix, describe_mean
from capevolve.report.splits import describe_splits
from capevolve.report.values import ConfirmFacts, GateFacts, RunFacts
from capevolve.search.state import find_incumbent
from capevolve.spec import ProjectSpec
from capevolve.spec.resume import parse_spec


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the ledger holds of a run, before anything is made of it."""

    record: RunRecord
    spec: ProjectSpec
    splits: SplitSet
    train: tuple[TaskRef, ...]
    val: tuple[TaskRef, ...]
    proposals: tuple[ProposalRecord, ...]
    verdicts: tuple[VerdictRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]


def read_facts(ledger: Ledger, run_id: str, *, now: float, with_matrix: bool = True) -> RunFacts:
    """Reads everything a report shows.

    Args:
        ledger: The project's ledger.
        run_id: The run.
        now: The time, in seconds since the epoch; it decides whether the driver counts as alive.
        with_matrix: False leaves the matrix of tasks by candidates empty, which a glance does not show.

    Raises:
        LedgerError: The ledger does not know the run, or its splits were never frozen.
        TamperError: The committed result is not what was written.
    """
    with paused_collector(), ledger.read() as connection:
        rows = _read_rows(connection, run_id)
        measured = _read_val(connection, rows)
        return _assemble(connection, rows, measured, now, with_matrix=with_matrix)


def _read_rows(connection: Connection, run_id: str) -> _Rows:
    record = read_run(connection, run_id)
    splits = find_splits(connection, run_id)
    if splits is None:
        raise LedgerError(
            "The splits of this run were never frozen: there is nothing to report.",
            where=f"run {run_id}",
            fix=f"Start it again: capevolve run --resume {run_id}.",
        )
    return _Rows(
        record=record,
        spec=parse_spec(record.spec),
        splits=splits,
        train=tuple(task.ref for task in read_split(connection, run_id, "train")),
        val=tuple(task.ref for task in read_split(connection, run_id, "val")),
        proposals=read_proposals(connection, run_id),
        verdicts=read_verdicts(connection, run_id),
        evaluations=list_evaluations(connection, run_id),
    )


def _read_val(connection: Connection, rows: _Rows) -> dict[str, tuple[EvaluationFacts, Measurement]]:
    """What is known of each candidate on val, finished or not."""
    settings = gate_settings(rows.spec.gate)
    known = {evaluation.key: evaluation for evaluation in rows.evaluations}
    trials = {e.key: read_outcomes(connection, e.id) for e in rows.evaluations if e.key.split == "val"}

    def find(key: EvaluationKey) -> Measurement | None:
        if key not in trials:
            return None
        wanted = None if key.subset is None else set(key.subset)
        refs = [ref for ref in rows.val if wanted is None or ref.id in wanted]
        return build_measurement(known[key], refs, trials[key])

    past = describe_past(rows.record, rows.spec, rows.verdicts, find)
    found = {}
    for candidate_id, keys in _list_val_keys(past, settings, rows).items():
        measured = [measurement for key in keys if (measurement := find(key)) is not None]
        if not measured:
            continue
        joined = fill_tasks(join_measurements(measured, [ref.id for ref in rows.val]), rows.val)
        done = sum(trials[key].finished for key in keys if key in trials)
        total = sum(len(m.tasks) * m.num_trials for m in measured)
        is_open = settings.confirm is not None and candidate_id not in past.judged
        complete = done >= total and not is_open
        score = describe_mean(joined) if complete else None
        found[candidate_id] = (EvaluationFacts(candidate_id, done, total, score), joined)
    return found


def _list_val_keys(past: Past, settings: GateSettings, rows: _Rows) -> dict[str, tuple[EvaluationKey, ...]]:
    """The evaluations of each candidate on val: those its score rests on, and of one under way all so far."""
    ids = [ref.id for ref in rows.val]
    keys: dict[str, tuple[EvaluationKey, ...]] = {}
    for evaluation in rows.evaluations:
        key, tag = evaluation.key, parse_tag(evaluation.key.tag)
        own = tag is not None and tag.arm == "candidate" and tag.subject == key.candidate_id
        if own or key == full_key(past, key.candidate_id):
            keys[key.candidate_id] = (*keys.get(key.candidate_id, ()), key)
    keys[past.seed_id] = list_record_keys(past, past.seed_id, settings)
    judged = {record.candidate_id: list_val_keys(past, settings, record, ids) for record in past.verdicts}
    return keys | judged


def _assemble(
    connection: Connection,
    rows: _Rows,
    measured: dict[str, tuple[EvaluationFacts, Measurement]],
    now: float,
    *,
    with_matrix: bool,
) -> RunFacts:
    record, run_id = rows.record, rows.record.id
    seed_id = record.seed_candidate
    best_id = find_incumbent(seed_id, rows.verdicts)
    evaluations = {name: facts for name, (facts, _) in measured.items()}
    iterations = build_iterations(rows.proposals, rows.verdicts, evaluations, best_id)
    committed = find_committed(connection, run_id)
    test_tasks = None if committed is None else read_test_tasks(committed)
    final = None if committed is None else read_final(connection, committed, rows.evaluations, evaluations)
    facts = RunFacts(
        info=describe_run(record, read_holder(connection, run_id), now),
        as_of=now,
        seed_id=seed_id,
        best_id=best_id,
        splits=describe_splits(rows.splits, rows.train, rows.val, test_tasks),
        gate=_describe_gate(rows),
        num_trials=rows.spec.evaluation.num_trials,
        test_num_trials=rows.spec.seal_trials(),
        max_iterations=rows.spec.search.max_iterations,
        baseline=evaluations.get(seed_id),
        best_val=evaluations.get(best_id),
        iterations=iterations,
        trajectory=build_trajectory(seed_id, iterations, evaluations),
        matrix=_build_matrix(seed_id, rows.proposals, measured if with_matrix else {}),
        seal=read_seal(connection, run_id, rows.splits, rows.evaluations),
        final=final,
        shrinkage=shrink_scores(
            best_id, {name: known for name, (facts, known) in measured.items() if facts.score is not None}
        ),
        spend=(_read_target(connection, run_id), sum_proposer_spend(rows.proposals)),
        disclosures=(),
        course=read_course(connection, run_id),
    )
    slow = disclose_timeouts(count_too_slow(connection, run_id), rows.spec.evaluation.timeout_s)
    return replace(facts, disclosures=(*disclose(facts), *slow))


def _describe_gate(rows: _Rows) -> GateFacts:
    settings = gate_settings(rows.spec.gate)
    looks = sum(record.verdict.decision is not Decision.INDECISIVE for record in rows.verdicts)
    size, trials = len(rows.val), rows.spec.evaluation.num_trials
    profile = settings.confirm
    return GateFacts(
        mode=settings.mode,
        k_se=settings.k_se,
        threshold=settings.threshold,
        min_coverage=settings.min_coverage,
        looks=looks,
        false_accept=false_accept_rate(settings),
        any_false_accept=chance_of_any_false_accept(settings, looks, size, trials) if looks else None,
        confirm=None
        if profile is None
        else ConfirmFacts(profile.alpha_run, profile.max_failed_confirmations, count_failures(rows.verdicts)),
    )


def _build_matrix(
    seed_id: str,
    proposals: Sequence[ProposalRecord],
    measured: dict[str, tuple[EvaluationFacts, Measurement]],
) -> Matrix:
    order = {seed_id: 0}
    for proposal in proposals:
        if proposal.candidate_id is not None:
            order.setdefault(proposal.candidate_id, proposal.iteration)
    names = [name for name in order if name in measured]
    return build_matrix(
        [MatrixColumn(order[name], name) for name in names], [measured[name][1] for name in names]
    )


def _read_target(connection: Connection, run_id: str) -> RoleSpend:
    spent = read_target_spend(connection, run_id)
    cost = None if spent.dearest_usd is None else spent.cost_usd
    return RoleSpend("target", spent.calls, cost, spent.unpriced, spent.tokens or None)
