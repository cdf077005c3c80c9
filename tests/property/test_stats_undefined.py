"""What is undefined is None: for every function of the package that can be asked for it, and never NaN."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capevolve.stats
from capevolve.model import Estimate, Measurement, Reason, TaskOutcomes, Unmeasured
from capevolve.stats import (
    MeanEstimate,
    bca_bootstrap,
    betting_e_value,
    between_variance,
    clopper_pearson,
    cluster_robust,
    combined_stderr,
    compare,
    estimate_mean,
    fisher_exact,
    fixed_stderr,
    james_stein,
    mean_with_stderr,
    pass_at_k,
    pass_hat_k,
    percentile_bootstrap,
    planning_se,
    sign_flip,
    summarize,
    t_interval,
    t_minimal_effect,
    t_power,
    task_stats,
    trials_needed,
    wilson,
    within_task_permutation,
)


def _measure(*rows: tuple[float, ...], clusters: str | None = None) -> Measurement:
    tasks = tuple(
        TaskOutcomes(f"t{i}", row, () if row else (Unmeasured(Reason.INFRA),), clusters)
        for i, row in enumerate(rows)
    )
    return Measurement("e", "c", "val", 3, 0, tasks)


NOTHING = _measure((), ())
ONE = _measure((1.0, 0.0))
ALIKE = _measure((1.0,), (1.0,))
WORSE = _measure((0.0,), (0.0,))

UNDEFINED: dict[Callable[..., object], list[Callable[[], object]]] = {
    bca_bootstrap: [
        lambda: bca_bootstrap([], seed=0),
        lambda: bca_bootstrap([0.4], seed=0),
        lambda: bca_bootstrap([0.4, 0.4], seed=0),
        lambda: bca_bootstrap([0.4, 0.9], seed=0, clusters=["a", "a"]),
        # A single resample lies on one side of the mean.
        lambda: bca_bootstrap([0.0, 0.1, 0.9], seed=1, resamples=1),
    ],
    betting_e_value: [lambda: betting_e_value([])],
    between_variance: [lambda: between_variance([], []), lambda: between_variance([0.5], [0.1])],
    clopper_pearson: [lambda: clopper_pearson(0, 0)],
    cluster_robust: [
        lambda: cluster_robust([], []).mean,
        lambda: cluster_robust([], []).se,
        lambda: cluster_robust([0.1], ["a"]).se,
        lambda: cluster_robust([0.1, 0.9], ["a", "a"]).df,
    ],
    combined_stderr: [
        lambda: combined_stderr([], []),
        lambda: combined_stderr([0.5], [0.1]),
        lambda: combined_stderr([0.5], [None], "raw"),
    ],
    compare: [
        lambda: compare(NOTHING, ONE).mean,
        lambda: compare(ONE, ONE).se,
        lambda: compare(ONE, ONE).ci,
        lambda: compare(ALIKE, WORSE).t,
        lambda: compare(ALIKE, WORSE).p_t,
        lambda: compare(ALIKE, WORSE).ci,
    ],
    estimate_mean: [
        lambda: estimate_mean(NOTHING).mean,
        lambda: estimate_mean(ONE).se,
        lambda: estimate_mean(_measure((0.0,), (1.0,), clusters="x")).se,
    ],
    fisher_exact: [lambda: fisher_exact(0, 0, 1, 2), lambda: fisher_exact(1, 2, 0, 0)],
    fixed_stderr: [lambda: fixed_stderr([]), lambda: fixed_stderr([0.1, None])],
    james_stein: [
        lambda: james_stein([], []),
        lambda: james_stein([0.1, 0.2, 0.3], [0.01] * 3),
        lambda: james_stein([0.5] * 4, [0.0] * 4),
    ],
    mean_with_stderr: [lambda: mean_with_stderr([]).value, lambda: mean_with_stderr([0.5]).se],
    pass_at_k: [lambda: pass_at_k(1, 2, 3), lambda: pass_at_k(1, 2, 0), lambda: pass_at_k(0, 0, 1)],
    pass_hat_k: [lambda: pass_hat_k(1, 2, 3), lambda: pass_hat_k(1, 2, 0), lambda: pass_hat_k(0, 0, 1)],
    percentile_bootstrap: [
        lambda: percentile_bootstrap([0.4], seed=0),
        lambda: percentile_bootstrap([0.4, 0.4], seed=0),
    ],
    planning_se: [
        lambda: planning_se(0.1, 0, 1, 1),
        lambda: planning_se(0.1, 1, 0, 1),
        lambda: planning_se(0.1, 1, 1, 0),
    ],
    sign_flip: [lambda: sign_flip([])],
    summarize: [
        lambda: summarize(NOTHING).mean,
        lambda: summarize(ONE).se,
        lambda: summarize(ALIKE).fixed_se,
        lambda: summarize(_measure()).coverage,
        lambda: summarize(ONE).pass_k.get(3),
        lambda: summarize(ONE).pass_at_k.get(3),
    ],
    t_interval: [
        lambda: t_interval(None, 0.1, 3),
        lambda: t_interval(0.5, None, 3),
        lambda: t_interval(0.5, 0.1, None),
        lambda: t_interval(0.5, 0.0, 3),
        lambda: t_interval(0.5, 0.1, 0),
    ],
    t_minimal_effect: [lambda: t_minimal_effect(0.4, 1), lambda: t_minimal_effect(0.0, 20)],
    t_power: [lambda: t_power(0.1, 0.4, 1), lambda: t_power(0.1, 0.0, 20)],
    task_stats: [lambda: task_stats([]).value, lambda: task_stats([]).se, lambda: task_stats([1.0]).se],
    trials_needed: [lambda: trials_needed(0.0, 0.1, 20), lambda: trials_needed(0.1, 0.1, 0)],
    wilson: [lambda: wilson(0, 0)],
    within_task_permutation: [
        lambda: within_task_permutation([]),
        lambda: within_task_permutation([((1.0,), ()), ((), (0.0,))]),
        lambda: within_task_permutation([((0.3,), ()), ((), (0.0,))]),
    ],
}
CASES = [
    pytest.param(case, id=f"{function.__name__} {number}")
    for function, cases in UNDEFINED.items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize("case", CASES)
def test_what_is_undefined_is_none(case: Callable[[], object]):
    assert case() is None


def _can_be_none(function: Callable[..., object]) -> bool:
    returned = str(inspect.signature(function).return_annotation)
    return "None" in returned or returned in {"Estimate", "MeanEstimate", "Comparison", "Summary"}


def test_every_public_function_that_can_be_undefined_is_asked_for_it():
    public = [getattr(capevolve.stats, name) for name in capevolve.stats.__all__]
    functions = {value for value in public if inspect.isfunction(value)}
    assert {f.__name__ for f in functions if _can_be_none(f)} == {f.__name__ for f in UNDEFINED}


def _numbers(value: object) -> list[float]:
    if isinstance(value, float):
        return [value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [n for field in dataclasses.fields(value) for n in _numbers(getattr(value, field.name))]
    if isinstance(value, dict):
        return [n for inner in value.values() for n in _numbers(inner)]
    return [n for inner in value for n in _numbers(inner)] if isinstance(value, tuple | list) else []


VALUES = st.lists(
    st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0), st.floats(0.0, 1e-300)), max_size=8
)
COUNTS = st.lists(st.integers(0, 12), min_size=4, max_size=4)


@given(VALUES, VALUES, COUNTS, st.integers(-2, 14), st.lists(st.sampled_from("abc"), min_size=8, max_size=8))
@settings(deadline=None)
def test_no_function_ever_returns_what_is_not_a_number(values, others, counts, k, clusters):
    low, high = sorted(counts[:2])
    keys = clusters[: len(values)]
    ses = [other if other < 0.9 else None for other in (*others, *[0.1] * 8)][: len(values)]
    deltas = [a - b for a, b in zip(values, others, strict=False)]
    arms = [(values, others), (others[:2], values[:3])]
    results = [
        *(mean_with_stderr(values), cluster_robust(values, keys), between_variance(values, ses)),
        *(combined_stderr(values, ses), combined_stderr(values, ses, "raw"), fixed_stderr(ses)),
        *(sign_flip(deltas, draws=50), within_task_permutation(arms, draws=50), betting_e_value(deltas)),
        *(percentile_bootstrap(deltas, seed=k, resamples=20), bca_bootstrap(deltas, seed=k, resamples=20)),
        bca_bootstrap(values, seed=k, resamples=20, clusters=keys) if values else None,
        *(wilson(low, high), clopper_pearson(low, high), fisher_exact(*counts)),
        *(pass_hat_k(low, high, k), pass_at_k(low, high, k)),
        *(james_stein(values, [0.01] * len(values)), planning_se(0.2, k, low, high)),
        *(t_power(0.1, high / 10, k), trials_needed(low / 10, 0.2, k)),
        t_interval(*dataclasses.astuple(cluster_robust(values, keys))[:3]),
    ]
    assert all(math.isfinite(number) for result in results for number in _numbers(result))


def test_the_check_for_numbers_sees_into_results():
    nested = MeanEstimate(0.5, math.nan, 1, 2)
    assert any(math.isnan(n) for n in _numbers([nested, {"a": Estimate(1.0, None)}]))
