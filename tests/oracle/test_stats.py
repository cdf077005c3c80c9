"""Numbers that were computed without capevolve: by scipy, by closed forms or by brute force.

Each row names its oracle and where the value comes from. Inputs and values are copied, never computed here
by the code under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from capevolve.gate import GateSettings, judge
from capevolve.model import Measurement, TaskOutcomes
from capevolve.stats import (
    Interval,
    PValue,
    bca_bootstrap,
    between_variance,
    clopper_pearson,
    cluster_robust,
    combined_stderr,
    compare,
    fixed_stderr,
    james_stein,
    mean_with_stderr,
    minimal_effect,
    pass_at_k,
    pass_hat_k,
    percentile_bootstrap,
    planning_se,
    sign_flip,
    splitmix64,
    summarize,
    t_interval,
    t_minimal_effect,
    t_power,
    t_quantile,
    task_stats,
    trials_needed,
    wilson,
    within_task_permutation,
)
from capevolve.stats.bootstrap import find_acceleration, find_bias, resample_means
from capevolve.stats.splitmix import scale_draws

D1 = [0.0] * 9 + [1.0]
D2 = [1 / 3, 0, -1 / 3, 2 / 3, 0, 1 / 3, 0, 0, 1 / 3, -1 / 3, 0, 2 / 3]
D3 = [1, 1, 0, 0, -1, 0, 1, 0]
D21 = [((3 * i) % 7) - 3 + (i % 5 < 2) for i in range(60)]
R = [[1, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 1], [1, 1, 1]]
X = [0.1, 0.9, 0.4, 0.7, 0.7, 0.2, 1.0, 0.0, 0.55, 0.65]
C = ["a", "a", "a", "b", "b", "c", "c", "d", "d", "d"]
# Per task: candidate successes, candidate trials, incumbent successes, incumbent trials.
TT = [(3, 3, 1, 3), (2, 3, 2, 3), (0, 3, 1, 3), (3, 3, 0, 3), (1, 3, 0, 3)]
TU = [(3, 3, 2, 6), (2, 3, 1, 6), (1, 3, 3, 6), (3, 3, 5, 6)]
Y = [0.5, 0.55, 0.48, 0.6, 0.52, 0.47, 0.53, 0.58]
Y2 = [0.5, 0.6, 0.4, 0.7, 0.55, 0.45, 0.5, 0.8]
V = 0.143


def _measure(rows: Sequence[Sequence[float]], clusters: Sequence[str] | None = None) -> Measurement:
    tasks = tuple(
        TaskOutcomes(f"t{i:02d}", tuple(map(float, row)), cluster=clusters[i] if clusters else None)
        for i, row in enumerate(rows)
    )
    return Measurement("e", "c", "val", len(rows[0]), 0, tasks)


def _stats_of_r() -> tuple[list[float], list[float | None]]:
    stats = [task_stats(row) for row in R]
    return [s.value for s in stats if s.value is not None], [s.se for s in stats]


def _compared(deltas: Sequence[float], clusters: Sequence[str] | None = None):
    """Deltas as a comparison: the candidate's reward minus the incumbent's, both in [0, 1]."""
    candidate = _measure([[max(d, 0.0)] for d in deltas], clusters)
    return compare(candidate, _measure([[max(-d, 0.0)] for d in deltas], clusters))


def _arms(table: Sequence[tuple[int, int, int, int]]) -> list[tuple[list[float], list[float]]]:
    return [([1.0] * a + [0.0] * (b - a), [1.0] * c + [0.0] * (d - c)) for a, b, c, d in table]


def _p(test: PValue | None) -> list[float]:
    assert test is not None
    assert test.exact
    return [test.value]


def _ends(interval: Interval | None) -> list[float]:
    assert interval is not None
    return [interval.low, interval.high]


def _pair(estimate) -> list[float]:
    return [estimate.value, estimate.se]


def _pass_square() -> list[float]:
    rows = [[1.0] * c + [0.0] * (5 - c) for c in (5, 4, 3, 0, 2, 5)]
    return _pair(summarize(_measure(rows)).pass_k[2])


def _gate_bar() -> list[float]:
    candidate = _measure([[max(d, 0.0)] for d in D2])
    incumbent = _measure([[max(-d, 0.0)] for d in D2])
    verdict = judge(candidate, incumbent, GateSettings(mode="paired", k_se=1.0, multiplier="normal"))
    return [verdict.delta, verdict.bar]


def _shrunk(values: Sequence[float], largest: float) -> list[float]:
    shrinkage = james_stein(values, [0.0016] * len(values))
    assert shrinkage is not None
    return [shrinkage.weight, shrinkage.values[values.index(largest)]]


def _t_ci(deltas: Sequence[float]) -> list[float]:
    return _ends(_compared(deltas).ci)


def _cluster_ci() -> list[float]:
    estimate = cluster_robust(X, C)
    return _ends(t_interval(estimate.mean, estimate.se, estimate.df))


def _planned_effect(n: int, alpha: float) -> float:
    return minimal_effect(planning_se(V, 3, 3, n), alpha)


Row = tuple[str, Callable[[], list[float]], list[float]]

ROWS: list[Row] = [
    # numpy and scipy.stats.sem
    ("O1 task mean and se", lambda: _pair(task_stats([1, 1, 0, 1, 0])), [0.6, 0.24494897427831783]),
    ("O2 split mean", lambda: [summarize(_measure(R)).mean], [0.611111111111111]),
    ("O3 s / sqrt(n)", lambda: [mean_with_stderr(_stats_of_r()[0]).se], [0.1590869007030706]),
    ("O3 combined, component", lambda: [combined_stderr(*_stats_of_r())], [0.1590869007030706]),
    ("O3 summary", lambda: [summarize(_measure(R)).se], [0.1590869007030706]),
    ("O4 fixed tasks", lambda: [fixed_stderr(_stats_of_r()[1])], [0.09622504486493764]),
    ("O4 summary", lambda: [summarize(_measure(R)).fixed_se], [0.09622504486493764]),
    ("O5 combined, raw", lambda: [combined_stderr(*_stats_of_r(), between="raw")], [0.18592445034090568]),
    ("O6 between component", lambda: [between_variance(*_stats_of_r())], [0.0962962962962963]),
    ("O7 CR1", lambda: [cluster_robust(X, C).se], [0.06433246976967902]),
    ("O7 summary", lambda: [summarize(_measure([[x] for x in X], C)).se], [0.06433246976967902]),
    ("O7 paired", lambda: [_compared(X, C).se], [0.06433246976967902]),
    ("O8 CR1, singletons", lambda: [cluster_robust(X, range(10)).se], [0.10651030205780303]),
    # O(n^2) double sum of Miller (2024)
    ("O9 CR0", lambda: [cluster_robust(X, C).se * math.sqrt(3 / 4)], [0.05571355310873648]),
    # scipy.stats.ttest_1samp, t.interval, t.ppf
    (
        "O10 mean, se, t",
        lambda: [_compared(D2).mean, _compared(D2).se, _compared(D2).t],
        [0.13888888888888887, 0.09585986311162782, 1.4488742668780386],
    ),
    ("O11 p of t", lambda: [_compared(D2).p_t], [0.08763682350445914]),
    ("O12 t interval", lambda: _t_ci(D2), [-0.07209724726821987, 0.3498750250459976]),
    ("O13 cluster t interval", _cluster_ci, [0.31526536927170923, 0.7247346307282908]),
    (
        "O14 one winner",
        lambda: [_compared(D1).mean, _compared(D1).se, _compared(D1).t, _compared(D1).p_t],
        [0.1, 0.09999999999999999, 1.0, 0.1717181980689568],
    ),
    ("O15a t quantile", lambda: [t_quantile(0.95, 1)], [6.313751514675037]),
    ("O15b t quantile", lambda: [t_quantile(0.95, 3)], [2.3533634348018233]),
    ("O15c t quantile", lambda: [t_quantile(0.95, 19)], [1.7291328115213682]),
    ("O15d t quantile", lambda: [t_quantile(0.975, 49)], [2.0095752371292392]),
    # At 1 - .05 / 3, of which the label .9833 is the rounded form.
    ("O15e t quantile", lambda: [t_quantile(1 - 0.05 / 3, 7)], [2.6418596704980413]),
    # enumeration of all sign patterns; scipy.stats.permutation_test; binomtest; FFT of a product of cosines
    ("O16 one winner", lambda: _p(sign_flip(D1)), [0.5]),
    ("O17 enumeration", lambda: _p(sign_flip(D2)), [0.140625]),
    ("O18 permutation_test", lambda: _p(sign_flip(_compared(D2).unit_deltas)), [0.140625]),
    ("O19 McNemar", lambda: _p(sign_flip(D3)), [0.3125]),
    ("O20 2^-5", lambda: _p(sign_flip([1] * 5 + [0] * 15)), [0.03125]),
    ("O21 n = 60", lambda: _p(sign_flip(D21)), [0.08800420755873331]),
    ("O50 2^-4", lambda: _p(sign_flip([2 / 3] * 4)), [0.0625]),
    # convolution of scipy hypergeometrics; enumeration of all labellings; scipy fisher_exact
    ("O22 CMH", lambda: _p(within_task_permutation(_arms(TT))), [0.06150000000000004]),
    ("O23 enumeration", lambda: _p(within_task_permutation(_arms(TT)[::-1])), [0.0615]),
    ("O24 unequal trials", lambda: _p(within_task_permutation(_arms(TU))), [0.08391597379692618]),
    ("O25 Fisher", lambda: _p(within_task_permutation(_arms([(4, 5, 1, 5)]))), [0.1031746031746032]),
    (
        "O49 four tasks",
        lambda: _p(within_task_permutation(_arms([(3, 3, 1, 3)] * 4))),
        [0.001600000000000001],
    ),
    # scipy comb
    ("O26 pass^3", lambda: [pass_hat_k(4, 5, 3)], [0.4]),
    ("O27 pass@2", lambda: [pass_at_k(1, 5, 2)], [0.4]),
    ("O28 split pass^2", _pass_square, [0.5, 0.1788854381999832]),
    # pure Python; resampling in pure Python with numpy.quantile; definitions
    ("O29 splitmix64", lambda: scale_draws(splitmix64(0, 0, 5), 12).tolist(), [10, 5, 0, 11, 1]),
    (
        "O30 percentile",
        lambda: _ends(percentile_bootstrap(D2, seed=0, resamples=2000)),
        [-0.05555555555555555, 0.3333333333333333],
    ),
    (
        "O31 BCa",
        lambda: _ends(bca_bootstrap(D2, seed=0, resamples=2000)),
        [-0.05555555555555555, 0.3333333333333333],
    ),
    (
        "O31b percentile",
        lambda: _ends(percentile_bootstrap(X, seed=7, resamples=2000)),
        [0.325, 0.7101249999999993],
    ),
    ("O31c BCa", lambda: _ends(bca_bootstrap(X, seed=7, resamples=2000)), [0.32, 0.71]),
    (
        "O32 z0 and a",
        lambda: [find_bias(resample_means(D2, seed=0, resamples=2000), D2), find_acceleration(D2)],
        [-0.008146632003740304, 0.011487729738250773],
    ),
    ("O33 a, closed form", lambda: [find_acceleration(D2)], [0.011487729738250891]),
    # scipy.stats.nct, norm, brentq; formulas
    ("O34 power of t", lambda: [t_power(0.15, 0.4, 20)], [0.4888838374343861]),
    ("O35 MDE of t", lambda: [t_minimal_effect(0.4, 20)], [0.23076680053534349]),
    ("O36 planning SE", lambda: [planning_se(V, 3, 3, 20)], [0.06904105059069326]),
    ("O37 MDE", lambda: [_planned_effect(20, 0.05)], [0.17166883663795113]),
    ("O47a MDE n = 20", lambda: [_planned_effect(20, 0.05)], [0.17166883663795113]),
    ("O47b MDE n = 50", lambda: [_planned_effect(50, 0.05)], [0.10857290540945756]),
    ("O47c MDE n = 100", lambda: [_planned_effect(100, 0.05)], [0.07677263766815304]),
    ("O47d MDE alpha = 1/30", lambda: [_planned_effect(20, 1 / 30)], [0.18472180731568863]),
    ("O48 trials needed", lambda: [trials_needed(0.10, V, 50)], [3.536422736715306]),
    # scipy.stats.beta, binomtest; closed form
    ("O38 Clopper-Pearson", lambda: _ends(clopper_pearson(18, 20)), [0.6830172859809177, 0.9876514728297052]),
    ("O39 Wilson", lambda: _ends(wilson(18, 20)), [0.6989663547715128, 0.9721335187862319]),
    ("O40 none of 20", lambda: _ends(clopper_pearson(0, 20, level=0.9))[1:], [0.13910834066826516]),
    # numpy
    ("O41 James-Stein", lambda: _shrunk(Y, 0.6), [0.24769101595298065, 0.5463979848866498]),
    ("O42 James-Stein", lambda: _shrunk(Y2, 0.8), [0.9094949494949495, 0.7785050505050506]),
    # scipy: mean and SE of the deltas, which is the bar at k_se = 1
    ("O45 gate bar", _gate_bar, [0.13888888888888887, 0.09585986311162782]),
]


@pytest.mark.parametrize(("compute", "expected"), [pytest.param(c, v, id=name) for name, c, v in ROWS])
def test_the_value_equals_the_one_computed_without_capevolve(
    compute: Callable[[], list[float]], expected: list[float]
):
    assert compute() == pytest.approx(expected, rel=1e-11, abs=1e-13)
