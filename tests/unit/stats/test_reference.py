"""The entries of the document that are made from docstrings."""

from __future__ import annotations

import re

import pytest

from capevolve import stats
from capevolve.stats.reference import Entry, fill_document, list_functions, read_entry

WITHOUT_CAUTION = {"binomial_cdf", "normal_cdf", "normal_quantile", "t_cdf", "t_quantile"}
"""Plain distribution functions: there is nothing to mistrust."""


def _document(marker: str, inside: str = "") -> str:
    return f"before\n\n<!-- {marker} -->\n{inside}<!-- end -->\n\nafter\n"


@pytest.mark.parametrize("name", list_functions())
def test_every_public_function_says_what_the_house_rules_ask_for(name: str):
    function = getattr(stats, name)
    entry = read_entry(function)
    assert re.search(r"[a-z0-9]", entry.formula)
    assert entry.undefined
    # An author and a year, or the entry or program that has them.
    assert re.search(r"\(\d{4}|`\w+`", entry.source)
    assert (entry.caution is None) == (name in WITHOUT_CAUTION)
    assert "Args:" in function.__doc__


def test_a_docstring_is_read_section_by_section():
    def estimate(x, *, seed=0):
        """Returns the value.

        More of it.

        Formula: x
            + 1

        Args:
            x: In [0, 1].

        Undefined: never.

        Source: Nobody (1900).
        """

    assert read_entry(estimate) == Entry(
        "estimate(x, seed)", "The value. More of it.", "x + 1", "never.", None, "Nobody (1900)."
    )


def test_a_docstring_without_a_section_is_refused():
    def estimate(x):
        """Returns the value.

        Formula: x
        """

    with pytest.raises(ValueError, match="estimate has no Undefined, Source"):
        read_entry(estimate)


def test_only_what_is_between_the_markers_changes():
    filled = fill_document(_document("estimators: wilson", "old\n"))
    assert filled.startswith("before\n\n<!-- estimators: wilson -->\n")
    assert filled.endswith("<!-- end -->\n\nafter\n")
    assert "**`wilson(passed, n, level)`**" in filled
    assert "old" not in filled
    assert fill_document(filled) == filled


def test_several_estimators_keep_the_order_of_the_marker():
    filled = fill_document(_document("estimators: wilson, exceeds"))
    assert filled.index("`wilson(") < filled.index("`exceeds(")


@pytest.mark.parametrize(
    "marker", ["estimators: wilson, nonsense", "estimators: Interval", "table: nonsense"]
)
def test_a_marker_that_asks_for_what_is_not_there_is_refused(marker: str):
    with pytest.raises(ValueError, match=r"nonsense|Interval"):
        fill_document(_document(marker))


def test_no_wrapped_line_starts_what_markdown_would_take_for_a_list_or_a_quotation():
    filled = fill_document(_document(f"estimators: {', '.join(list_functions())}"))
    lines = [line for line in filled.splitlines() if line.startswith("  ")]
    assert len(lines) > 20
    assert [line for line in lines if re.match(r"\s*([-+*#>]|\d+[.)]\s)", line)] == []
    assert all(len(line) < 140 for line in filled.splitlines() if not line.startswith("<!--"))
