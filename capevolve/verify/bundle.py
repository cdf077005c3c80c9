"""A bundle: one file with everything `verify` needs of a run, for those without its ledger.

It is a zip. `manifest.json` has the SHA-256 of every other member, and the zip's comment has that of all
bytes before it. The same rows and the same installation give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection

from capevolve import seal
from capevolve.candidates import CandidateFile, load_candidate, read_file
from capevolve.canonical import canonical_json, digest_bytes
from capevolve.errors import TestSealError, UserError
from capevolve.finalize import is_committed
from capevolve.ledger import schema
from capevolve.ledger.audit import hold_view
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.export import read_rows, redact_spec
from capevolve.ledger.proposals import read_proposals
from capevolve.ledger.runs import RunRecord, read_run
from capevolve.verify.environment import Environment
from capevolve.verify.trees import list_candidates

MANIFEST = "manifest.json"
SEAL_LENGTH = len(digest_bytes(b""))

_CHUNK = 1 << 20
_TIME = (1980, 1, 1, 0, 0, 0)


class Member(BaseModel):
    """A file in a bundle."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    sha256: str
    size: int


class Manifest(BaseModel):
    """`manifest.json`, version 1.

    Attributes:
        schema_version: That of the ledger the rows are from.
        spec_redacted: True when values of `proposer.env` were left out of the spec.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal["capevolve-bundle"] = "capevolve-bundle"
    format_version: int = 1
    schema_version: int
    run: str
    chain_head: str
    spec_redacted: bool
    members: dict[str, Member]


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A bundle that was written, and the SHA-256 of its bytes."""

    path: Path
    digest: str


def write_bundle(connection: Connection, run_id: str, path: Path, environment: Environment) -> WrittenBundle:
    """Writes the bundle of a run, at once or not at all.

    Args:
        connection: A read transaction in which nothing was read yet.
        path: The file to write; an earlier bundle is replaced, no other file is.

    Raises:
        TestSealError: The run has no committed result: its rows would tell the test ids.
        UserError: The file cannot be written.
    """
    hold_view(connection)
    record = read_run(connection, run_id)
    if not is_committed(connection, run_id):
        raise TestSealError(
            "A bundle holds the rows of the test split, which is sealed until its result is committed.",
            where=f"run {run_id}",
            fix=f"Finalize first: capevolve finalize {run_id}. The other trials: capevolve export {run_id}.",
        )
    if path.exists() and not is_bundle(path):
        raise UserError("The file exists and is not a bundle.", where=str(path), fix="Name another file.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        try:
            digest = _write(connection, record, Path(name), environment)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"The bundle cannot be written: {error.strerror}.", where=str(path)) from error
    return WrittenBundle(path, digest)


def is_bundle(path: Path) -> bool:
    """Whether a file looks like a bundle, whole or not."""
    try:
        with zipfile.ZipFile(path) as file:
            return MANIFEST in file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _write(connection: Connection, record: RunRecord, path: Path, environment: Environment) -> str:
    redacted = redact_spec(record.spec)
    members = {}
    with zipfile.ZipFile(path, "w") as file:
        for name, chunks in _list_members(connection, record, redacted, environment):
            members[name] = _add(file, name, chunks)
        manifest = Manifest(
            schema_version=schema.SCHEMA_VERSION,
            run=record.id,
            chain_head=seal.read_head(connection, record.id),
            spec_redacted=redacted != record.spec,
            members=members,
        )
        _add(file, MANIFEST, [_render(manifest.model_dump(mode="json"))])
        file.comment = b"\0" * SEAL_LENGTH
    with path.open("r+b") as written:
        size = path.stat().st_size - SEAL_LENGTH
        digest = hash_start(path, size)
        written.seek(size)
        written.write(digest.encode("ascii"))
    return hash_start(path, size + SEAL_LENGTH)


def _list_members(
    connection: Connection, record: RunRecord, spec: str, environment: Environment
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """The members by name, each with its bytes in pieces."""
    members: dict[str, Iterable[bytes]] = {name: [text] for name, text in render_copies(record, spec).items()}
    members["environment.json"] = [_render(asdict(environment))]
    files = {
        file.digest: file
        for candidate_id in list_candidates(
            record, read_proposals(connection, record.id), list_evaluations(connection, record.id)
        )
        for file in load_candidate(connection, candidate_id).files
    }
    for digest, blob in files.items():
        members[f"blobs/{digest.replace(':', '-')}"] = _read_blob(connection, blob)
    for table, rows in read_rows(connection, record.id):
        members[f"tables/{table}.jsonl"] = map(_render, rows)
    yield from sorted(members.items())


def _read_blob(connection: Connection, file: CandidateFile) -> Iterator[bytes]:
    yield read_file(connection, file)


def render_copies(record: RunRecord, spec: str) -> dict[str, bytes]:
    """The members that repeat parts of the rows for readers: the spec, and the files of the adapter."""
    adapter = {"digest": record.adapter_digest, "files": dict(record.adapter_files)}
    return {"adapter.json": _render(adapter), "spec.json": f"{spec}\n".encode()}


def _render(value: object) -> bytes:
    """A value as canonical JSON with a newline."""
    return (canonical_json(value) + "\n").encode("utf-8")


def _add(file: zipfile.ZipFile, name: str, chunks: Iterable[bytes]) -> Member:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.create_system = 3
    hashed, size = hashlib.sha256(), 0
    with file.open(info, "w", force_zip64=True) as member:
        for chunk in chunks:
            hashed.update(chunk)
            size += len(chunk)
            member.write(chunk)
    return Member(sha256=hashed.hexdigest(), size=size)


def hash_start(path: Path, size: int) -> str:
    """The digest of the first bytes of a file."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (chunk := file.read(min(size, _CHUNK))):
            hashed.update(chunk)
            size -= len(chunk)
    return f"sha256:{hashed.hexdigest()}"
