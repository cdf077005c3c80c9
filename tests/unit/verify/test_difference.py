"""Stored against computed values: what counts as a difference, and how it is shown."""

from __future__ import annotations

import pytest

from capevolve.errors import LedgerError, SplitError, TamperError
from capevolve.verify.difference import Difference, expect, find_difference, reading, show


@pytest.mark.parametrize(
    ("stored", "computed"),
    [(1, 1), (1, 1.0), (None, None), ([1, (2,)], (1, [2])), ({"a": {"b": []}}, {"a": {"b": ()}}), ("a", "a")],
)
def test_equal_values_do_not_differ(stored, computed):
    assert find_difference(stored, computed) is None


@pytest.mark.parametrize(
    ("stored", "computed", "path"),
    [
        (1, 2, ""), (True, 1, ""), (0, None, ""), (0, False, ""), ("1", 1, ""), ([], {}, ""), ([1], [1, 2], ""),
        ({"a": 1, "b": {"c": [1, 2]}}, {"a": 1, "b": {"c": [1, 3]}}, "b.c.1"),
        ({"a": None}, {}, "a"), ({}, {"a": None}, "a"),
    ],
)  # fmt: skip
def test_the_first_difference_is_found_with_its_path(stored, computed, path):
    found = find_difference(stored, computed)
    assert isinstance(found, Difference)
    assert found.path == path


def test_computed_numbers_may_differ_in_their_last_digits_and_whole_ones_never():
    assert find_difference(0.1 + 0.2, 0.3) is not None
    assert find_difference(0.1 + 0.2, 0.3, tolerance=1e-9) is None
    assert find_difference(0.301, 0.3, tolerance=1e-9) is not None
    assert find_difference(10**12, 10**12 + 1, tolerance=1e-9) is not None


def test_both_values_are_told():
    with pytest.raises(TamperError, match=r"verdict: n is 3, should be 4\.") as refusal:
        expect("verdict", "table t, row 1", {"n": 3}, {"n": 4})
    assert refusal.value.where == "table t, row 1"


def test_values_are_shown_on_one_printable_line():
    assert show("a\nb\u202e\x1b") == '"a\\nb\\u202e\\u001b"'
    assert len(show("x" * 10_000)) < 120
    assert "10002 characters, sha256:" in show("x" * 10_000)


@pytest.mark.parametrize(
    "error",
    [ValueError("a\nb"), KeyError("k"), TypeError(), RecursionError(), SplitError("no"), LedgerError("gone")],
)
def test_what_cannot_be_read_is_tampering_and_names_its_row(error):
    with pytest.raises(TamperError) as refusal, reading("table t, row 1"):
        raise error
    assert refusal.value.where == "table t, row 1"


def test_other_failures_are_not_taken_for_tampering():
    with pytest.raises(OSError), reading("table t, row 1"):
        raise OSError("the disk")
