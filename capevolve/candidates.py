"""Candidates: immutable, content-addressed trees of files.

A candidate's id is the digest of its manifest: relative path, content digest and executable bit of every
file, sorted. The same files have the same id in every run, whoever proposed them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sqlalchemy import Connection

from capevolve.canonical import canonical_json, digest_bytes, short
from capevolve.errors import LedgerError, TamperError, UserError
from capevolve.ledger import trees

MAX_BYTES = 64 * 1024 * 1024
"""A candidate is what an agent reads; a larger tree is a mistake (a dataset, a virtual environment)."""

_SKIPPED_FOLDERS = frozenset({".git", "__pycache__"})


@dataclass(frozen=True, slots=True)
class CandidateFile:
    """One file of a candidate; `path` is relative with forward slashes."""

    path: str
    digest: str
    executable: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """An immutable tree of files; `files` are sorted by path."""

    id: str
    files: tuple[CandidateFile, ...]

    @property
    def label(self) -> str:
        """The first hex digits of the id, for people and for folder names."""
        return short(self.id)


@dataclass(frozen=True, slots=True)
class Tree:
    """A candidate with the bytes of its files, `{digest: bytes}`."""

    candidate: Candidate
    blobs: Mapping[str, bytes]


def read_tree(folder: Path) -> Tree:
    """Reads a folder as a candidate.

    `.git` and `__pycache__` folders are left out; everything else counts. An empty folder is a candidate
    without files.

    Raises:
        UserError: The folder is missing, too large or cannot be read, or holds a link or a name that is not
            UTF-8.
    """
    if not folder.is_dir():
        raise UserError(
            "The candidate's folder does not exist.",
            where=str(folder),
            fix="Make it, or correct `seed_candidate` in capevolve.yaml.",
        )
    try:
        return _read_files(folder)
    except OSError as error:
        raise UserError(
            f"The candidate cannot be read: {error.strerror}.", where=error.filename or str(folder)
        ) from error


def _read_files(folder: Path) -> Tree:
    files: list[CandidateFile] = []
    blobs: dict[str, bytes] = {}
    total = 0
    for path in _walk(folder):
        name = _relative_name(path, folder)
        total += path.stat().st_size
        if total > MAX_BYTES:
            raise UserError(
                f"The candidate is larger than {MAX_BYTES // 2**20} MiB.",
                where=str(folder),
                fix="Keep only what the agent reads in it; data belongs beside the adapter.",
            )
        data = path.read_bytes()
        name_digest = digest_bytes(data)
        blobs[name_digest] = data
        files.append(CandidateFile(name, name_digest, _is_executable(path)))
    return Tree(_candidate(tuple(sorted(files, key=lambda f: f.path))), blobs)


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            raise UserError(
                "A candidate holds no links.", where=str(entry), fix="Replace the link by the file itself."
            )
        if entry.is_dir():
            if entry.name not in _SKIPPED_FOLDERS:
                yield from _walk(entry)
        elif entry.is_file():
            yield entry
        else:
            raise UserError("A candidate holds only files and folders.", where=str(entry))


def _relative_name(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError("A file's name is not UTF-8.", where=repr(str(path)), fix="Rename it.") from None
    return name


def _candidate(files: tuple[CandidateFile, ...]) -> Candidate:
    return Candidate(digest_bytes(_manifest(files).encode("utf-8")), files)


def _manifest(files: tuple[CandidateFile, ...]) -> str:
    return canonical_json([[f.path, f.digest, f.executable] for f in files])


def store_candidate(connection: Connection, tree: Tree) -> Candidate:
    """Keeps a candidate in the ledger; storing the same tree again changes nothing."""
    candidate = tree.candidate
    trees.insert_candidate(connection, candidate.id, _manifest(candidate.files), tree.blobs)
    return candidate


def load_candidate(connection: Connection, candidate_id: str) -> Candidate:
    """Reads a candidate from the ledger.

    Raises:
        LedgerError: The ledger does not know it.
        TamperError: Its manifest no longer matches its id.
    """
    manifest = trees.find_manifest(connection, candidate_id)
    if manifest is None:
        raise LedgerError(f"The ledger knows no candidate {short(candidate_id) or candidate_id!r}.")
    if digest_bytes(manifest.encode("utf-8")) != candidate_id:
        raise TamperError(
            "A candidate's manifest does not match its id.", where=f"candidates, row {candidate_id}"
        )
    files = (CandidateFile(path, name, executable) for path, name, executable in json.loads(manifest))
    return Candidate(candidate_id, tuple(files))


def resolve_candidate(connection: Connection, name: str) -> Candidate:
    """Finds a candidate by its id or by the beginning of its digest.

    Raises:
        UserError: None or several match.
    """
    prefix = name if name.startswith("sha256:") else f"sha256:{name}"
    matches = trees.find_candidates(connection, prefix) if len(prefix) > len("sha256:") else ()
    if len(matches) != 1:
        found = ", ".join(short(match) for match in matches[:5])
        raise UserError(
            f"{'No' if not matches else 'More than one'} candidate is called {name!r}.",
            where=found or None,
            fix="`capevolve status RUN` lists the candidates.",
        )
    return load_candidate(connection, matches[0])


def read_file(connection: Connection, file: CandidateFile) -> bytes:
    """The bytes of a candidate's file.

    Raises:
        TamperError: They no longer match their digest.
    """
    data = trees.read_blob(connection, file.digest)
    if digest_bytes(data) != file.digest:
        raise TamperError("A candidate's file does not match its digest.", where=f"blobs, {file.digest}")
    return data


def write_candidate(connection: Connection, candidate: Candidate, folder: Path) -> None:
    """Writes a candidate's files into a new or empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in candidate.files:
        parts = PurePosixPath(file.path).parts
        if PurePosixPath(file.path).is_absolute() or ".." in parts:
            raise TamperError("A candidate's path leaves its folder.", where=file.path)
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(read_file(connection, file))
        path.chmod(0o755 if file.executable else 0o644)


