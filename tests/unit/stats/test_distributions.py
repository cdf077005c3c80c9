"""Distribution functions against `scipy.stats`, which the package itself never imports."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scipy.stats import norm, t

from capevolve.stats import normal_cdf, normal_quantile, t_cdf, t_quantile

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


def test_importing_the_package_loads_nothing_of_scipy():
    code = "import sys, capevolve.stats, capevolve.gate; print([m for m in sys.modules if m[:5] == 'scipy'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
