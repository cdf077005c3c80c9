"""Distribution functions against `scipy.stats`, which the package itself never imports."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom, norm, t

from capevolve.stats import binomial_cdf, normal_cdf, normal_quantile, t_cdf, t_quantile

LEVELS_AS_K = [0.2, 1.0, 1.645, 3.0, 5.0, 8.0]


@pytest.mark.parametrize("k", LEVELS_AS_K)
def test_extreme_levels_keep_their_digits(k: float):
    assert normal_cdf(-k) == pytest.approx(norm.sf(k), rel=1e-12)
    assert normal_quantile(normal_cdf(-k)) == pytest.approx(-k, rel=1e-12)


@pytest.mark.parametrize("k", LEVELS_AS_K)
@pytest.mark.parametrize("df", [1, 2, 5, 30])
def test_the_t_quantile_is_right_at_extreme_levels(k: float, df: int):
    level = norm.sf(k)
    found = t_quantile(level, df)
    assert found == pytest.approx(t.ppf(level, df), rel=1e-9)
    assert t_cdf(found, df) == pytest.approx(level, rel=1e-9)


def test_the_binomial_chance_is_that_of_scipy_at_every_rate():
    rates = np.array([0.0, 0.2, 0.9, 1.0])
    assert binomial_cdf(3, 7, rates) == pytest.approx(binom.cdf(3, 7, rates), rel=1e-12)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.1, float("nan")])
def test_a_chance_outside_zero_and_one_is_refused_and_never_becomes_what_is_not_a_number(q: float):
    for call in (lambda: normal_quantile(q), lambda: t_quantile(q, 3)):
        with pytest.raises(ValueError, match="chance"):
            call()


@pytest.mark.parametrize("df", [0, -1, float("nan")])
def test_no_degrees_of_freedom_are_refused(df: float):
    for call in (lambda: t_quantile(0.5, df), lambda: t_cdf(0.0, df)):
        with pytest.raises(ValueError, match="freedom"):
            call()


def test_impossible_counts_and_rates_are_refused():
    for x, n, rate in ((-1, 3, 0.5), (4, 3, 0.5), (1, 3, 1.5), (1, 3, float("nan"))):
        with pytest.raises(ValueError, match="rates"):
            binomial_cdf(x, n, np.array([rate]))


def test_importing_the_package_loads_nothing_of_scipy():
    code = "import sys, capevolve.stats, capevolve.gate; print([m for m in sys.modules if m[:5] == 'scipy'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
