from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.model import Estimate
from capevolve.report.markdown import escape
from capevolve.report.measured import RoleSpend
from capevolve.report.wording import (
    clean_line,
    format_chance,
    format_change,
    format_cost,
    format_error,
    format_estimate,
    format_p,
    format_share,
    format_usd,
    format_value,
    shorten,
)


@settings(deadline=None)
@given(st.text())
def test_a_cleaned_text_is_one_visible_line(text):
    cleaned = clean_line(text)
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in cleaned)
    assert len(cleaned.splitlines()) <= 1
    assert clean_line(cleaned) == cleaned


def test_an_escape_sequence_loses_its_escape():
    assert (
        clean_line("ok\x1b]0;owned\x07\r\n#2 accept\u202etpecca\u2028x") == "ok ]0;owned #2 accept tpecca x"
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, "100 %"), (1999 / 2000, "99.9 %"), (0.625, "62.5 %"), (0.0, "0 %"), (None, "undefined")],
)
def test_what_is_not_complete_is_never_100_per_cent(share, words):
    assert format_share(share) == words


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (None, "not reported"),
        (0.0, "$0.00"),
        (0.00002, "$2e-05"),
        (0.0123, "$0.0123"),
        (0.4, "$0.40"),
        (7.5, "$7.50"),
        (1234.567, "$1,234.57"),
    ],
)
def test_money_keeps_its_digits(amount, words):
    assert format_usd(amount) == words


def test_money_that_is_partly_unknown_says_so():
    assert format_cost(RoleSpend("target", 5, 0.1, 2, None)) == "$0.10 and 2 calls not reported"
    assert format_cost(RoleSpend("target", 5, None, 5, None)) == "not reported"
    assert format_cost(RoleSpend("proposer", 0, None, 0, None)) == "no calls"


def test_an_error_of_nothing_is_undefined():
    assert format_error(0.0) == format_error(None) == "± undefined"
    assert format_error(0.00004) == "± 4e-05"
    assert format_estimate(Estimate(0.25, 0.1)) == "+0.250 ± 0.100"
    assert format_estimate(Estimate(None, None)) == "undefined"


def test_zero_has_no_sign():
    assert format_change(-0.0001) == format_change(0.0) == format_value(-0.0) == "0.000"
    assert format_change(0.001) == "+0.001"


def test_small_p_values_are_bounds():
    assert [format_p(p) for p in (None, 0.0, 0.0004, 0.05)] == ["undefined", "< 0.001", "< 0.001", "0.050"]


def test_chances_near_the_ends_keep_a_digit():
    assert [format_chance(p) for p in (0.1587, 0.001, 0.9999)] == ["16 %", "0.1 %", "above 99 %"]


def test_a_shortened_text_shows_that_it_was_cut():
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"


@settings(deadline=None)
@given(st.text(alphabet="|`*_[]<>&\\!#~ab1 "))
def test_escaped_markdown_has_no_bare_markup(text):
    literal = escape(text)
    bare = literal.replace("\\\\", "")
    for char in "|`*[]~!":
        assert char not in bare.replace(f"\\{char}", "")
    assert "<" not in literal and ">" not in literal
