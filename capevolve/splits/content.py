"""What makes two tasks the same to an agent: their inputs, but for case and white space."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from capevolve.canonical import digest


@dataclass(frozen=True, slots=True)
class InputContent:
    """A task's input as it is compared with others.

    Attributes:
        digest: Digest of the input with every text in it normalised; its keys, numbers and shape count as
            they are. None when the input holds nothing: nothing cannot be the same as nothing.
        text: Its texts and numbers in order, normalised, with a space between them.
    """

    digest: str | None
    text: str


def normalise_text(text: str) -> str:
    """Returns text without what case and white space tell apart.

    Compatibility forms are made one (NFKC), case is folded as Unicode does it (ß is ss), every run of white
    space is one space, and there is none at the ends.
    """
    if text.isascii():
        folded = text.lower()
    else:
        # Folding can undo a normal form and the other way round; a second turn settles it.
        for form in ("NFD", "NFKC"):
            text = unicodedata.normalize(form, text).casefold()
        folded = unicodedata.normalize("NFKC", text)
    return " ".join(folded.split())


def read_input(value: Any) -> InputContent:
    """Returns what is compared of an input.

    Args:
        value: JSON, as deep as it may be.
    """
    # A flat list, because JSON nests deeper than Python calls: each object announces its keys and each list
    # its length, so that no two shapes read alike.
    parts: list[Any] = []
    leaves: list[str] = []
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            keys = sorted(item)
            parts.append(keys)
            left += [item[key] for key in reversed(keys)]
        elif isinstance(item, list | tuple):
            parts.append([len(item)])
            left += reversed(item)
        else:
            item = normalise_text(item) if isinstance(item, str) else item
            parts.append(item)
            if item is not None and item != "":
                leaves.append(str(item))
    return InputContent(digest(parts) if leaves else None, " ".join(leaves))
