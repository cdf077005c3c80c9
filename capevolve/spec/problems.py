"""What is wrong with a spec, in words a reader of the file understands."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from capevolve.errors import SpecError
from capevolve.spec.models import ProjectSpec
from capevolve.spec.source import KeyPath, YamlSource

_NUMBER = re.compile(r"\s*[-+]?\d[\d_]*(\.\d*)?([eE][-+]?\d+)?\s*")
_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_unicode": "text that UTF-8 can hold",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: The key it concerns, from the top of the file; empty for the file as a whole.
        text: What is wrong, to be read after the key.
        fix: What to do about it.
    """

    path: KeyPath
    text: str
    fix: str | None = None


def explain(error: ValidationError, flat_keys: Collection[str]) -> list[Problem]:
    """Returns the problems that pydantic found, without its vocabulary.

    Args:
        flat_keys: Keys that are known at the top level besides those of `ProjectSpec`.
    """
    return [_explain_one(details, flat_keys) for details in error.errors(include_url=False)]


def spec_error(problems: Collection[Problem], file: str, source: YamlSource) -> SpecError:
    """Returns one error that names all problems, each with its line."""
    lines = [source.line_of(problem.path) for problem in problems]
    texts = [f"{name_key(problem.path)} {problem.text}".strip() for problem in problems]
    short = file.replace("\\", "/").rpartition("/")[2]
    if len(texts) == 1:
        (problem,), (line,) = problems, lines
        where = f"{file}, line {line}" if line else file
        return SpecError(f"{short}: {texts[0]}.", where=where, fix=problem.fix or "Correct this key.")
    rows = [
        f"  {f'line {line}: ' if line else ''}{text}{f' ({problem.fix})' if problem.fix else ''}"
        for problem, text, line in sorted(
            zip(problems, texts, lines, strict=True), key=lambda row: (row[2] or 0, row[1])
        )
    ]
    what = "\n".join([f"{short} has {len(rows)} problems:", *rows])
    return SpecError(what, where=file, fix="Correct these keys.")


def name_key(path: KeyPath) -> str:
    """Returns `splits.ids.test[2]` for ("splits", "ids", "test", 2)."""
    shown = [part if isinstance(part, int) or part.isprintable() else repr(part) for part in path]
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in shown)
    return dotted.removeprefix(".")


def known_keys(path: KeyPath) -> list[str]:
    """Returns the keys that the spec knows under a path."""
    models: list[type[BaseModel]] = [ProjectSpec]
    for part in path:
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        models = [model for field in fields for model in _models_in(field.annotation)]
    return [name for model in models for name in model.model_fields]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


def _explain_one(details: ErrorDetails, flat_keys: Collection[str]) -> Problem:
    path = _user_path(details["loc"])
    kind, value = details["type"], details["input"]
    context: Mapping[str, Any] = details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(path, flat_keys)
    if kind == "missing":
        return Problem(path, "is missing", f"Add {path[-1]}.")
    if kind == "invalid_key" or details["loc"][-1:] == ("[key]",):
        return Problem(path, "is not text, and a key must be", "Put it in quotation marks.")
    if kind == "value_error":
        return Problem(path, str(context["error"]))
    if kind in _EXPECTED:
        secret = path[:1] == ("ledger",) or "env" in path
        got = "" if secret else f", not {_show(value)}"
        return Problem(path, f"must be {_EXPECTED[kind]}{got}", _hint(_EXPECTED[kind], value))
    return _out_of_range(path, details["msg"], kind, value, context)


def _out_of_range(path: KeyPath, message: str, kind: str, value: Any, context: Mapping[str, Any]) -> Problem:
    """Explains a value of the right type that is not one of those allowed."""
    if kind == "union_tag_not_found":
        return Problem(path, "has no kind", f"Add {' or '.join(f'`kind: {kind}`' for kind in _kinds(path))}.")
    if kind in {"union_tag_invalid", "literal_error"}:
        tagged = isinstance(value, dict) and kind == "union_tag_invalid"
        path, value = ((*path, "kind"), value["kind"]) if tagged else (path, value)
        allowed = str(context.get("expected_tags") or context.get("expected"))
        choices = ", ".join(re.findall(r"'([^']*)'", allowed))
        return Problem(path, f"must be one of {choices}, not {_show(value)}")
    if kind in {"string_too_long", "too_short"}:
        return Problem(path, "is too long" if kind == "string_too_long" else "must not be empty")
    for bound, words in _BOUNDS.items():
        if bound in context:
            return Problem(path, f"must be {words} {context[bound]:.12g}, not {_show(value)}")
    return Problem(path, f"cannot be used: {message}")


def _user_path(loc: KeyPath) -> KeyPath:
    """Returns the path as written: without the kind that pydantic puts in, or the member of a union."""
    path = tuple(part for part in loc if part != "[key]")
    if path[:2] == ("tasks", "input"):
        return path[:2]
    return (path[0], *path[2:]) if path and path[0] in ("proposer", "target", "scoring") else path


def _kinds(path: KeyPath) -> list[str]:
    """The kinds that the spec knows at a path."""
    field = ProjectSpec.model_fields[str(path[0])]
    models = _models_in(field.annotation)
    return [typing.get_args(model.model_fields["kind"].annotation)[0] for model in models]


def _unknown(path: KeyPath, flat_keys: Collection[str]) -> Problem:
    key = str(path[-1])
    known = [*known_keys(path[:-1]), *(flat_keys if len(path) == 1 else ())]
    near = difflib.get_close_matches(key, known, n=1)
    if near:
        return Problem(path, "is not a known key", f"Did you mean {near[0]}?")
    sections = [(name,) for name in ProjectSpec.model_fields if known_keys((name,))]
    elsewhere = [name_key((*at, key)) for at in [(), *sections] if key in known_keys(at)]
    if elsewhere:
        return Problem(path, "is not a known key here", f"Write it as {' or '.join(elsewhere)}.")
    return Problem(path, "is not a known key", f"Known here: {', '.join(known_keys(path[:-1]))}.")


def _hint(expected: str, value: object) -> str | None:
    if value is None:
        return "Remove the line to get the default."
    if "number" in expected and isinstance(value, str) and _NUMBER.fullmatch(value):
        return "Remove the quotation marks."
    if expected == "text" and isinstance(value, bool | int | float):
        return "Put it in quotation marks."
    return None


def _show(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
