"""Canonical JSON and the digests made from it.

One value has one canonical text: keys sorted, no white space, UTF-8, no NaN or infinity. Digests are
tagged with their algorithm (`sha256:<hex>`), so that another one can follow without ambiguity.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

ALGORITHM = "sha256"


def canonical_json(value: Any) -> str:
    """Returns the canonical JSON text of a value.

    Args:
        value: Anything made of dicts with string keys, lists, tuples, strings, finite numbers, booleans
            and None.

    Raises:
        ValueError: A number is NaN or infinite.
        TypeError: A value is not JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_bytes(data: bytes) -> str:
    """Returns `sha256:<hex>` of the bytes."""
    return f"{ALGORITHM}:{hashlib.sha256(data).hexdigest()}"


def digest(value: Any) -> str:
    """Returns the digest of a value's canonical JSON."""
    return digest_bytes(canonical_json(value).encode("utf-8"))


def short(tagged: str, length: int = 12) -> str:
    """Returns the first hex digits of a tagged digest, for people."""
    return tagged.partition(":")[2][:length]
