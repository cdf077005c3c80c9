"""Reads tasks from a JSONL or CSV file; whatever is wrong with it is named with its line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from capevolve.canonical import canonical_json, digest, short
from capevolve.errors import AdapterError
from capevolve.model import Task
from capevolve.spec.ready import TasksSpec

MAX_ID = 200
"""Characters in an id, at most."""

_MAX_CELL = 10_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the file as an object, and its number from 1."""

    line: int
    fields: dict[str, Any]


def read_task_file(root: Path, spec: TasksSpec, *, needs_target: bool) -> list[Task]:
    """Returns the tasks of a file, in its order.

    Args:
        root: The project's directory.
        needs_target: False for a scorer that can do without: a task may then lack the field.

    Raises:
        AdapterError: The file is missing, empty, not UTF-8 or malformed; a field is missing; an id is unfit
            or given twice.
    """
    return make_tasks(read_rows(root / spec.file), spec, needs_target=needs_target)


def read_rows(path: Path) -> list[Row]:
    """Returns the lines of a .jsonl or .csv file; blank ones are left out.

    Raises:
        AdapterError: See `read_task_file`.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise AdapterError(
            f"the tasks cannot be read: {error.strerror}", where=str(path), fix="check tasks.file"
        ) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        _refuse(path, line, "is not UTF-8", "save the file as UTF-8")
    rows = list(_read_csv(path, text) if path.suffix.lower() == ".csv" else _read_jsonl(path, text))
    if not rows:
        raise AdapterError("the file holds no tasks", where=str(path), fix="write one task a line")
    return rows


def make_tasks(rows: Iterable[Row], spec: TasksSpec, *, needs_target: bool) -> list[Task]:
    """Returns the tasks that rows hold; see `read_task_file`."""
    maker = _Maker(spec, list(rows), needs_target)
    seen: dict[str, int] = {}
    tasks = []
    for row in maker.rows:
        task = maker.make(row)
        if task.id in seen:
            what = f"has the same id as line {seen[task.id]}: {task.id!r}"
            if maker.id_field is None:
                what = f"is the same task as line {seen[task.id]}"
            _refuse(Path(spec.file), row.line, what, "give every task an id of its own, and list it once")
        seen[task.id] = row.line
        tasks.append(task)
    return tasks


class _Maker:
    def __init__(self, spec: TasksSpec, rows: list[Row], needs_target: bool) -> None:
        self.rows = rows
        self._spec = spec
        self._needs_target = needs_target
        has_id = spec.id is not None or any("id" in row.fields for row in rows)
        self.id_field = (spec.id or "id") if has_id else None

    def make(self, row: Row) -> Task:
        spec = self._spec
        if isinstance(spec.input, str):
            given = self._field(row, spec.input, "input")
        else:
            given = {name: self._field(row, name, "input") for name in spec.input}
        target = None
        if spec.target is not None and (self._needs_target or spec.target in row.fields):
            target = self._field(row, spec.target, "target")
        metadata = {name: self._field(row, name, "metadata") for name in spec.metadata}
        content = {"input": given, "target": target, "metadata": metadata}
        return Task(id=self._id(row, content), **content)

    def _field(self, row: Row, name: str, role: str) -> Any:
        if name in row.fields:
            return row.fields[name]
        there = ", ".join(map(repr, list(row.fields)[:10])) or "none"
        what = f"has no field {name!r}, which is to be the {role} (there: {there})"
        return _refuse(Path(self._spec.file), row.line, what, f"set tasks.{role}, or add the field")

    def _id(self, row: Row, content: dict[str, Any]) -> str:
        if self.id_field is None:
            return f"task-{short(digest(content))}"
        value = self._field(row, self.id_field, "id")
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        where = Path(self._spec.file)
        if not isinstance(value, str):
            _refuse(where, row.line, f"has an id that is not text: {value!r:.60}", "put it in quotes")
        if not value.strip() or not value.isprintable():
            what = (
                "has an empty id" if not value.strip() else f"has an id with unprintable text: {value!r:.60}"
            )
            _refuse(where, row.line, what, "give every task a short text id")
        if len(value) > MAX_ID:
            what = f"has an id of {len(value)} characters, and {MAX_ID} are the most: {value[:40]!r}..."
            _refuse(where, row.line, what, "leave the ids out: capevolve makes them from the content")
        return value


def _read_jsonl(path: Path, text: str) -> Iterator[Row]:
    # Not `splitlines`: JSON may hold U+2028 and its like inside a text.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant)
            if isinstance(value, dict):
                canonical_json(value).encode("utf-8")  # 1e999 is read as infinity, "\ud800" as half a letter
        except UnicodeEncodeError:
            _refuse(path, number, "holds half a character (a lone surrogate)", "save the source as UTF-8")
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            _refuse(path, number, f"is not JSON: {reason}", "write one JSON object a line")
        if not isinstance(value, dict):
            _refuse(path, number, f"is {_kind(value)}, not an object", 'write {"input": ..., "target": ...}')
        yield Row(number, value)


def _read_csv(path: Path, text: str) -> Iterator[Row]:
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    before = 0
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            if not any(cells):
                continue
            if header is None:
                header = _check_header(path, line, cells)
                continue
            if len(cells) != len(header):
                what = f"has {len(cells)} cells, and the header {len(header)}"
                _refuse(path, line, what, "quote cells that hold commas or line breaks")
            yield Row(line, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        _refuse(path, before + 1, f"is not CSV: {error}", "quote cells that hold commas or line breaks")


def _check_header(path: Path, line: int, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if "" in names or len(set(names)) < len(names):
        what = "is a header with an empty name" if "" in names else "is a header with a name twice"
        _refuse(path, line, what, "give every column a name of its own")
    return names


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key is given twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _refuse(path: Path, line: int, what: str, fix: str) -> NoReturn:
    raise AdapterError(f"line {line} of {path.name} {what}", where=f"{path}, line {line}", fix=fix)
