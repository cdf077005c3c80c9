"""`capevolve init`: a project that runs as it is."""

from __future__ import annotations

import os
from enum import StrEnum
from importlib.resources import as_file, files
from pathlib import Path

from capevolve.cli.console import out
from capevolve.errors import UserError

_NAMED = ("capevolve.yaml", "README.md")
_NOT_ALLOWED = ('"', "\\", "\n")


class TargetKind(StrEnum):
    """What runs the tasks of a new project; `class` is an adapter of the user's own."""

    CLASS = "class"
    COMMAND = "command"
    OPENAI = "openai"
    PYTHON = "python"


_WHOLE = "project"
_PARTS = {
    TargetKind.CLASS: (_WHOLE, ()),
    TargetKind.COMMAND: ("project_command", ("tasks.jsonl", "propose.py", "seed/rules.json")),
    TargetKind.OPENAI: ("project_openai", ("tasks.jsonl",)),
    TargetKind.PYTHON: ("project_python", ("tasks.jsonl", "propose.py", "seed/rules.json")),
}
"""For each kind its folder of the scaffold, and what it shares with the whole project."""


def init_project(folder: Path, name: str | None, target: TargetKind = TargetKind.CLASS) -> None:
    """Writes the scaffold into a new or empty folder.

    Args:
        folder: The folder of the project.
        name: The project's name; None: the folder's.
        target: Which scaffold.

    Raises:
        UserError: The folder holds something already, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError("The folder is not empty.", where=str(folder), fix="Name a new or empty folder.")
    title = name or folder.resolve().name
    if not title.strip() or any(mark in title for mark in _NOT_ALLOWED):
        raise UserError(f"{title!r} cannot name a project.", where="--name", fix="Use letters and digits.")
    try:
        _write(folder, title, target)
    except OSError as error:
        raise UserError(
            f"The project cannot be written: {error.strerror}.",
            where=str(folder),
            fix="Choose another folder.",
        ) from None
    place = os.path.relpath(folder)
    out.print(f"A project is in {place}. Next:", markup=False)
    out.print(f"  capevolve check {place}\n  capevolve run {place}", markup=False)


def _write(folder: Path, title: str, target: TargetKind) -> None:
    own, shared = _PARTS[target]
    with as_file(files("capevolve.scaffold")) as scaffold:
        parts = {name: scaffold / _WHOLE / name for name in shared}
        for path in (scaffold / own).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                parts[path.relative_to(scaffold / own).as_posix()] = path
        for name, path in sorted(parts.items()):
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_fill(path, title), encoding="utf-8")


def _fill(path: Path, title: str) -> str:
    text = path.read_text(encoding="utf-8")
    if path.name in _NAMED:
        text = text.replace("name: {name}", f'name: "{title}"').replace("{name}", title)
        text = text.replace("{{", "{").replace("}}", "}")
    return text
