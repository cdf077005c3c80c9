"""What people and tools read of a run: files made from the ledger, which can be deleted and made again.

Editing one changes nothing: `capevolve verify` names the difference.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from capevolve.candidates import load_candidate, write_candidate
from capevolve.canonical import short
from capevolve.errors import UserError
from capevolve.ledger.attempts import AttemptRecord
from capevolve.ledger.store import Ledger
from capevolve.report.facts import read_facts
from capevolve.report.html import render_html
from capevolve.report.looks import find_committed
from capevolve.report.markdown import render_markdown
from capevolve.report.values import RunFacts
from capevolve.runs import check_run_id, run_folder


@dataclass(frozen=True, slots=True)
class Projections:
    """Where the files are and the facts they tell; `final` is None while there is no result."""

    facts: RunFacts
    folder: Path
    splits: Path
    final: Path | None
    report_md: Path
    report_html: Path
    candidates: tuple[Path, ...]


def write_projections(ledger: Ledger, root: Path, run_id: str, *, now: float) -> Projections:
    """Writes the projections of a run, each file at once or not at all.

    The same ledger gives the same bytes, except where a live driver's heartbeat is told. A `final.json` that
    no committed result stands behind is removed.

    Args:
        root: The project's folder.
        now: The time, in seconds since the epoch.

    Raises:
        LedgerError: The ledger does not know the run.
        UserError: The files cannot be written.
    """
    facts = read_facts(ledger, run_id, now=now)
    with ledger.read() as connection:
        committed = find_committed(connection, run_id)
    folder = run_folder(root, check_run_id(run_id))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write(ledger, folder, facts, committed)
    except OSError as error:
        raise UserError(
            f"The reports cannot be written: {error.strerror or error}.",
            where=str(folder),
            fix="Make room, or make it writable. Nothing is lost: "
            f"capevolve report {run_id} writes them again.",
        ) from error


def _write(ledger: Ledger, folder: Path, facts: RunFacts, committed: AttemptRecord | None) -> Projections:
    return Projections(
        facts=facts,
        folder=folder,
        splits=_replace(folder / "splits.json", render_splits(facts)),
        final=_write_final(folder / "final.json", committed),
        report_md=_replace(folder / "report.md", render_markdown(facts)),
        report_html=_replace(folder / "report.html", render_html(facts)),
        candidates=_write_candidates(ledger, folder / "candidates", facts),
    )


def render_splits(facts: RunFacts) -> str:
    """Returns `splits.json`; the ids of test only once a result was committed."""
    splits = facts.splits
    content = {
        "schema_version": 1,
        "run": facts.info.id,
        "seed": splits.seed,
        "method": splits.method,
        "sizes": {"train": splits.train, "val": splits.val, "test": splits.test, "unused": splits.unused},
        "holdout": splits.holdout,
        "val_holdout": splits.val_holdout,
        "warnings": list(splits.warnings),
        "overlaps": [asdict(overlap) for overlap in splits.overlaps],
        "digest": splits.digest,
        "test_digest": splits.test_digest,
        "test_ids_digest": splits.test_ids_digest,
        "test_used": splits.test_ids is not None,
        "train": list(splits.train_ids),
        "val": list(splits.val_ids),
        "test": None if splits.test_ids is None else list(splits.test_ids),
    }
    return _pretty(content)


def _write_final(path: Path, committed: AttemptRecord | None) -> Path | None:
    if committed is None or committed.result is None:
        path.unlink(missing_ok=True)
        return None
    return _replace(path, _pretty(json.loads(committed.result)))


def _pretty(content: object) -> str:
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _replace(path: Path, text: str) -> Path:
    """Writes a file beside its place and moves it there."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def list_candidates(facts: RunFacts) -> tuple[str, ...]:
    """The candidates whose files are written: the seed candidate and every proposed one."""
    proposed = (i.candidate_id for i in facts.iterations if i.candidate_id is not None)
    return tuple(dict.fromkeys((facts.seed_id, *proposed)))


def _write_candidates(ledger: Ledger, folder: Path, facts: RunFacts) -> tuple[Path, ...]:
    """Writes the trees that are not there yet. A tree that is there is left alone."""
    folder.mkdir(exist_ok=True)
    paths = []
    for candidate_id in list_candidates(facts):
        path = folder / short(candidate_id)
        paths.append(path)
        if not path.exists():
            _write_tree(ledger, candidate_id, path)
    return tuple(paths)


def _write_tree(ledger: Ledger, candidate_id: str, path: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        with ledger.read() as connection:
            write_candidate(connection, load_candidate(connection, candidate_id), scratch)
        scratch.chmod(0o755)
        scratch.rename(path)
    except OSError:
        if not path.exists():  # another process may have been faster: its copy is as good
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
