"""Numbers that were computed without capevolve: by scipy, by closed forms or by brute force.

`oracles.json` holds 58 of them: inputs under `data`, and for each oracle its value and the independent method that
it comes from. Here each is met by the public function that the product itself calls. The name of a test is the
oracle, what is asked of it, and its source.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from capevolve.gate import GateSettings, judge
from capevolve.model import Measurement, TaskOutcomes
from capevolve.stats import (
    Interval,
    PValue,
    bca_bootstrap,
    betting_e_value,
    between_variance,
    clopper_pearson,
    cluster_robust,
    combined_stderr,
    compare,
    fallback_levels,
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

STORED = json.loads((Path(__file__).parent / "oracles.json").read_text())
ORACLES = {oracle["id"]: oracle for oracle in STORED["oracles"]}
DATA = STORED["data"]

D1 = [0.0] * 9 + [1.0]
D2 = [float(Fraction(delta)) for delta in DATA["D2"]]
D3 = DATA["D3"]
D21 = [((3 * i) % 7) - 3 + (i % 5 < 2) for i in range(60)]
R, X, C = DATA["R"], DATA["X"], DATA["C"]
# Per task: candidate successes, candidate trials, incumbent successes, incumbent trials.
TT, TU = DATA["TT"], DATA["TU"]
Y, Y2 = DATA["y"], DATA["y2"]
V = 0.143
BET = [1, 0, 1, -1, 1, 1, 0, 1]


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


def _halved(arms: list[tuple[list[float], list[float]]]) -> list[tuple[list[float], list[float]]]:
    """The same outcomes with 1/2 for 1: another unit, which takes the way of graded rewards."""
    return [([r / 2 for r in mine], [r / 2 for r in theirs]) for mine, theirs in arms]


def _p(test: PValue | None) -> list[float]:
    assert test is not None
    assert test.exact
    return [test.value]


def _ends(interval: Interval | None) -> list[float]:
    assert interval is not None
    return [interval.low, interval.high]


def _pair(estimate) -> list[float]:
    return [estimate.value, estimate.se]


def _square_pass_rate() -> list[float]:
    rows = [[1.0] * c + [0.0] * (5 - c) for c in (5, 4, 3, 0, 2, 5)]
    return _pair(summarize(_measure(rows)).pass_k[2])


def _gate_bar() -> list[float]:
    candidate = _measure([[max(d, 0.0)] for d in D2])
    incumbent = _measure([[max(-d, 0.0)] for d in D2])
    verdict = judge(candidate, incumbent, GateSettings(mode="paired", k_se=1.0, multiplier="normal"))
    return [verdict.delta, verdict.bar]


def _shrink(values: Sequence[float], largest: float) -> list[float]:
    shrinkage = james_stein(values, [0.0016] * len(values))
    assert shrinkage is not None
    return [shrinkage.weight, shrinkage.values[values.index(largest)]]


def _find_cluster_interval() -> list[float]:
    estimate = cluster_robust(X, C)
    return _ends(t_interval(estimate.mean, estimate.se, estimate.df))


def _plan_effect(n: int, alpha: float) -> float:
    return minimal_effect(planning_se(V, 3, 3, n), alpha)


Row = tuple[str, str, Callable[[], list[float]]]

ROWS: list[Row] = [
    ("O1", "task_stats", lambda: _pair(task_stats([1, 1, 0, 1, 0]))),
    ("O2", "summarize", lambda: [summarize(_measure(R)).mean]),
    ("O3", "mean_with_stderr", lambda: [mean_with_stderr(_stats_of_r()[0]).se]),
    ("O3", "combined_stderr", lambda: [combined_stderr(*_stats_of_r())]),
    ("O3", "summarize", lambda: [summarize(_measure(R)).se]),
    ("O4", "fixed_stderr", lambda: [fixed_stderr(_stats_of_r()[1])]),
    ("O4", "summarize", lambda: [summarize(_measure(R)).fixed_se]),
    ("O5", "combined_stderr, raw", lambda: [combined_stderr(*_stats_of_r(), between="raw")]),
    ("O6", "between_variance", lambda: [between_variance(*_stats_of_r())]),
    ("O7", "cluster_robust", lambda: [cluster_robust(X, C).se]),
    ("O7", "summarize", lambda: [summarize(_measure([[x] for x in X], C)).se]),
    ("O7", "compare", lambda: [_compared(X, C).se]),
    ("O8", "cluster_robust", lambda: [cluster_robust(X, range(10)).se]),
    # The relation that the oracle states between Miller's version and the product's.
    ("O9", "cluster_robust", lambda: [cluster_robust(X, C).se * math.sqrt(3 / 4)]),
    ("O10", "compare", lambda: [_compared(D2).mean, _compared(D2).se, _compared(D2).t]),
    ("O11", "compare", lambda: [_compared(D2).p_t]),
    ("O12", "compare", lambda: _ends(_compared(D2).ci)),
    ("O13", "t_interval", _find_cluster_interval),
    ("O13", "compare", lambda: _ends(_compared(X, C).ci)),
    ("O14", "compare", lambda: [_compared(D1).mean, _compared(D1).se, _compared(D1).t, _compared(D1).p_t]),
    ("O15a", "t_quantile", lambda: [t_quantile(0.95, 1)]),
    ("O15b", "t_quantile", lambda: [t_quantile(0.95, 3)]),
    ("O15c", "t_quantile", lambda: [t_quantile(0.95, 19)]),
    ("O15d", "t_quantile", lambda: [t_quantile(0.975, 49)]),
    # At 1 - .05 / 3, of which the oracle's label .9833 is the rounded form.
    ("O15e", "t_quantile", lambda: [t_quantile(1 - 0.05 / 3, 7)]),
    ("O16", "sign_flip", lambda: _p(sign_flip(D1))),
    ("O17", "sign_flip", lambda: _p(sign_flip(D2))),
    ("O18", "sign_flip of compare", lambda: _p(sign_flip(_compared(D2).unit_deltas))),
    ("O19", "sign_flip", lambda: _p(sign_flip(D3))),
    ("O20", "sign_flip", lambda: _p(sign_flip([1] * 5 + [0] * 15))),
    ("O21", "sign_flip", lambda: _p(sign_flip(D21))),
    ("O22", "within_task_permutation", lambda: _p(within_task_permutation(_arms(TT)))),
    ("O23", "within_task_permutation", lambda: _p(within_task_permutation(_arms(TT)[::-1]))),
    ("O23", "graded path", lambda: _p(within_task_permutation(_halved(_arms(TT))))),
    ("O24", "within_task_permutation", lambda: _p(within_task_permutation(_arms(TU)))),
    ("O24", "graded path", lambda: _p(within_task_permutation(_halved(_arms(TU))))),
    ("O25", "within_task_permutation", lambda: _p(within_task_permutation(_arms([(4, 5, 1, 5)])))),
    ("O26", "pass_hat_k", lambda: [pass_hat_k(4, 5, 3)]),
    ("O27", "pass_at_k", lambda: [pass_at_k(1, 5, 2)]),
    ("O28", "summarize", _square_pass_rate),
    ("O29", "splitmix64", lambda: scale_draws(splitmix64(0, 0, 5), 12).tolist()),
    ("O30", "percentile_bootstrap", lambda: _ends(percentile_bootstrap(D2, seed=0, resamples=2000))),
    ("O31", "bca_bootstrap", lambda: _ends(bca_bootstrap(D2, seed=0, resamples=2000))),
    ("O31b", "percentile_bootstrap", lambda: _ends(percentile_bootstrap(X, seed=7, resamples=2000))),
    ("O31c", "bca_bootstrap", lambda: _ends(bca_bootstrap(X, seed=7, resamples=2000))),
    (
        "O32",
        "find_bias, find_acceleration",
        lambda: [find_bias(resample_means(D2, seed=0, resamples=2000), D2), find_acceleration(D2)],
    ),
    ("O33", "find_acceleration", lambda: [find_acceleration(D2)]),
    ("O34", "t_power", lambda: [t_power(0.15, 0.4, 20)]),
    ("O35", "t_minimal_effect", lambda: [t_minimal_effect(0.4, 20)]),
    ("O36", "planning_se", lambda: [planning_se(V, 3, 3, 20)]),
    ("O37", "minimal_effect", lambda: [_plan_effect(20, 0.05)]),
    ("O38", "clopper_pearson", lambda: _ends(clopper_pearson(18, 20))),
    ("O39", "wilson", lambda: _ends(wilson(18, 20))),
    ("O40", "clopper_pearson", lambda: _ends(clopper_pearson(0, 20, level=0.9))[1:]),
    ("O41", "james_stein", lambda: _shrink(Y, 0.6)),
    ("O42", "james_stein", lambda: _shrink(Y2, 0.8)),
    ("O43", "betting_e_value", lambda: [betting_e_value(BET, stake=0.3)]),
    ("O44", "fallback_levels", lambda: list(fallback_levels(0.2, 6, [False, True, False, False]))),
    ("O47a", "minimal_effect", lambda: [_plan_effect(20, 0.05)]),
    ("O47b", "minimal_effect", lambda: [_plan_effect(50, 0.05)]),
    ("O47c", "minimal_effect", lambda: [_plan_effect(100, 0.05)]),
    ("O47d", "minimal_effect", lambda: [_plan_effect(20, 1 / 30)]),
    ("O48", "trials_needed", lambda: [trials_needed(0.10, V, 50)]),
    ("O49", "within_task_permutation", lambda: _p(within_task_permutation(_arms([(3, 3, 1, 3)] * 4)))),
    ("O50", "sign_flip", lambda: _p(sign_flip([2 / 3] * 4))),
    # The bar of the gate at k_se = 1.
    ("O45", "judge", _gate_bar),
]


def test_all_58_oracles_are_met():
    assert len(STORED["oracles"]) == len(ORACLES) == 58
    assert {name for name, _, _ in ROWS} == set(ORACLES)


def test_every_oracle_names_where_it_comes_from():
    assert [name for name, oracle in ORACLES.items() if not oracle["method"]] == []


@pytest.mark.parametrize(
    ("name", "compute"),
    [pytest.param(name, f, id=f"{name} {what} = {ORACLES[name]['method']}") for name, what, f in ROWS],
)
def test_the_product_equals_the_value_computed_without_it(name: str, compute: Callable[[], list[float]]):
    assert compute() == pytest.approx(ORACLES[name]["value"], rel=1e-10, abs=1e-12), ORACLES[name]["quantity"]
