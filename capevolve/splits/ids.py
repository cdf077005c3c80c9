"""Task ids: any text works, unless it cannot be stored, printed or told from another id."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from capevolve.errors import SplitError

MAX_LENGTH = 1000
"""Characters in a task id, at most."""

SHOWN = 5
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def show_id(task_id: object) -> str:
    """Returns an id as printable text: quoted, escaped, at most 60 characters of it."""
    if not isinstance(task_id, str):
        return f"{task_id!r:.60} ({type(task_id).__name__})"
    return repr(task_id) if len(task_id) <= 60 else f"{task_id[:60]!r}..."


def show_some(names: Sequence[str], total: int | None = None) -> str:
    """Returns the first few names and how many more there are.

    Args:
        total: How many there are, when not all of them have a name here.
    """
    more = (len(names) if total is None else total) - min(len(names), SHOWN)
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def check_task_ids(ids: Iterable[object]) -> None:
    """Refuses ids that cannot be used, naming every offender's kind at once.

    Slashes, `..`, reserved file names, emoji and ids that differ only in case are fine: no file is ever
    named after an id as it stands.

    Raises:
        SplitError: An id is empty, not text, longer than 1000 characters, holds control characters or
            cannot be written as UTF-8; or two ids are the same, exactly or once Unicode is normalised
            (NFC), in which case they look the same and some systems cannot tell them apart.
    """
    listed = list(ids)
    texts = [task_id for task_id in listed if isinstance(task_id, str)]
    found = {
        "not text": [show_id(task_id) for task_id in listed if not isinstance(task_id, str)],
        "empty": [show_id(text) for text in texts if not text.strip()],
        f"longer than {MAX_LENGTH} characters": [show_id(t) for t in texts if len(t) > MAX_LENGTH],
        "holding control characters": [show_id(t) for t in texts if t.strip() and _has_control(t)],
        "not encodable as UTF-8": [show_id(t) for t in texts if not _is_utf8(t)],
        "used twice": [f"{show_id(t)} ({n} times)" for t, n in Counter(texts).items() if n > 1],
        "the same once Unicode is normalised": _look_alikes(texts),
    }
    wrong = [f"{kind}: {show_some(names)}" for kind, names in found.items() if names]
    if wrong:
        raise SplitError(
            "Some task ids cannot be used: " + "; ".join(wrong),
            where="the tasks() of the adapter",
            fix="Give every task a unique, stable, non-empty text as its id.",
        )


def _has_control(text: str) -> bool:
    return any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} or char in _BIDI for char in text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _look_alikes(texts: Iterable[str]) -> list[str]:
    spellings: dict[str, set[str]] = {}
    for text in texts:
        spellings.setdefault(unicodedata.normalize("NFC", text), set()).add(text)
    # ascii() because the spellings look the same when printed.
    return [" = ".join(map(ascii, sorted(group))) for group in spellings.values() if len(group) > 1]
