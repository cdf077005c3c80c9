"""Candidates in the ledger: manifests and the blobs they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from capevolve.errors import LedgerError
from capevolve.ledger import schema
from capevolve.ledger.inserts import insert_missing
from capevolve.ledger.payloads import read_plain_blob


def insert_candidate(
    connection: Connection, candidate_id: str, manifest: str, blobs: Mapping[str, bytes]
) -> None:
    """Stores a candidate's manifest and blobs; what is already there is left as it is."""
    missing = set(blobs) - _known_blobs(connection, blobs)
    rows = [{"digest": name, "data": blobs[name]} for name in sorted(missing)]  # one order: no deadlock
    insert_missing(connection, schema.blobs, rows)
    insert_missing(connection, schema.candidates, [{"id": candidate_id, "manifest": manifest}])


def _known_blobs(connection: Connection, digests: Iterable[str]) -> set[str]:
    wanted = list(digests)
    return {
        name
        for start in range(0, len(wanted), 500)
        for name in connection.scalars(
            select(schema.blobs.c.digest).where(schema.blobs.c.digest.in_(wanted[start : start + 500]))
        )
    }


def find_manifest(connection: Connection, candidate_id: str) -> str | None:
    """The manifest of a candidate, or None."""
    return connection.scalar(
        select(schema.candidates.c.manifest).where(schema.candidates.c.id == candidate_id)
    )


def find_candidates(connection: Connection, prefix: str) -> tuple[str, ...]:
    """The ids of the candidates whose digest begins with `prefix`."""
    column = schema.candidates.c.id
    escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return tuple(
        connection.scalars(select(column).where(column.like(f"{escaped}%", escape="\\")).order_by(column))
    )


def read_blob(connection: Connection, name: str) -> bytes:
    """The bytes with this digest.

    Raises:
        LedgerError: The ledger does not hold them.
    """
    data = read_plain_blob(connection, name)
    if data is None:
        raise LedgerError("A candidate's file is missing from the ledger.", where=f"blobs, digest {name}")
    return data
