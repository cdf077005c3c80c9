"""The kinds of values a spec may hold, each with its rule in plain words."""

from __future__ import annotations

import re
import shlex
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

MAX_INT = 2**31 - 1
"""Fits every database column and every random generator's seed."""
YEAR_S = 366 * 86_400.0

_ADAPTER = re.compile(r"(?P<file>.+\.py)(:[^\W\d]\w*)?|[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def _check_text(text: str) -> str:
    """Refuses text that is empty, unprintable or not UTF-8."""
    if not text.strip():
        raise ValueError("must not be empty")
    if any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in text):
        raise ValueError("must not hold control characters")
    return text


def _check_utf8(text: str) -> str:
    # YAML can spell half a character ("\\ud800"), which nothing can store.
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("must be text that UTF-8 can hold")
    return text


def _check_inside(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or PureWindowsPath(text).is_absolute() or ".." in path.parts:
        raise ValueError("must be a path inside the project, relative to capevolve.yaml")
    return text


def _check_seed_candidate(text: str) -> str:
    parts = PurePosixPath(text).parts
    if not parts or parts[0] == ".capevolve":
        raise ValueError("must be a directory of its own below the project, not the project or .capevolve")
    return text


def _check_adapter(text: str) -> str:
    match = _ADAPTER.fullmatch(text)
    if not match:
        raise ValueError(
            "must be a file (adapter.py or adapter.py:ClassName) or a module (package.module:ClassName)"
        )
    if PurePosixPath(match["file"] or "").is_absolute() or PureWindowsPath(match["file"] or "").is_absolute():
        raise ValueError("must be a path relative to capevolve.yaml, so that the project can move")
    return text


def _check_ledger(url: str) -> str:
    if not re.match(r"(sqlite|postgresql)(\+\w+)?://", url):
        raise ValueError("must be a SQLAlchemy URL that starts with sqlite:/// or postgresql://")
    if url.startswith("sqlite") and (url.endswith("://") or ":memory:" in url or "mode=memory" in url):
        raise ValueError("must be a file: a ledger in memory is lost with the process")
    return url


def _check_command(command: object) -> object:
    parts = [command] if isinstance(command, str) else command
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("must be text or a list of texts")
    try:
        argv = shlex.split(command) if isinstance(command, str) else parts
    except ValueError as error:
        raise ValueError("has a quotation mark that is not closed") from error
    if not argv or not argv[0].strip() or "\0" in "".join(argv):
        raise ValueError("must name a program")
    _check_utf8("".join(argv))
    return command if isinstance(command, str) else tuple(parts)


def _check_env(env: dict[str, str]) -> dict[str, str]:
    if any(not name or "=" in name for name in env) or "\0" in "".join([*env, *env.values()]):
        raise ValueError("must map names of environment variables to texts")
    _check_utf8("".join([*env, *env.values()]))
    return env


def _check_look_trials(value: object) -> object:
    if value == "auto" or (type(value) is int and 1 <= value <= MAX_INT):
        return value
    raise ValueError("must be a whole number from 1, or auto")


Text = Annotated[str, AfterValidator(_check_text)]
Name = Annotated[str, Field(max_length=200), AfterValidator(_check_text)]
InsidePath = Annotated[Text, AfterValidator(_check_inside)]
SeedCandidate = Annotated[InsidePath, AfterValidator(_check_seed_candidate)]
AdapterName = Annotated[Text, AfterValidator(_check_adapter)]
LedgerUrl = Annotated[Text, AfterValidator(_check_ledger)]
Command = Annotated[str | tuple[str, ...], BeforeValidator(_check_command)]
Environment = Annotated[dict[str, str], AfterValidator(_check_env)]
# Strict mode would refuse the lists that YAML yields; their members stay strict.
Texts = Annotated[tuple[Annotated[str, AfterValidator(_check_utf8)], ...], Field(strict=False)]
Patterns = Annotated[tuple[InsidePath, ...], Field(strict=False, min_length=1)]
Seed = Annotated[int, Field(ge=0, le=MAX_INT)]
Count = Annotated[int, Field(ge=0, le=MAX_INT)]
Positive = Annotated[int, Field(ge=1, le=MAX_INT)]
Seconds = Annotated[float, Field(ge=0, le=YEAR_S)]
Limit = Annotated[float, Field(gt=0, le=YEAR_S)]
Fraction = Annotated[float, Field(ge=0, le=1)]
LookTrials = Annotated[Any, BeforeValidator(_check_look_trials)]
Fractions = Annotated[tuple[Fraction, ...], Field(strict=False)]
Positives = Annotated[tuple[Positive, ...], Field(strict=False)]
Ks = Positives
NotNegative = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(gt=0, le=1e12)]
