"""Fisher's exact test."""

from __future__ import annotations

import pytest
from scipy import stats

from capevolve.stats import fisher_exact


def test_an_empty_row_leaves_nothing_to_compare():
    assert fisher_exact(0, 0, 3, 4) is None
    assert fisher_exact(3, 4, 0, 0) is None


def test_an_empty_column_shows_no_difference():
    assert fisher_exact(5, 0, 7, 0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "table",
    [
        (8, 2, 1, 5),
        (10, 0, 0, 10),
        (60, 0, 55, 5),
        (60, 0, 54, 6),
        (3, 3, 3, 3),
        (1, 99, 9, 91),
        (90, 10, 95, 5),
    ],
)
def test_the_p_value_equals_the_one_of_scipy(table: tuple[int, int, int, int]):
    a, b, c, d = table
    expected = stats.fisher_exact([[a, b], [c, d]]).pvalue
    assert fisher_exact(a, b, c, d) == pytest.approx(expected, rel=1e-9)
    assert fisher_exact(c, d, a, b) == pytest.approx(expected, rel=1e-9)


def test_thousands_of_trials_that_all_differ_are_not_impossible():
    assert 0.0 < fisher_exact(5_000, 0, 0, 5_000) < 1e-300


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="negative"):
        fisher_exact(-1, 2, 3, 4)
