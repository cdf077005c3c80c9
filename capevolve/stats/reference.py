"""The entries of `docs/statistics.md` that are made from the code, so that they cannot fall behind.

The document says in its own words what each number means. Between its markers stand entries made from the
docstrings here, and tables made by calling the functions. `python -m capevolve.stats.reference
docs/statistics.md` writes them again in place; a test compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import capevolve.stats as stats
from capevolve.stats.attainable import smallest_p
from capevolve.stats.power import minimal_effect, planning_se

_BLOCK = re.compile(r"(<!-- (estimators|table): ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEADING = re.compile(r"^(Formula|Args|Returns|Undefined|Caution|Raises|Source): ?", re.MULTILINE)
_WIDTH = 120
_BLOCK_START = re.compile(r"[-+*#=>|]|\d+[.)]$")
"""Words that would start a list, a heading or a quotation at the beginning of a line."""
PLANNING_VARIANCE = 0.143
"""The within-task variance of the design table: tasks that a target passes from never to always."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the document says of one function.

    Attributes:
        call: Its name and the names of its parameters.
        definition: What it returns, in words.
        formula: How it is computed.
        undefined: When there is no value.
        caution: When not to trust it; None for plain distribution functions.
        source: Author and year.
    """

    call: str
    definition: str
    formula: str
    undefined: str
    caution: str | None
    source: str


def fill_document(document: str) -> str:
    """Returns the document with everything between its markers made again.

    Raises:
        ValueError: A marker names a function or a table that does not exist, or a docstring lacks a section.
    """
    return _BLOCK.sub(_render_block, document)


def read_entry(function: Callable[..., object]) -> Entry:
    """Returns what a function's docstring says.

    Raises:
        ValueError: The docstring lacks a section that the document shows.
    """
    name = function.__name__
    pieces = _HEADING.split(inspect.getdoc(function) or "")
    parts = {heading: _unwrap(text) for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)}
    missing = [heading for heading in ("Formula", "Undefined", "Source") if heading not in parts]
    definition = _unwrap(pieces[0])
    if missing or not definition.startswith("Returns "):
        raise ValueError(f"the docstring of {name} has no {', '.join(missing) or 'Returns'}")
    definition = definition.removeprefix("Returns ")
    return Entry(
        call=f"{name}({', '.join(inspect.signature(function).parameters)})",
        definition=_capitalize(definition),
        formula=parts["Formula"],
        undefined=parts["Undefined"],
        caution=parts.get("Caution"),
        source=parts["Source"],
    )


def list_functions() -> tuple[str, ...]:
    """Returns the names of all public functions of the package, sorted."""
    return tuple(name for name in sorted(stats.__all__) if inspect.isfunction(getattr(stats, name)))


def _render_block(block: re.Match[str]) -> str:
    opening, kind, names, closing = block.groups()
    if kind == "table":
        if names not in TABLES:
            raise ValueError(f"there is no table {names!r}, only {', '.join(TABLES)}")
        return f"{opening}\n{TABLES[names]()}\n{closing}"
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in list_functions()]
    if unknown:
        raise ValueError(f"capevolve.stats has no public function {', '.join(unknown)}")
    entries = [_render_entry(read_entry(getattr(stats, name))) for name in wanted]
    return opening + "\n" + "\n".join(entries) + "\n" + closing


def _render_entry(entry: Entry) -> str:
    lines = [f"**`{entry.call}`** {_end(entry.definition)}", "", f"- formula: {_quote(entry.formula)}"]
    lines.append(f"- undefined: {_end(entry.undefined)}")
    if entry.caution is not None:
        lines.append(f"- when not to trust it: {_end(entry.caution)}")
    lines.append(f"- source: {_end(entry.source)}")
    return "\n".join(_wrap(line) for line in lines) + "\n"


def _capitalize(text: str) -> str:
    """Starts a sentence; a symbol such as pass^k stays as it is."""
    return text[0].upper() + text[1:] if text.split(" ")[0].isalpha() else text


def _quote(text: str) -> str:
    """A formula as code, so that Markdown leaves its stars and underscores alone."""
    fence = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _end(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _unwrap(text: str) -> str:
    return " ".join(text.split())


def _wrap(line: str) -> str:
    lines, indent = [""], "  " if line.startswith("- ") else ""
    for word in line.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WIDTH and not _BLOCK_START.match(word):
            lines.append(indent + word)
        else:
            lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def _tabulate_designs() -> str:
    """The smallest improvement of these tasks that a design finds."""
    counts = (1, 3, 5, 12)
    rows = []
    for n in (20, 50, 100, 300):
        errors = [planning_se(PLANNING_VARIANCE, k, k, n) or 0.0 for k in counts]
        rows.append([f"{n} tasks", *(f"+{minimal_effect(se):.3f}" for se in errors)])
    return _tabulate(["", *(f"{k} trial{'' if k == 1 else 's'} an arm" for k in counts)], rows)


def _tabulate_smallest() -> str:
    """The smallest p-value that a design can give."""
    counts = (1, 3, 12)
    rows = [[f"{n} tasks", *(f"{smallest_p(n, k, k):.1e}" for k in counts)] for n in (2, 4, 8, 20)]
    return _tabulate(["", *(f"{k} trial{'' if k == 1 else 's'} an arm" for k in counts)], rows)


def _tabulate(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


TABLES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {"designs": _tabulate_designs, "smallest p-values": _tabulate_smallest}
)
"""The tables that a document may ask for, by the name in the marker."""


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(fill_document(path.read_text()))
