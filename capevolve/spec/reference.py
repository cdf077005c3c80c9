"""The reference of `capevolve.yaml` as Markdown, made from the models so that it cannot fall behind.

`python -m capevolve.spec.reference > docs/spec.md` writes it; a test compares.
"""

from __future__ import annotations

import sys
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from capevolve.spec.flat_keys import IGNORED, MAPPED, RATIOS
from capevolve.spec.models import ProjectSpec

_HEAD = """# capevolve.yaml

Unknown keys are refused, with the nearest known key named. A number in quotes is not a number. Paths are
relative to the file. Made from the code by `python -m capevolve.spec.reference`.
"""


def render_reference() -> str:
    """Returns the reference: one table per section, then cap-evolve's flat keys."""
    parts = [_HEAD, *_render_section("", ProjectSpec)]
    parts.append("## cap-evolve's flat keys\n\nUnderstood, each with a note when it is used:\n")
    meanings = {key: ".".join(path) for key, path in MAPPED.items()}
    meanings |= {key: f"splits.ratios.{key.removeprefix('split_')}" for key in RATIOS}
    parts.append(_table(["flat key", "means"], [[f"`{a}`", f"`{b}`"] for a, b in sorted(meanings.items())]))
    ignored = ", ".join(f"`{key}`" for key in sorted(IGNORED))
    parts.append(f"Accepted and ignored, each with a note: {ignored}.\n")
    return "\n".join(parts)


def _render_section(path: str, model: type[BaseModel]) -> list[str]:
    rows, below = [], []
    for name, field in model.model_fields.items():
        key = f"{path}.{name}" if path else name
        sections = _sections(field)
        if sections:
            below += [part for section in sections for part in _render_section(key, section)]
        rows.append([f"`{key}`", _default(field), (field.description or "").replace("|", "\\|")])
    title = f"## {path or 'Top level'}\n"
    if path:
        title += f"\n{(model.__doc__ or '').splitlines()[0]}\n"
    return [title, _table(["key", "default", "meaning"], rows), *below]


def _sections(field: FieldInfo) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []

    def look(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.append(annotation)
        for inner in get_args(annotation):
            look(inner)

    look(field.annotation)
    return found


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return ""
    if field.default is PydanticUndefined:
        return "required"
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return (
        "none" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_reference())
