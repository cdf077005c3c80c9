"""A candidate with other texts, and what it proves how the target takes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from capevolve.adapters.findings import Finding, Level, read_payload
from capevolve.adapters.leaks import iterate_texts
from capevolve.adapters.records import TrialReply
from capevolve.model import Reason, Unmeasured

MARK = "capevolve-canary-7c41d9e2"
"""What is put into the texts of a marked copy."""


class Alteration(StrEnum):
    """What is done to the texts of a copy."""

    EMPTIED = "emptied"
    MARKED = "marked"


@dataclass(frozen=True, slots=True)
class AlteredTrial:
    """What became of the trial with an altered copy of the candidate.

    Attributes:
        reply: None when the copy could not be made live, or no host started.
        refusal: Why the adapter refused the copy.
    """

    how: Alteration
    reply: TrialReply | None = None
    refusal: str | None = None


@contextmanager
def alter_texts(folder: Path, names: Sequence[str], how: Alteration) -> Iterator[None]:
    """Puts an altered copy of a candidate in its place, and afterwards the candidate back.

    In the same place, because a rollout may name the folder: then only the texts can make a difference.
    """
    kept = folder.with_name(f"{folder.name}-kept")
    folder.rename(kept)
    try:
        shutil.copytree(kept, folder)
        for name in names:
            path = folder / name
            text = "" if how is Alteration.EMPTIED else f"{path.read_text(encoding='utf-8')}\n{MARK}\n"
            path.unlink()  # it may be read-only
            path.write_text(text, encoding="utf-8")
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        kept.rename(folder)


def list_texts(folder: Path) -> tuple[str, ...]:
    """Returns the relative paths of the files that hold text, and not only white space; sorted."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple(path.relative_to(folder).as_posix() for path in paths if _is_text(path))


def _is_text(path: Path) -> bool:
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "\0" not in text and bool(text.strip())


def judge_use(replies: Sequence[TrialReply], *, touched: bool, altered: AlteredTrial | None) -> Finding:
    """What is proved of the candidate's way to the target.

    Args:
        replies: To (seed, the same seed, ...).
        touched: A file of the candidate was opened in the host, or its folder named to a child process.
        altered: The trial with an altered copy; None when the candidate holds no text that could be altered.
    """
    seen = "" if altered is None else _see_alteration(replies, altered)
    if seen:
        return Finding(f"the candidate reaches the target: {seen}")
    if not touched:
        echo = "; a mark put into its texts came back nowhere in the rollout" if _is_marked(altered) else ""
        return Finding(
            "no file of the candidate was opened, nor its folder named to a child process: every candidate "
            f"would score the same{echo or _blind(altered)}",
            Level.PROBLEM,
            "Read the candidate from `ctx` in run_target (or in live), not from the seed's folder. Where "
            "another service reads it, return what it read in Rollout.trace.",
        )
    used = "the candidate's files are opened, or its folder is named to a child process"
    if altered is None or altered.reply is None or _is_marked(altered) or _is_lost(altered.reply):
        return Finding(f"{used}; that what they say decides the answer is not proved", Level.NOTE)
    return Finding(
        f"{used}, but with its texts emptied the same seed gave the same output: what they say is not proved "
        "to reach the agent",
        Level.WARNING,
        "See that run_target hands on what it reads; all is well if this task's answer needs none of it.",
    )


def _see_alteration(replies: Sequence[TrialReply], altered: AlteredTrial) -> str:
    """How the alteration showed; empty when it did not, or may have been chance."""
    if altered.refusal is not None:
        return f"with its texts {altered.how} it is refused ({altered.refusal})"
    reply = altered.reply
    if reply is None:
        return ""
    if altered.how is Alteration.MARKED and any(MARK in t for t in iterate_texts(read_payload(reply))):
        return "a mark put into its texts came back in the rollout"
    if _is_lost(reply):
        return ""
    if isinstance(reply.outcome, Unmeasured):
        return f"with its texts {altered.how} the trial failed ({reply.outcome.detail})"
    first, again, other = (_read_parts(each) for each in (replies[0], replies[1], reply))
    changed = [name for name in first if first[name] == again.get(name) != other.get(name)]
    return f"with its texts {altered.how} the same seed gave another {changed[0]}" if changed else ""


def _read_parts(reply: TrialReply) -> dict[str, str]:
    """The parts of a rollout that may repeat, each as comparable text."""
    payload = read_payload(reply)
    parts: dict[str, Any] = {name: payload.get(name) for name in ("output", "trace", "tool_calls")}
    parts |= {"reward": repr(reply.outcome), "end (an agent failure)": "traceback" in payload}
    metadata = payload.get("metadata")
    parts |= {f"metadata.{key}": value for key, value in metadata.items()} if metadata else {}
    return {name: json.dumps(value, sort_keys=True) for name, value in parts.items()}


def _is_marked(altered: AlteredTrial | None) -> bool:
    return altered is not None and altered.how is Alteration.MARKED and altered.reply is not None


def _is_lost(reply: TrialReply) -> bool:
    """True when the trial says nothing of the target: it was not heard out."""
    lost = (Reason.TIMEOUT, Reason.INTERRUPTED)
    return isinstance(reply.outcome, Unmeasured) and reply.outcome.reason in lost


def _blind(altered: AlteredTrial | None) -> str:
    if altered is None or altered.reply is None or _is_lost(altered.reply):
        return ""
    return ", and with its texts emptied it did"
