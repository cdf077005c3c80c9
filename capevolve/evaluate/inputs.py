"""What the hosts of an evaluation read: the candidate's copy and the adapter, both as the ledger knows them.

A target that edits its candidate measures something else from then on. So the copy is checked before any
result is recorded: what was measured with an edited copy never reaches the ledger.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import AdapterFacts
from capevolve.candidates import Candidate, find_changes, load_candidate, write_candidate
from capevolve.errors import TamperError
from capevolve.ledger.runs import RunRecord
from capevolve.ledger.store import Ledger
from capevolve.runs import OpenRun

_Marks = tuple[tuple[int, int, int] | None, ...]


@dataclass(slots=True)
class CandidateCopy:
    """A candidate's files on disk, for one evaluation and no other."""

    folder: Path
    candidate: Candidate
    _marks: _Marks = field(default=(), init=False)

    def check(self) -> None:
        """Refuses to go on when a file of the candidate is not what it was. New files do not count.

        Contents are only read again when a file's size, inode or time of change says so.

        Raises:
            TamperError: The target edited the candidate it is measured with.
        """
        marks = tuple(_mark(self.folder / file.path) for file in self.candidate.files)
        if marks == self._marks:
            return
        changed = find_changes(self.folder, self.candidate)
        if changed:
            raise TamperError(
                f"The target changed the candidate while it was evaluated: {', '.join(changed)}.",
                where=str(self.folder),
                fix="Let the target write elsewhere: a candidate is what it reads. Nothing that was measured "
                "with the changed files is recorded.",
            )
        self._marks = marks

    def remove(self) -> None:
        """Deletes the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_ino, state.st_size, state.st_ctime_ns


def write_copy(ledger: Ledger, candidate_id: str, folder: Path) -> CandidateCopy:
    """Writes a candidate afresh: what one evaluation does to its copy, no other sees."""
    shutil.rmtree(folder, ignore_errors=True)
    with ledger.read() as connection:
        candidate = load_candidate(connection, candidate_id)
        write_candidate(connection, candidate, folder)
    return CandidateCopy(folder, candidate)


def check_adapter(record: RunRecord, facts: AdapterFacts) -> None:
    """Refuses an adapter that is not the one the run was started with.

    Raises:
        TamperError: A file of the adapter was changed, removed or added.
    """
    if facts.digest == record.adapter_digest:
        return
    before, now = dict(record.adapter_files), dict(facts.files)
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    raise TamperError(
        f"The adapter changed since run {record.id} was started: {', '.join(names) or facts.class_name}.",
        where=facts.file,
        fix="Restore it to resume the run, or start a new run: numbers of two scorers do not compare.",
    )


def make_pool(run: OpenRun, folder: Path, *, expected: int, prefetch: bool) -> HostPool:
    """Returns the hosts of one evaluation, not started.

    Args:
        folder: The candidate's copy.
        expected: Trials that will come.
        prefetch: Whether hosts may hold a few requests ahead.
    """
    settings = run.spec.evaluation
    return HostPool(
        run.adapter,
        folder,
        slots=settings.concurrency,
        timeout_s=settings.timeout_s,
        grace_s=settings.grace_s,
        trials_per_host=settings.trials_per_host,
        prefetch=prefetch,
        expected=expected,
        batch_size=settings.batch_size,
        memory_mb=settings.memory_mb,
        max_payload=1000 * settings.max_trace_kb,
        heed=True,
    )
