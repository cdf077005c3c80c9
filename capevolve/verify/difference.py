"""What `verify` says of a row that does not agree, and the comparison of stored with computed values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from capevolve.canonical import digest_bytes
from capevolve.errors import LedgerError, TamperError, UserError
from capevolve.splits.ids import show_id

TOLERANCE = 1e-9
"""Relative difference of two numbers that another processor or numpy may make, and no editor gains from."""

FIX = "Restore the ledger from a copy. What was computed from edited rows proves nothing."

NOTHING = "(nothing)"
"""Shown where one side has no value at all."""

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two JSON values differ first.

    Attributes:
        path: The keys that lead there, with dots; empty for the values themselves.
    """

    path: str
    stored: object
    computed: object


def find_difference(
    stored: Any, computed: Any, *, tolerance: float = 0.0, path: str = ""
) -> Difference | None:
    """The first difference of two JSON values; None when they agree.

    Args:
        tolerance: How far two numbers may lie apart, relatively and absolutely, when one is not a whole one.
    """
    pairs = _pair(stored, computed)
    if pairs is None:
        return None if _same(stored, computed, tolerance) else Difference(path, stored, computed)
    for key, mine, theirs in pairs:
        found = find_difference(mine, theirs, tolerance=tolerance, path=f"{path}.{key}".lstrip("."))
        if found is not None:
            return found
    return None


def _pair(stored: Any, computed: Any) -> list[tuple[str, Any, Any]] | None:
    """The parts of two objects or of two equally long lists, side by side; None when they have none."""
    if isinstance(stored, Mapping) and isinstance(computed, Mapping):
        keys = sorted(stored.keys() | computed.keys(), key=str)
        return [(str(key), stored.get(key, NOTHING), computed.get(key, NOTHING)) for key in keys]
    if _is_list(stored) and _is_list(computed) and len(stored) == len(computed):
        return [(str(i), a, b) for i, (a, b) in enumerate(zip(stored, computed, strict=True))]
    return None


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _same(stored: object, computed: object, tolerance: float) -> bool:
    if _is_number(stored) and _is_number(computed):
        if isinstance(stored, int) and isinstance(computed, int):
            return stored == computed
        return math.isclose(stored, computed, rel_tol=tolerance, abs_tol=tolerance)  # type: ignore[arg-type]
    return type(stored) is type(computed) and stored == computed


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def show(value: object) -> str:
    """A value as one line of printable text, long ones by their beginning and their digest."""
    text = json.dumps(value, default=repr, ensure_ascii=True, sort_keys=True)
    if len(text) <= _SHOWN:
        return text
    return f"{text[:40]}... ({len(text)} characters, {digest_bytes(text.encode())[:19]})"


def name_row(table: str, **key: object) -> str:
    """A row by its table and its key."""
    values = (f"{name} {show_id(value) if name == 'task' else value}" for name, value in key.items())
    return ", ".join((f"table {table}", *values))


def refuse(what: str, where: str, *, fix: str = FIX) -> NoReturn:
    """Ends the verification at its first difference.

    Raises:
        TamperError: Always.
    """
    raise TamperError(what, where=where, fix=fix)


def expect(
    what: str, where: str, stored: Any, computed: Any, *, tolerance: float = 0.0, fix: str = FIX
) -> None:
    """Compares what is stored with what was computed again.

    Args:
        tolerance: See `find_difference`.

    Raises:
        TamperError: They differ; both values are named.
    """
    found = find_difference(stored, computed, tolerance=tolerance)
    if found is not None:
        path = f"{what}: {found.path}" if found.path else what
        refuse(f"{path} is {show(found.stored)}, should be {show(found.computed)}.", where, fix=fix)


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Names the row whose content cannot even be read or used.

    Raises:
        TamperError: The body failed for what it read.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise TamperError(f"It cannot be read: {_first_line(error)}", where=where, fix=FIX) from error
    except (UserError, LedgerError) as error:
        raise TamperError(error.what, where=where, fix=FIX) from error


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
