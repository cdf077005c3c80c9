"""The report as Markdown: `report.md`, and the artifact in the Prefect UI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from capevolve.report.section import Section
from capevolve.report.sections import build_sections
from capevolve.report.values import RunFacts

_SPECIAL = re.compile(r"[\\`*\[\]|~#!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render_markdown(facts: RunFacts) -> str:
    """Returns the report of a run as GitHub-flavoured Markdown.

    Banners come before the first number; a run without a result says so and claims nothing of test.
    """
    blocks = [f"# Run {escape(facts.info.name)}: {escape(facts.info.id)}"]
    blocks += [f"> **{escape(banner.text)}**" for banner in facts.banners]
    for section in build_sections(facts):
        blocks += _render_section(section)
    return "\n\n".join(blocks) + "\n"


def _render_section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    if section.key == "caveats":
        yield "\n".join(f"- {escape(line)}" for line in section.lines) or "- Nothing."
    else:
        for number, line in enumerate(section.lines):
            lead = section.key == "result" and number == 0
            yield f"**{escape(line)}**" if lead else escape(line)
    if section.rows:
        rule = ["---"] * len(section.headings)
        yield "\n".join(_row(cells) for cells in (section.headings, rule, *section.rows))
    if section.commands:
        yield "\n".join(["```sh", *section.commands, "```"])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell if cell == '---' else escape(cell) for cell in cells)} |"


def escape(text: str) -> str:
    """Returns a clean line with everything that Markdown or HTML would read as markup made literal."""
    literal = _SPECIAL.sub(lambda match: f"\\{match.group()}", text)
    return "".join(_ENTITIES.get(char, char) for char in literal)
