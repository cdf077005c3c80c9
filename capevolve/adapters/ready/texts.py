"""What scorers compare: values as text, the last number of a text, the JSON object in a text."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Any

# A sign counts unless it joins two words or numbers, as in 3-5.
_NUMBER = re.compile(
    r"(?:(?<![\w.)])[-+])?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
    r"|(?:(?<![\w.)])[-+])?(?<!\d)\.\d+(?:[eE][-+]?\d+)?"
)
_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_MOST_STARTS = 200


def show_text(value: Any) -> str:
    """Returns a JSON value as an agent would write it: text as it is, everything else as JSON text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def normalise(text: str, *, ignore_case: bool) -> str:
    """Returns a text as scorers compare it.

    Unicode in its composed form (NFC), line ends as `\\n`, no white space at either end, and casefolded where
    case is to be ignored. White space inside stays: it may matter.
    """
    plain = unicodedata.normalize("NFC", text).replace("\r\n", "\n").strip()
    return plain.casefold() if ignore_case else plain


def last_number(text: str) -> float | None:
    """Returns the last number in a text; None when there is none.

    Thousands may be set off by commas, the decimal sign is a point, an exponent is read, and a minus may be
    U+2212. A sign between two words or numbers is none: `3-5` ends in 5.
    """
    found = _NUMBER.findall(text.replace("\u2212", "-"))
    if not found:
        return None
    value = float(found[-1].replace(",", ""))
    return value if math.isfinite(value) else None


def read_number(value: Any) -> float | None:
    """Returns a target's number: a JSON number, or text that is nothing but one; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip().replace("\u2212", "-"))
        return last_number(value) if match else None
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def find_object(answer: Any) -> dict[str, Any] | None:
    """Returns the JSON object of an answer; None when there is none.

    The answer itself; or the whole text; or the last fenced block that is one; or the last one that begins
    anywhere in the text, outside another.
    """
    if isinstance(answer, dict):
        return answer
    text = answer if isinstance(answer, str) else ""
    for part in (text, *reversed(_FENCE.findall(text))):
        value = _read_json(part)
        if isinstance(value, dict):
            return value
    return _scan(text)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _scan(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    found: dict[str, Any] | None = None
    start, tries = text.find("{"), 0
    while start >= 0 and tries < _MOST_STARTS:  # an open brace costs a look at all that follows
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end, tries = start + 1, tries + 1
        start = text.find("{", end)
    return found


def is_equal(one: Any, other: Any) -> bool:
    """True for equal JSON: 1 is 1.0 but not true, lists are equal item by item, objects key by key."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def has_subset(found: Any, wanted: Any) -> bool:
    """True when all keys of `wanted` are in `found` with equal values; objects inside may have more keys."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return False
        return all(key in found and has_subset(found[key], value) for key, value in wanted.items())
    return is_equal(found, wanted)
