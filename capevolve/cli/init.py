"""`capevolve init`: a project that runs as it is."""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path

from capevolve.cli.console import out
from capevolve.errors import UserError

_NAMED = ("capevolve.yaml", "README.md")
_NOT_ALLOWED = ('"', "\\", "\n")


def init_project(folder: Path, name: str | None) -> None:
    """Writes the scaffold into a new or empty folder.

    Raises:
        UserError: The folder holds something already, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError("The folder is not empty.", where=str(folder), fix="Name a new or empty folder.")
    title = name or folder.resolve().name
    if not title.strip() or any(mark in title for mark in _NOT_ALLOWED):
        raise UserError(f"{title!r} cannot name a project.", where="--name", fix="Use letters and digits.")
    try:
        _write(folder, title)
    except OSError as error:
        raise UserError(
            f"The project cannot be written: {error.strerror}.",
            where=str(folder),
            fix="Choose another folder.",
        ) from None
    place = os.path.relpath(folder)
    out.print(f"A project is in {place}. Next:", markup=False)
    out.print(f"  capevolve check {place}\n  capevolve run {place}", markup=False)


def _write(folder: Path, title: str) -> None:
    with as_file(files("capevolve.scaffold") / "project") as source:
        for path in sorted(source.rglob("*")):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8")
            if path.name in _NAMED:
                text = text.replace("name: {name}", f'name: "{title}"').replace("{name}", title)
                text = text.replace("{{", "{").replace("}}", "}")
            target.write_text(text, encoding="utf-8")
