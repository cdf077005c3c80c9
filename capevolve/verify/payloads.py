"""The payloads of a run's rollouts that are blobs: each against the digest that its row calls it by."""

from __future__ import annotations

from sqlalchemy import Connection

from capevolve.ledger.audit import read_payload_blobs
from capevolve.ledger.payloads import decode_blob
from capevolve.verify.difference import name_row, reading, refuse


def check_payloads(connection: Connection, run_id: str) -> int:
    """Compares every blob with its digest, one at a time; returns how many there are.

    Which rows name which blobs is under the digests sealed with a result (`ledger.evidence`).

    Raises:
        TamperError: One does not match, or is missing.
    """
    count = 0
    for name, data, encoding in read_payload_blobs(connection, run_id):
        where = name_row("blobs", digest=name)
        if data is None:
            refuse("The payload of a rollout is missing.", where)
        with reading(where):
            decode_blob(name, data, encoding, check=True)
        count += 1
    return count
