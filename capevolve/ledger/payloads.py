"""What a rollout held, as JSON text: in its row when short, else once and compressed among the blobs.

A blob is called by the digest of the text itself, so a row says what its payload is without holding it, and
digests over rows are the same either way. Rows of schema version 1 hold theirs whatever its length.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from capevolve.canonical import digest_bytes
from capevolve.errors import LedgerError, TamperError
from capevolve.ledger import schema
from capevolve.ledger.inserts import insert_missing

INLINE_LENGTH = 4096
"""A payload of up to so many characters stays in its row. See docs/decisions/0009-traces.md."""

ZLIB = "zlib"

_LEVEL = 1
_MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A long payload as its blob keeps it.

    Attributes:
        digest: The digest of the text.
        data: The text, compressed.
    """

    digest: str
    data: bytes


def pack_payload(text: str) -> StoredPayload:
    """Compresses a payload. Call it before a write transaction, not in one: it takes milliseconds."""
    data = text.encode("utf-8")
    return StoredPayload(digest_bytes(data), zlib.compress(data, _LEVEL))


def insert_payloads(connection: Connection, payloads: Iterable[StoredPayload]) -> None:
    """Adds the blobs of payloads; one that is there already is left as it is."""
    rows = {payload.digest: payload.data for payload in payloads}
    if rows:  # in one order: no deadlock
        insert_missing(
            connection,
            schema.blobs,
            [{"digest": name, "data": rows[name], "encoding": ZLIB} for name in sorted(rows)],
        )


def read_payload(text: str, payload_digest: str | None, data: bytes | None, encoding: str | None) -> str:
    """The payload of a rollout: the one door for all who read it.

    Args:
        text, payload_digest: The columns of its row.
        data, encoding: Those of the blob that the row names, as an outer join finds them.

    Raises:
        LedgerError: The blob is missing.
        TamperError: The blob is not what its digest says, or the row names a blob and holds a text as well.
    """
    if payload_digest is None:
        return text
    if text:
        raise TamperError(
            "A rollout's payload is in its row and in a blob.",
            where=f"table rollouts, payload {payload_digest}",
        )
    if data is None:
        raise LedgerError("A rollout's payload is missing.", where=f"table blobs, digest {payload_digest}")
    return decode_blob(payload_digest, data, encoding, check=True).decode("utf-8")


def decode_blob(name: str, data: bytes, encoding: str | None, *, check: bool = False) -> bytes:
    """The bytes of a blob.

    Args:
        check: Compare them with the digest that the blob is called by.

    Raises:
        TamperError: They cannot be decoded, or are not what the digest says.
    """
    where = f"table blobs, digest {name}"
    if encoding == ZLIB:
        try:
            inflater = zlib.decompressobj()
            plain = inflater.decompress(data, _MAX_BYTES)
            if not inflater.eof or inflater.unused_data:
                raise zlib.error("it does not end where it should")
        except zlib.error as error:
            raise TamperError(f"A blob cannot be decompressed: {error}.", where=where) from error
    elif encoding is None:
        plain = bytes(data)
    else:
        raise TamperError(f"A blob has the unknown encoding {encoding!r}.", where=where)
    if check and digest_bytes(plain) != name:
        raise TamperError("A blob is not what its digest says.", where=where)
    return plain


def read_plain_blob(connection: Connection, name: str) -> bytes | None:
    """The bytes with this digest, unchecked; None when the ledger does not hold them."""
    table = schema.blobs
    row = connection.execute(
        select(table.c.data, table.c.encoding).where(table.c.digest == name)
    ).one_or_none()
    return None if row is None else decode_blob(name, row.data, row.encoding)
