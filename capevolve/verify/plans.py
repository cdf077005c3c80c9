"""The run's spec against its digest, and the plan of each attempt against what it must cover."""

from __future__ import annotations

from collections.abc import Sequence

from capevolve.canonical import canonical_json, digest_bytes
from capevolve.evaluate.ticket import TestPlan
from capevolve.ledger.audit import FrozenTask
from capevolve.ledger.proposals import VerdictRecord
from capevolve.ledger.runs import RunRecord
from capevolve.model import Decision
from capevolve.search.state import find_incumbent
from capevolve.spec import ProjectSpec
from capevolve.spec.resume import parse_spec
from capevolve.verify.difference import expect, name_row, reading, refuse
from capevolve.verify.history import VerifiedAttempt


def check_spec(record: RunRecord, *, redacted: bool) -> ProjectSpec:
    """Reads the run's spec, its digest compared unless values were left out of it.

    Raises:
        TamperError: It does not match its digest, or cannot be read.
    """
    where = name_row("runs", run=record.id)
    with reading(where):
        if not redacted:
            expect("spec: its digest", where, digest_bytes(record.spec.encode("utf-8")), record.spec_digest)
        return parse_spec(record.spec)


def check_plan(
    attempt: VerifiedAttempt, record: RunRecord, spec: ProjectSpec, tasks: Sequence[FrozenTask]
) -> None:
    """Compares a plan with the sealed tasks, the spec and the adapter.

    Raises:
        TamperError: It covers anything else.
    """
    plan, where = attempt.plan, attempt.where
    _check_tasks(plan, record.id, [frozen for frozen in tasks if frozen.split == "test"])
    expect("plan: seed_id", where, plan.seed_id, record.seed_candidate)
    expect("plan: num_trials", where, plan.num_trials, spec.seal_trials())
    expect("plan: base_seed", where, plan.base_seed, spec.base_seed())
    expect("plan: ks", where, plan.ks, spec.evaluation.reported_ks(spec.seal_trials()))
    expect("plan: adapter_files", where, sorted(plan.adapter_files), sorted(record.adapter_files))


def _check_tasks(plan: TestPlan, run_id: str, sealed: Sequence[FrozenTask]) -> None:
    """Names the first sealed task that differs from the plan, by its position: an id is not shown here."""
    planned = dict(plan.tasks)
    for frozen in sealed:
        where = name_row("split_tasks", run=run_id, position=frozen.position)
        ref = frozen.task.ref
        if ref.id not in planned:
            refuse("A task is in the test split and not in the plan of the attempt that scored it.", where)
        expect("digest", where, ref.digest, planned[ref.id])
    if len(planned) != len(sealed):
        where = name_row("split_tasks", run=run_id, split="test")
        refuse(f"The plan covers {len(planned)} test tasks; {len(sealed)} are in the split.", where)


def list_known(attempt: VerifiedAttempt, verdicts: tuple[VerdictRecord, ...]) -> tuple[VerdictRecord, ...]:
    """The verdicts that were there at the commit of an attempt, as far as its seal event tells."""
    if attempt.evidence is None:
        return verdicts
    known = {name[1] for name in attempt.evidence.marks if name[0] == "verdicts"}
    return tuple(verdict for verdict in verdicts if str(verdict.iteration) in known)


def check_best(attempt: VerifiedAttempt, seed_id: str, verdicts: tuple[VerdictRecord, ...]) -> None:
    """Compares the candidate that a plan calls best with the verdicts that were there at its commit.

    Without a commit any incumbent of the run will do: the search may have gone on since.

    Raises:
        TamperError: It is another one.
    """
    best = attempt.plan.best_id
    if attempt.evidence is not None:
        then = list_known(attempt, verdicts)
        expect("plan: best_id", attempt.where, best, find_incumbent(seed_id, then))
        return
    accepted = {v.candidate_id for v in verdicts if v.verdict.decision is Decision.ACCEPT}
    if best not in {seed_id, *accepted}:
        refuse(f"plan: best_id is {canonical_json(best)}, which was never the incumbent.", attempt.where)
