"""The whole verification of a run, cheapest first, in one view of its ledger; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

import capevolve
from capevolve.errors import LedgerError
from capevolve.ledger.audit import FrozenTask, hold_view, read_frozen_tasks
from capevolve.ledger.evidence import RunDigests, digest_run
from capevolve.ledger.runs import RunRecord, SplitSet, find_run, find_splits
from capevolve.model import Decision
from capevolve.spec import ProjectSpec
from capevolve.verify.difference import name_row, reading, refuse
from capevolve.verify.evidence import check_digests, check_evidence
from capevolve.verify.headline import check_result
from capevolve.verify.history import History, check_history
from capevolve.verify.payloads import check_payloads
from capevolve.verify.plans import check_best, check_plan, check_spec
from capevolve.verify.splits import check_splits
from capevolve.verify.trees import check_candidates, list_candidates
from capevolve.verify.trials import check_arms, check_trials, read_evaluations
from capevolve.verify.verdicts import Gate, check_proposals, read_search


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found in order, and what could not be looked at.

    Attributes:
        committed: Whether the run has a test number.
        holdout: False when that number is a fit metric.
        checked: One phrase for each kind of check, in their order.
        unchecked: What was not checked and why, one sentence each.
        chain_head: Hash of the last seal event, to compare with what was kept elsewhere.
    """

    run_id: str
    committed: bool
    holdout: bool
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    chain_head: str


@dataclass(frozen=True, slots=True)
class _Base:
    """What every check starts from."""

    record: RunRecord
    spec: ProjectSpec
    splits: SplitSet
    tasks: tuple[FrozenTask, ...]
    history: History
    digests: RunDigests


def verify_run(connection: Connection, run_id: str, *, spec_redacted: bool = False) -> Verified:
    """Computes everything about a run again from its rows and compares it with what is stored.

    In this order: the seal's chain and the attempts, the spec, the plans, the splits, the candidates, the
    trials, the proposals and verdicts, the results.

    Args:
        connection: A read transaction in which nothing was read yet.
        spec_redacted: True when values were left out of the spec, so that its digest cannot match.

    Raises:
        TamperError: The first difference, with its table, its row and the two values.
        LedgerError: The ledger does not know the run.
    """
    hold_view(connection)
    base = _read_base(connection, run_id, spec_redacted=spec_redacted)
    checked = [f"the seal's chain ({_count(base.history.events, 'event')})"]
    checked += _check_rows(connection, base)
    return Verified(
        run_id=run_id,
        committed=not base.history.is_sealed,
        holdout=base.splits.holdout,
        checked=tuple(checked),
        unchecked=tuple(_list_unchecked(base, spec_redacted=spec_redacted)),
        chain_head=base.history.head,
    )


def _read_base(connection: Connection, run_id: str, *, spec_redacted: bool) -> _Base:
    with reading(name_row("runs", run=run_id)):
        record = find_run(connection, run_id)
    if record is None:
        raise LedgerError(f"The ledger knows no run {run_id!r}.")
    history = check_history(connection, run_id)
    spec = check_spec(record, redacted=spec_redacted)
    splits = find_splits(connection, run_id)
    if splits is None:
        refuse("The frozen splits of the run are missing.", name_row("split_sets", run=run_id))
    tasks = read_frozen_tasks(connection, run_id)
    for attempt in history.attempts:
        check_plan(attempt, record, spec, tasks)
    digests = RunDigests({})
    if any(attempt.evidence is not None for attempt in history.committed):
        with reading(name_row("runs", run=run_id)):
            digests = digest_run(connection, run_id)
    return _Base(record, spec, splits, tasks, history, digests)


def _check_rows(connection: Connection, base: _Base) -> Iterator[str]:
    """Runs the checks that need rows of several tables; yields what each of them has checked."""
    record, spec, history, tasks = base.record, base.spec, base.history, base.tasks
    yield f"the plan of {_count(len(history.attempts), 'attempt')}" if history.attempts else "the spec"
    check_splits(record.id, spec, base.splits, tasks, history, base.digests)
    yield f"the splits of {_count(len(tasks), 'task')}"
    proposals, verdicts = read_search(connection, record.id)
    evaluations = read_evaluations(connection, record.id)
    candidates = list_candidates(record, proposals, evaluations)
    files = check_candidates(connection, candidates)
    yield f"{_count(len(candidates), 'candidate')} ({_count(files, 'file')})"
    check_arms(connection, history, evaluations)
    count = check_trials(connection, evaluations, tasks, spec, history)
    check_evidence(history, base.digests, "trials")
    check_payloads(connection, record.id)
    yield f"{_count(count, 'trial')} of {_count(len(evaluations), 'evaluation')}"
    check_proposals(record, proposals, verdicts)
    gate = Gate(record, spec, tasks, evaluations, verdicts)
    if gate.check_control(connection):
        yield "the A/A control"
    for verdict in verdicts:
        gate.check(connection, proposals[verdict.iteration - 1], verdict)
    accepted = sum(verdict.verdict.decision is Decision.ACCEPT for verdict in verdicts)
    yield f"{_count(len(verdicts), 'verdict')} ({accepted} accepted)"
    check_evidence(history, base.digests, "proposals", "verdicts", "runs")
    check_digests(history, base.digests)
    for attempt in history.attempts:
        check_best(attempt, record.seed_candidate, verdicts)
    for attempt in history.committed:
        check_result(connection, attempt, base.splits, tasks, evaluations, gate.read_val(connection, attempt))
    if history.committed:
        yield f"the numbers of {_count(len(history.committed), 'result')}"


def _list_unchecked(base: _Base, *, spec_redacted: bool) -> Iterator[str]:
    history, record = base.history, base.record
    if history.is_sealed:
        where = "an attempt at test is open" if history.attempts else "the test split is sealed"
        yield f"The run is not finalized ({where}): there is no test number to compute again."
    elif not history.attempts[-1].committed:
        yield "A further attempt at test is open; it has no number yet."
    if any(attempt.evidence is None for attempt in history.committed):
        yield "A result was committed without digests of the rows that this version knows."
    if base.spec.splits.ids_file is not None:
        yield "Task ids were pinned in a file (splits.ids_file): they are taken as stored."
    if base.spec.splits.stratify_key is not None or base.spec.splits.near_duplicates == "refuse":
        yield "Strata and near duplicates of val and test are taken as frozen: only train content is stored."
    if spec_redacted:
        yield "Values of proposer.env were left out of the bundle, so the spec's digest cannot match."
    if record.version != capevolve.__version__:
        yield f"The run was started with capevolve {record.version}; this is {capevolve.__version__}."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
