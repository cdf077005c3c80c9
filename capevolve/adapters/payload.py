"""Turns whatever an adapter returned into strict JSON text of bounded size."""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Mapping
from typing import Any

MAX_PAYLOAD = 1_000_000
"""The longest payload, in characters."""

MAX_WORDS = 20_000
"""The longest feedback or detail, in characters."""

_DEEPEST = 60
_REPR_LENGTH = 2_000
_SURROGATE = re.compile("[\ud800-\udfff]")


def render_payload(fields: Mapping[str, Any], limit: int = MAX_PAYLOAD) -> str:
    """Returns the fields as the JSON text of an object.

    Objects that are not JSON appear by their `repr`, numbers that are not finite as text, lone surrogates as
    U+FFFD. A field too long for the limit becomes `{"truncated": true, "length": N, "head": "..."}`, where
    `head` is the start of the field's JSON text.
    """
    text = _render(dict(fields))
    if len(text) <= limit:
        return text
    # The head is escaped a second time, which at most doubles it.
    share = limit // (3 * max(1, len(fields)))
    short: dict[str, Any] = {}
    for name, value in fields.items():
        part = _render(value)
        whole = len(part) <= share
        short[name] = json.loads(part) if whole else _cut(part, share)
    return _render(short)


def clean_words(value: object) -> str:
    """Returns the text of a value, fit to be stored: no lone surrogate, no NUL, not endless."""
    text = value if type(value) is str else _as_text(value)
    if len(text) > MAX_WORDS:
        text = f"{text[:MAX_WORDS]} [truncated, {len(text)} characters]"
    if text.isascii():
        return text.replace("\0", "\ufffd")
    return _SURROGATE.sub("\ufffd", text).replace("\0", "\ufffd")


def _cut(part: str, share: int) -> dict[str, Any]:
    return {"truncated": True, "length": len(part), "head": part[:share]}


def _as_text(value: object) -> str:
    if value is None:
        return ""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  (a user's __str__ may raise anything)
        return f"<unprintable {type(value).__name__}>"


def _stand_in(value: object) -> Any:
    """What JSON shows for an object that is not JSON."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  (a user's __repr__ may raise anything)
        return f"<unprintable {type(value).__name__}>"
    return text if len(text) <= _REPR_LENGTH else f"{text[:_REPR_LENGTH]} [truncated]"


_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_stand_in)


def _render(value: Any) -> str:
    try:
        text = _STRICT.encode(value)
    except (ValueError, TypeError, RecursionError, RuntimeError):
        text = _STRICT.encode(_normalise(value, 0))
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _normalise(value: Any, depth: int) -> Any:
    """Copies a value that JSON refused, replacing what it refused."""
    if depth > _DEEPEST:
        return "<nested too deeply>"
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 10_000 else f"<an integer of {value.bit_length()} bits>"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, dict):
        return {_key(k): _normalise(v, depth + 1) for k, v in list(value.items())}
    if isinstance(value, list | tuple):
        return [_normalise(v, depth + 1) for v in list(value)]
    stand_in = _stand_in(value)
    return stand_in if isinstance(stand_in, str) else _normalise(stand_in, depth + 1)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(_stand_in(key))
