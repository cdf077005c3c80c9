"""A section of a report, for any markup."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """One section; every text is plain and must be escaped for the markup it goes into.

    Attributes:
        lines: Sentences before the table.
        commands: Command lines after it.
    """

    key: str
    title: str
    lines: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    commands: tuple[str, ...] = ()
