"""A bundle read back: its digests, then its rows in a ledger of their own, verified like any run."""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import Connection

from capevolve.canonical import ALGORITHM
from capevolve.errors import TamperError, UserError
from capevolve.ledger import schema
from capevolve.ledger.export import BATCH, BATCH_BYTES, insert_blob, insert_rows, new_ledger, open_copy
from capevolve.ledger.runs import read_run
from capevolve.verify.bundle import MANIFEST, SEAL_LENGTH, Manifest, hash_start, render_copies
from capevolve.verify.difference import expect, reading, refuse
from capevolve.verify.run import Verified, verify_run

FIX = "Ask for the bundle again, or for its SHA-256 from who wrote it."

_BLOBS, _TABLES = "blobs/", "tables/"
_CHUNK = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)
"""What reading a damaged zip raises."""


def verify_bundle(path: Path) -> Verified:
    """Verifies the run in a bundle, without its ledger.

    Raises:
        TamperError: The bundle is damaged or was edited, or the run's rows do not agree.
        UserError: The file is no bundle, or a newer capevolve wrote it.
    """
    with _opened(path) as file:
        manifest = _read_manifest(file, path)
        _check_members(file, manifest, path)
        _check_whole(path)
        with tempfile.TemporaryDirectory(prefix="capevolve-bundle-") as scratch:
            place = Path(scratch) / "ledger.db"
            with new_ledger(place) as connection:
                _import(connection, file, manifest, path)
            return _verify(place, file, manifest, path)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        file = zipfile.ZipFile(path)
    except _DAMAGE as error:
        if _begins_like_a_zip(path):
            raise TamperError("The bundle is truncated or damaged.", where=str(path), fix=FIX) from error
        what = "The file is not a bundle." if path.exists() else "There is no such file."
        raise UserError(what, where=str(path), fix="Name a run, or a bundle.") from error
    with file:
        yield file


def _begins_like_a_zip(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


@contextmanager
def _undamaged(member: str, path: Path) -> Iterator[None]:
    """Names the member that cannot be read."""
    try:
        yield
    except _DAMAGE as error:
        raise TamperError("The bundle is damaged.", where=f"{path}, member {member}", fix=FIX) from error


def _read_manifest(file: zipfile.ZipFile, path: Path) -> Manifest:
    where = f"{path}, member {MANIFEST}"
    if MANIFEST not in file.namelist():
        refuse("The bundle has no manifest.", where, fix=FIX)
    with _undamaged(MANIFEST, path):
        text = file.read(MANIFEST)
        version = json.loads(text).get("format_version")
    if isinstance(version, int) and version > Manifest.model_fields["format_version"].default:
        raise UserError(
            f"The bundle has format {version}.", where=str(path), fix="Use the newer capevolve that wrote it."
        )
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        raise TamperError("The manifest is not one of a bundle.", where=where, fix=FIX) from error
    if manifest.schema_version > schema.SCHEMA_VERSION:
        raise UserError(
            f"The bundle is of a ledger with schema version {manifest.schema_version}; this capevolve knows "
            f"{schema.SCHEMA_VERSION}.",
            where=str(path),
            fix="Use the newer capevolve that wrote it.",
        )
    return manifest


def _check_members(file: zipfile.ZipFile, manifest: Manifest, path: Path) -> None:
    """Compares every member with its digest, and the list of members with the manifest."""
    names = [name for name in file.namelist() if name != MANIFEST]
    for name in sorted(set(names) | manifest.members.keys()):
        where = f"{path}, member {name}"
        if name not in manifest.members or names.count(name) > 1:
            refuse("A member is there that the manifest does not have.", where, fix=FIX)
        if name not in names:
            refuse("A member is missing.", where, fix=FIX)
        hashed = hashlib.sha256()
        with _undamaged(name, path), file.open(name) as member:
            while chunk := member.read(_CHUNK):
                hashed.update(chunk)
        expect("sha256", where, hashed.hexdigest(), manifest.members[name].sha256, fix=FIX)


def _check_whole(path: Path) -> None:
    """Compares the bytes of the file with the digest at its end: what lies between its members too."""
    size = path.stat().st_size - SEAL_LENGTH
    with path.open("rb") as file:
        file.seek(max(0, size))
        stored = file.read()
    if stored != hash_start(path, size).encode("ascii"):
        refuse("The bytes of the bundle no longer match the digest at its end.", str(path), fix=FIX)


def _import(connection: Connection, file: zipfile.ZipFile, manifest: Manifest, path: Path) -> None:
    for name in sorted(manifest.members):
        with reading(f"{path}, member {name}"), file.open(name) as member:
            if name.startswith(_BLOBS):
                digest = name.removeprefix(_BLOBS).replace(f"{ALGORITHM}-", f"{ALGORITHM}:")
                insert_blob(connection, digest, member.read())
            elif name.startswith(_TABLES):
                table = name.removeprefix(_TABLES).removesuffix(".jsonl")
                rows, size = [], 0
                for line in member:
                    rows.append(json.loads(line))
                    size += len(line)
                    if len(rows) == BATCH or size > BATCH_BYTES:
                        insert_rows(connection, table, rows)
                        rows, size = [], 0
                if rows:
                    insert_rows(connection, table, rows)


def _verify(place: Path, file: zipfile.ZipFile, manifest: Manifest, path: Path) -> Verified:
    ledger = open_copy(place)
    try:
        with ledger.read() as connection:
            with reading(f"{path}, member {MANIFEST}"):
                record = read_run(connection, manifest.run)
            verified = verify_run(connection, manifest.run, spec_redacted=manifest.spec_redacted)
    finally:
        ledger.close()
    expect("chain_head", f"{path}, member {MANIFEST}", manifest.chain_head, verified.chain_head, fix=FIX)
    for name, computed in render_copies(record, record.spec).items():
        with _undamaged(name, path):
            stored = file.read(name)
        if stored != computed:
            refuse("A copy for readers is not what the rows say.", f"{path}, member {name}", fix=FIX)
    return verified