def find_changes(folder: Path, candidate: Candidate) -> list[str]:
    """The files of a candidate that its written copy no longer holds as they were. New files do not count."""
    changed = []
    for file in candidate.files:
        path = folder.joinpath(*PurePosixPath(file.path).parts)
        if path.is_symlink() or not path.is_file() or digest_bytes(path.read_bytes()) != file.digest:
            changed.append(file.path)
    return changed


def diff_candidates(connection: Connection, old: Candidate, new: Candidate) -> str:
    """A unified diff from one candidate to another; binary files are only named."""
    before = {file.path: file for file in old.files}
    after = {file.path: file for file in new.files}
    parts: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        a, b = before.get(path), after.get(path)
        if a is not None and b is not None:
            if a.executable != b.executable:
                parts.append(f"mode of {path}: executable {a.executable} -> {b.executable}\n")
            if a.digest == b.digest:
                continue
        parts.append(_diff_file(path, _bytes(connection, a), _bytes(connection, b)))
    return "".join(parts)


def _bytes(connection: Connection, file: CandidateFile | None) -> bytes | None:
    return None if file is None else read_file(connection, file)


def _diff_file(path: str, old: bytes | None, new: bytes | None) -> str:
    before, after = _split_lines(old), _split_lines(new)
    if before is None or after is None:
        return f"binary file {path} differs\n"
    old_name = f"a/{path}" if old is not None else "/dev/null"
    new_name = f"b/{path}" if new is not None else "/dev/null"
    lines = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(before, after, old_name, new_name)
    )
    return lines or f"--- {old_name}\n+++ {new_name}\n"  # an empty file came or went


def _split_lines(data: bytes | None) -> list[str] | None:
    """The lines of a text file, parted at newlines only; None when it is binary."""
    try:
        text = (data or b"").decode("utf-8")
    except UnicodeDecodeError:
        return None
    *whole, last = text.split("\n")
    return None if "\0" in text else [f"{line}\n" for line in whole] + ([last] if last else [])
