"""Looks for a task's target in what the proposer or the agent is told. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SHORTEST = 4
"""A target of fewer characters may stand in any text by chance; it is not looked for."""

_COMMON = frozenset({"true", "false", "none", "null"})


@dataclass(frozen=True, slots=True)
class Answers:
    """The texts and numbers of a task's target, normalised.

    Attributes:
        searched: Those that are looked for.
        short: Those too short to be told from chance.
        given: Those that the task's input holds anyway.
    """

    searched: tuple[str, ...]
    short: tuple[str, ...]
    given: tuple[str, ...]


def read_answers(target: Any, given: Any) -> Answers:
    """Sorts the texts and numbers of a target; keys of objects and truth values are none."""
    inside = join_texts(given)
    searched: list[str] = []
    short: list[str] = []
    known: list[str] = []
    for answer in dict.fromkeys(map(normalise, iterate_texts(target))):
        if len(answer) < SHORTEST or answer in _COMMON:
            short.append(answer)
        elif _holds(inside, answer):
            known.append(answer)
        else:
            searched.append(answer)
    return Answers(tuple(searched), tuple(short), tuple(known))


def find_answer(value: Any, answers: Answers) -> str | None:
    """Returns the first answer that stands as whole words in a JSON value's texts; None: there is none."""
    text = join_texts(value)
    return next((answer for answer in answers.searched if _holds(text, answer)), None)


def normalise(text: str) -> str:
    """Returns a text without differences of case, white space or Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def join_texts(value: Any) -> str:
    """Returns the texts and numbers of a JSON value as one normalised text."""
    return " ".join(map(normalise, iterate_texts(value)))


def iterate_texts(value: Any) -> Iterator[str]:
    """Yields the texts and numbers of a JSON value, in order."""
    if isinstance(value, dict):
        for part in value.values():
            yield from iterate_texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from iterate_texts(part)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)


def _holds(text: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) is not None
