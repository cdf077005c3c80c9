"""One iteration's proposal: the proposer called on a scratch copy, its files judged fit or not, recorded."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sqlalchemy import Connection

from capevolve.candidates import (
    Candidate,
    Tree,
    load_candidate,
    read_file,
    read_tree,
    store_candidate,
    write_candidate,
)
from capevolve.canonical import digest_bytes
from capevolve.errors import LedgerError, TamperError, UserError
from capevolve.failpoints import failpoint
from capevolve.ledger.evaluations import EvaluationRecord, find_evaluation
from capevolve.ledger.leases import check_lease
from capevolve.ledger.proposals import (
    ProposalRecord,
    ProposalStatus,
    charge_proposal,
    find_proposal,
    finish_proposal,
    invalidate_proposal,
    read_proposals,
    start_proposal,
)
from capevolve.ledger.runs import RunRecord, read_run
from capevolve.proposers.brief import Brief, build_brief
from capevolve.proposers.command import CommandProposer
from capevolve.proposers.draft import Draft, Proposer
from capevolve.proposers.script import load_script
from capevolve.proposers.syntax import find_unreadable
from capevolve.runs import OpenRun
from capevolve.spec import CommandProposerSpec, ProjectSpec


def load_proposer(root: Path, spec: ProjectSpec) -> Proposer:
    """The proposer of a project.

    Raises:
        UserError: The spec names none, or it cannot be used.
    """
    chosen = spec.proposer
    if chosen is None:
        raise UserError(
            "There is no proposer.",
            where="capevolve.yaml",
            fix="Add `proposer: {kind: command, command: [...]}`, or set search.max_iterations to 0.",
        )
    if isinstance(chosen, CommandProposerSpec):
        return CommandProposer(chosen.argv(), root, chosen.timeout_s, chosen.env)
    return load_script(root / chosen.file)


def discard_proposal(run: OpenRun, iteration: int, reason: str) -> None:
    """Marks a proposal invalid whose candidate cannot be made live: it costs its iteration, not the run."""
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        invalidate_proposal(connection, run.id, iteration, clean_text(reason))


def derive_seed(base_seed: int, iteration: int) -> int:
    """The proposer's seed for an iteration: the same whenever the iteration is made again."""
    digest = hashlib.sha256(f"{base_seed}:proposal:{iteration}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@dataclass(frozen=True, slots=True)
class _Assignment:
    parent: Candidate
    brief: Brief
    record: RunRecord


async def make_proposal(run: OpenRun, iteration: int, parent_id: str) -> ProposalRecord:
    """Makes the proposal of an iteration, or reads it when it was made already.

    Raises:
        UserError: The proposer cannot be started; found out, where possible, before anything is spent.
        TamperError: The adapter is not the one the run was started with, or was changed by the proposer.
    """
    with run.ledger.read() as connection:
        known = find_proposal(connection, run.id, iteration)
        if known is not None and known.status != "started":
            return known
        proposer = load_proposer(run.root, run.spec)
        proposer.check()
        assignment = _assign(connection, run, proposer, iteration, parent_id)
    check_files(run, assignment.record)
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        start_proposal(connection, run.id, iteration, parent_id, run.clock())
    failpoint("propose.started")
    with tempfile.TemporaryDirectory(prefix="capevolve-proposal-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / "candidate"
        with run.ledger.read() as connection:
            write_candidate(connection, assignment.parent, folder)
        seed = derive_seed(run.spec.base_seed(), iteration)
        draft = await proposer.edit(folder, assignment.brief, seed=seed)
        with run.ledger.write() as connection:
            check_lease(connection, run.driver)
            charge_proposal(connection, run.id, iteration, draft.cost_usd, draft.tokens)
        await asyncio.to_thread(check_files, run, assignment.record)
        tree, problem = _read_draft(folder, draft)
    failpoint("propose.edited")
    return _record(run, iteration, assignment, draft, tree, problem)


def _record(
    run: OpenRun,
    iteration: int,
    assignment: _Assignment,
    draft: Draft,
    tree: Tree | None,
    problem: str | None,
) -> ProposalRecord:
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        status, detail = _classify(connection, run, assignment.parent, tree, draft, problem)
        if tree is not None and status == "proposed":
            store_candidate(connection, tree)
        keeps = tree is not None and status in ("proposed", "duplicate")
        finish_proposal(
            connection,
            run.id,
            ProposalRecord(
                iteration=iteration,
                parent_id=assignment.parent.id,
                status=status,
                candidate_id=tree.candidate.id if tree is not None and keeps else None,
                summary=clean_line(draft.summary),
                detail=clean_text(detail),
                cost_usd=None,  # charged already
                tokens=None,
                calls=0,
                started_at=0.0,
                finished_at=run.clock(),
            ),
        )
        done = find_proposal(connection, run.id, iteration)
    failpoint("propose.finished")
    if done is None:
        raise LedgerError(f"The proposal of iteration {iteration} is missing.")
    return done


def _assign(
    connection: Connection, run: OpenRun, proposer: Proposer, iteration: int, parent_id: str
) -> _Assignment:
    parent = load_candidate(connection, parent_id)
    evidence: EvaluationRecord | None = None
    if proposer.needs_evidence:
        evidence = find_evaluation(connection, run.key(parent_id, "train"))
        if evidence is None or evidence.finished_at is None:
            raise LedgerError("The incumbent must be evaluated on train before a proposer is called.")
    brief = build_brief(
        connection,
        run_id=run.id,
        iteration=iteration,
        max_iterations=run.spec.search.max_iterations,
        incumbent=parent,
        evidence=evidence,
    )
    return _Assignment(parent, brief, read_run(connection, run.id))


def check_files(run: OpenRun, record: RunRecord) -> None:
    """Refuses to go on when the adapter's files are not those the run was started with.

    Raises:
        TamperError: One was changed or removed.
    """
    for name, expected in record.adapter_files:
        path = run.root / name
        if not path.is_file() or digest_bytes(path.read_bytes()) != expected:
            raise TamperError(
                f"{name} changed since run {record.id} was started.",
                where=str(path),
                fix="Restore it to resume the run. A proposer edits the candidate, never its judge.",
            )


def _read_draft(folder: Path, draft: Draft) -> tuple[Tree | None, str | None]:
    if draft.failure is not None:
        return None, None
    if folder.is_symlink():
        return None, "the candidate's folder was replaced by a link"
    try:
        return read_tree(folder), None
    except UserError as error:
        return None, error.what


def _classify(
    connection: Connection,
    run: OpenRun,
    parent: Candidate,
    tree: Tree | None,
    draft: Draft,
    problem: str | None,
) -> tuple[ProposalStatus, str]:
    """What became of a draft, and why, in words."""
    if draft.exhausted:
        return "exhausted", draft.failure or ""
    if draft.failure is not None:
        return "failed", f"{draft.failure}\n{draft.output}".strip()
    if tree is None:
        return "invalid", problem or ""
    if tree.candidate.id == parent.id:
        return "empty", f"nothing was edited\n{draft.output}".strip()
    forbidden = find_forbidden(parent, tree.candidate, run.spec.editable)
    if forbidden:
        return "invalid", f"not editable: {', '.join(forbidden)}"
    changed = set(list_changed(parent, tree.candidate))
    before = {file.path: read_file(connection, file) for file in parent.files if file.path in changed}
    after = {f.path: tree.blobs[f.digest] for f in tree.candidate.files if f.path in changed}
    unreadable = find_unreadable(before, after)
    if unreadable:
        return "invalid", "; ".join(unreadable)
    record = read_run(connection, run.id)
    earlier = {p.candidate_id: p.iteration for p in read_proposals(connection, run.id) if p.candidate_id}
    earlier.setdefault(record.seed_candidate, 0)
    if tree.candidate.id in earlier:
        number = earlier[tree.candidate.id]
        return "duplicate", "the same as " + (f"iteration {number}" if number else "the seed candidate")
    return "proposed", draft.output


def find_forbidden(old: Candidate, new: Candidate, patterns: tuple[str, ...]) -> list[str]:
    """The changed paths that no pattern allows; `*` also matches across folders."""
    changed = list_changed(old, new)
    return [path for path in changed if not any(_matches(path, pattern) for pattern in patterns)]


def list_changed(old: Candidate, new: Candidate) -> list[str]:
    """The paths of files that one of them has and the other has not, or not the same; sorted."""
    before = {file.path: file for file in old.files}
    after = {file.path: file for file in new.files}
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern allows a path; `**/` is any number of folders, none included."""
    head, found, tail = pattern.partition("**/")
    if not found:
        return fnmatchcase(path, pattern)
    return _matches(path, head + tail) or _matches(path, f"{head}*/{tail}")


def clean_line(text: str, limit: int = 500) -> str:
    """Words of a program as one line."""
    return clean_text(" ".join(clean_text(text).split()), limit)


def clean_text(text: str, limit: int = 4000) -> str:
    """Words of a program made fit for a terminal and a table: no control or bidirectional characters."""
    kept = "".join(
        char if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else " "
        for char in text
    )
    return kept if len(kept) <= limit else f"{kept[:limit]} [cut]"
