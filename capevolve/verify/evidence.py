"""The rows of a run against the digests that were sealed with each of its results."""

from __future__ import annotations

from collections.abc import Mapping

from capevolve.ledger.evidence import RowName, RunDigests
from capevolve.verify.difference import name_row, refuse
from capevolve.verify.history import History

_KEYS: Mapping[str, tuple[str, ...]] = {
    "runs": ("run",),
    "split_sets": ("run",),
    "split_tasks": ("split", "task"),
    "proposals": ("iteration",),
    "verdicts": ("iteration",),
    "trials": ("evaluation", "task", "trial"),
}


def check_evidence(history: History, now: RunDigests, *tables: str) -> None:
    """Names the first row of these tables that was edited or removed after a result was committed.

    Raises:
        TamperError: There is one.
    """
    for attempt in history.committed:
        edited = attempt.evidence and attempt.evidence.find_edited(now, frozenset(tables))
        if edited:
            what = "no longer matches the digest" if edited in now.rows else "is gone: it was there"
            refuse(f"The row {what} sealed with attempt {attempt.row.number}.", _locate(edited))


def check_digests(history: History, now: RunDigests) -> None:
    """Compares the digests over all rows, whose marks `check_evidence` has found in order.

    Raises:
        TamperError: Rows were edited so that their short marks stayed the same.
    """
    for attempt in history.committed:
        if attempt.evidence is not None and not attempt.evidence.agrees(now):
            refuse(
                f"The rows of the run no longer match the digest sealed with attempt {attempt.row.number}.",
                ", ".join(_KEYS),
            )


def _locate(name: RowName) -> str:
    table, *key = name
    row = name_row(table, **dict(zip(_KEYS[table], key, strict=True)))
    return f"{row}, or its row in rollouts" if table == "trials" else row
