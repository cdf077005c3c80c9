"""Which files beside an adapter its `import` statements name, also those inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path


def find_imports(files: Sequence[Path], folders: Sequence[Path]) -> list[Path]:
    """Returns the modules under `folders` that the files import, and those import in turn, sorted.

    Args:
        files: Python files to begin with; they are not part of the answer unless imported.
        folders: Where a top-level name is looked for, in order.
    """
    found: set[Path] = set()
    waiting = [path for path in files if path.suffix == ".py"]
    while waiting:
        path = waiting.pop()
        for name in _read_names(path, folders):
            for module in _find_modules(name, folders):
                if module not in found:
                    found.add(module)
                    waiting.append(module)
    return sorted(found)


def _read_names(path: Path, folders: Sequence[Path]) -> Iterator[str]:
    """The dotted names a file imports; relative ones made absolute by where the file lies."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _resolve(node, path, folders)
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _resolve(node: ast.ImportFrom, path: Path, folders: Sequence[Path]) -> str:
    if not node.level:
        return node.module or ""
    package = path.parent
    for _ in range(node.level - 1):
        package = package.parent
    for folder in folders:
        if package.is_relative_to(folder):
            parts = [*package.relative_to(folder).parts, *(node.module or "").split(".")]
            return ".".join(part for part in parts if part)
    return node.module or ""


def _find_modules(name: str, folders: Sequence[Path]) -> list[Path]:
    """The files of a dotted name and of the packages around it, in the first folder that has its top."""
    parts = name.split(".")
    for folder in folders:
        files = []
        for end in range(1, len(parts) + 1):
            place = folder.joinpath(*parts[:end])
            files += [path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()]
        if files:
            return [path.resolve() for path in files]
    return []
