"""Texts of proposers, users and adapters cannot leave the place they are shown in."""

from __future__ import annotations

import re
import unicodedata
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Collects tags, checks that they nest, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.comments: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_data(self, data):
        self.text += data


def read(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


def test_the_page_is_whole_in_every_state(gallery, state):
    page = read(gallery(state).html)
    expected = {"result", "caveats", "candidates", "splits", "seal", "spend", "run", "verify"}
    if gallery(state).facts.final is not None:
        expected.add("tasks")
    assert _sections(page) == expected


def _sections(page: Page) -> set[str]:
    return {attrs["id"] for tag, attrs in page.tags if tag == "section"}


def test_no_script_and_nothing_fetched_in_any_state(gallery, state):
    page = read(gallery(state).html)
    assert not any(tag in {"script", "iframe", "object", "link", "img", "image"} for tag, _ in page.tags)
    assert page.comments == []
    for tag, attrs in page.tags:
        for name, value in attrs.items():
            assert not name.startswith("on"), (tag, name)
            if name in {"src", "href", "xlink:href", "action"}:
                assert value.startswith("#") or value in {"splits.json", "final.json", "report.md"}
    assert "url(http" not in gallery(state).html


def test_ids_are_unique_on_the_page(gallery, final_state):
    ids = [attrs["id"] for _, attrs in read(gallery(final_state).html).tags if "id" in attrs]
    assert sorted(ids) == sorted(set(ids))


def test_a_hostile_text_is_shown_as_text(gallery):
    page = read(gallery("hostile").html)
    assert "<!--<script>alert(1)</script>" in page.text
    assert "demo <b>&amp;| run" in page.text


def test_no_control_or_bidirectional_character_is_shown(gallery):
    for name, text in gallery("hostile").surfaces.items():
        unfit = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n"}
        assert not unfit, name


def test_a_newline_cannot_forge_a_line_of_markdown(gallery):
    lines = gallery("hostile").markdown.splitlines()
    assert not any(line.lstrip().startswith("## forged") for line in lines)
    tables = [re.split(r"(?<!\\)\|", line) for line in lines if line.startswith("|")]
    assert {len(cells) for cells in tables if "forged" in "".join(cells)} == {9, 4}


def test_markup_in_markdown_is_literal(gallery):
    text = gallery("hostile").markdown
    assert "<" not in text.replace("\\<", "")
    assert not re.search(r"(?<!\\)\[x(?<!\\)\]\(y\)", text)
    assert not re.search(r"(?<!\\)`code", text)
