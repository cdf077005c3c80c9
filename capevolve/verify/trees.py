"""The candidates of a run: manifests and files against the digests they are called by."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from capevolve.candidates import CandidateFile, load_candidate, read_file
from capevolve.ledger.evaluations import EvaluationRecord
from capevolve.ledger.proposals import ProposalRecord
from capevolve.ledger.runs import RunRecord
from capevolve.verify.difference import name_row, reading


def list_candidates(
    record: RunRecord, proposals: Iterable[ProposalRecord], evaluations: Iterable[EvaluationRecord]
) -> tuple[str, ...]:
    """The ids of the candidates a run has to do with, the seed candidate first."""
    proposed = (p.candidate_id for p in proposals if p.candidate_id is not None)
    evaluated = (e.key.candidate_id for e in evaluations)
    return tuple(dict.fromkeys((record.seed_candidate, *proposed, *evaluated)))


def check_candidates(connection: Connection, candidates: Iterable[str]) -> int:
    """Compares every candidate with its id and every file with its digest; returns the number of files.

    Raises:
        TamperError: One does not match, or is missing.
    """
    files: dict[str, CandidateFile] = {}
    for candidate_id in candidates:
        with reading(name_row("candidates", id=candidate_id)):
            candidate = load_candidate(connection, candidate_id)
        files.update((file.digest, file) for file in candidate.files)
    for name, file in sorted(files.items()):
        with reading(name_row("blobs", digest=name)):
            read_file(connection, file)
    return len(files)
