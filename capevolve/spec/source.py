"""Reads YAML strictly: no key twice, and every key knows its line.

YAML 1.1 as PyYAML reads it, but `1e-3` is a number and dates stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from capevolve.errors import SpecError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class YamlSource:
    """A YAML mapping as data, with the lines it came from.

    Attributes:
        repeated: Keys that are given more than once, each with its lines.
    """

    data: dict[Any, Any]
    repeated: tuple[tuple[KeyPath, tuple[int, ...]], ...]
    node: yaml.MappingNode

    def line_of(self, path: KeyPath) -> int | None:
        """Returns the line (from 1) of a key, or of the nearest mapping or list around it."""
        node: yaml.Node = self.node
        line = None
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with numbers like `1e-3` and without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_mapping(path: Path) -> YamlSource:
    """Reads a file that holds one YAML mapping.

    Raises:
        SpecError: The file cannot be read, is not YAML, is empty or is not a mapping.
    """
    where = str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SpecError(
            f"{path.name} cannot be read: {error.strerror}.",
            where=where,
            fix="Check the path and its rights.",
        ) from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path.name} is not UTF-8.", where=where, fix="Save it as UTF-8.") from error
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _syntax_error(path, text, error) from error
    except (ValueError, OverflowError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise SpecError(f"{path.name} cannot be read as YAML: {reason}.", where=where) from error
    if data is None:
        raise SpecError(
            f"{path.name} is empty.",
            where=where,
            fix="Write at least `name: my-project`, or run `capevolve init`.",
        )
    if not isinstance(data, dict) or not isinstance(node, yaml.MappingNode):
        raise SpecError(
            f"{path.name} is not a mapping of keys to values.",
            where=where,
            fix="Write lines like `key: value`.",
        )
    return YamlSource(data=data, repeated=tuple(_repeated(node, (), set())), node=node)


def _syntax_error(path: Path, text: str, error: yaml.YAMLError) -> SpecError:
    line = None
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        what = error.problem or error.context or "syntax error"
    elif isinstance(error, yaml.reader.ReaderError):
        line = text[: int(error.position)].count("\n") + 1
        what = "a control character is not allowed"
    else:
        what = str(error)
    where = f"{path}, line {line}" if line else str(path)
    return SpecError(f"{path.name} is not valid YAML: {what}.", where=where, fix="Correct that line.")


def _children(node: yaml.Node) -> Iterator[tuple[str | int, int, yaml.Node]]:
    """Yields the key or index, the line and the value of what a node holds."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield index, value.start_mark.line + 1, value


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    return next(((line, value) for key, line, value in _children(node) if key == part), None)


def _repeated(node: yaml.Node, path: KeyPath, seen: set[int]) -> Iterator[tuple[KeyPath, tuple[int, ...]]]:
    """Yields keys given more than once, at any depth; an alias is looked at once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    lines: dict[str | int, list[int]] = {}
    for key, line, value in _children(node):
        lines.setdefault(key, []).append(line)
        yield from _repeated(value, (*path, key), seen)
    for key, at in lines.items():
        if len(at) > 1 and key != "<<":
            yield (*path, key), tuple(at)
