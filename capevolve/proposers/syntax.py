"""Whether the files of a proposal can be read at all: what cannot is rejected before a target call is paid.

Nothing is run: Python is compiled and thrown away, YAML is read as events, and its aliases stay aliases.
"""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

import yaml

_SKILL = "SKILL.md"
_FENCE = "---"
_MARKED = ("name", "description")


def find_unreadable(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """Returns what is wrong with new and changed files, in words, by path.

    Python must compile; JSON, TOML and YAML must parse; the front matter of a SKILL.md must be YAML with a
    `name` and a `description`. A file that was no better before is left alone: a template of JSON need not be
    JSON.

    Args:
        before: The files of the edited candidate, by path.
        after: Those of the proposal.
    """
    found = []
    for path in sorted(after):
        old = before.get(path)
        if old == after[path]:
            continue
        fault = find_fault(path, after[path])
        if fault is not None and (old is None or find_fault(path, old) is None):
            found.append(f"{path} {fault}")
    return found


def find_fault(path: str, data: bytes) -> str | None:
    """Returns why a file cannot be read as what its name says it is; None when it can."""
    place = PurePosixPath(path)
    read = _read_skill if place.name == _SKILL else _READERS.get(place.suffix.lower())
    if read is None:
        return None
    try:
        return read(data)
    except RecursionError:
        return "is nested too deeply"
    except MemoryError:
        return "is too complex"
    except UnicodeDecodeError:
        return "is not UTF-8 text"


def _compile(data: bytes) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "<proposal>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"does not compile: {error.msg}{f' (line {error.lineno})' if error.lineno else ''}"
    except ValueError as error:
        return f"does not compile: {error}"
    return None


def _read_json(data: bytes) -> str | None:
    text = data.decode("utf-8-sig")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"is not JSON: {error.msg} (line {error.lineno})"
    except ValueError as error:  # a number with too many digits
        return f"is not JSON: {error}"
    return None


def _read_toml(data: bytes) -> str | None:
    try:
        tomllib.loads(data.decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        return f"is not TOML: {error}"
    return None


def _read_yaml(data: bytes) -> str | None:
    try:
        for _ in yaml.parse(data.decode("utf-8-sig"), Loader=yaml.SafeLoader):
            pass
    except yaml.YAMLError as error:
        return f"is not YAML: {_place(error)}"
    return None


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    words = getattr(error, "problem", None) or type(error).__name__
    return words if mark is None else f"{words} (line {mark.line + 1})"


def _read_skill(data: bytes) -> str | None:
    lines = data.decode("utf-8-sig").splitlines()
    if not lines or lines[0].strip() != _FENCE:
        return f"does not begin with front matter ({_FENCE})"
    ends = [number for number, line in enumerate(lines[1:], start=1) if line.strip() == _FENCE]
    if not ends:
        return f"has front matter that does not end ({_FENCE})"
    try:
        root = yaml.compose("\n".join(lines[1 : ends[0]]), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        return f"has front matter that is not YAML: {_place(error)}"
    given = _list_texts(root)
    missing = [name for name in _MARKED if not given.get(name, "").strip()]
    return f"has front matter without {' and '.join(missing)}" if missing else None


def _list_texts(root: yaml.Node | None) -> dict[str, str]:
    """The plain values of a mapping."""
    if not isinstance(root, yaml.MappingNode):
        return {}
    return {
        key.value: value.value
        for key, value in root.value
        if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)
    }


_READERS: dict[str, Callable[[bytes], str | None]] = {
    ".py": _compile,
    ".json": _read_json,
    ".toml": _read_toml,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
}
