"""The rule of each mode: bars, ties and what decides where the error is 0."""

from __future__ import annotations

import pytest

from capevolve.gate import MODES, GateSettings, judge
from capevolve.model import Decision, Reason

ACCEPT, REJECT, INDECISIVE = Decision.ACCEPT, Decision.REJECT, Decision.INDECISIVE


@pytest.fixture
def judge_deltas(measure):
    """Judges tasks whose paired deltas are given; the incumbent scores `base` on all of them."""

    def run(deltas, *, base: float = 0.0, clusters=None, **settings):
        ids = [f"t{i:02d}" for i in range(len(deltas))]
        named = dict(zip(ids, clusters, strict=True)) if clusters else None
        candidate = measure({i: [base + d] for i, d in zip(ids, deltas, strict=True)}, named)
        return judge(candidate, measure({key: [base] for key in ids}, named), GateSettings(**settings))

    return run


MIXED = [0.5, 0.25, -0.25, 0.5, 0.0, 0.25, 0.0, 0.25]


def test_paired_compares_with_the_error_of_the_paired_deltas(judge_deltas):
    verdict = judge_deltas(MIXED, base=0.5)
    assert (verdict.decision, verdict.rule) == (ACCEPT, "paired")
    assert verdict.delta == pytest.approx(0.1875)
    assert verdict.se == pytest.approx(0.09149, abs=1e-5)
    assert (verdict.n, verdict.improved, verdict.worse, verdict.same) == (8, 5, 1, 2)
    assert verdict.reason == (
        "mean paired delta +0.188 exceeds 1.08 x SE 0.091 (k_se 1 carried over to Student's t) "
        "over 8 tasks (5 better, 1 worse, 2 same)"
    )


def test_k_se_is_really_used(judge_deltas):
    # delta / SE is 2.05.
    assert judge_deltas(MIXED, base=0.5, k_se=2.0, multiplier="normal").decision is ACCEPT
    verdict = judge_deltas(MIXED, base=0.5, k_se=2.1, multiplier="normal")
    assert verdict.decision is REJECT
    assert "does not exceed 2.10 x SE" in verdict.reason


@pytest.mark.parametrize(("n", "least", "most"), [(3, 1.3, 1.35), (30, 1.01, 1.03)])
def test_the_bar_is_wider_where_few_tasks_estimate_the_error(judge_deltas, n: int, least: float, most: float):
    deltas = [0.5, 0.25, 0.0] * (n // 3)
    by_t, by_normal = judge_deltas(deltas), judge_deltas(deltas, multiplier="normal")
    assert by_normal.bar == pytest.approx(by_normal.se)
    assert least < by_t.bar / by_normal.bar < most


def test_the_bar_is_never_below_k_se_times_the_error(judge_deltas):
    assert judge_deltas(MIXED, base=0.5, k_se=0.0).bar == 0.0
    for k in (0.2, 1.0, 3.0, 8.0):
        verdict = judge_deltas(MIXED, base=0.5, k_se=k)
        assert verdict.bar >= k * verdict.se


@pytest.mark.parametrize("size", [0.1, 0.3, 1 / 3, 1.0])
@pytest.mark.parametrize("multiplier", ["t", "normal"])
@pytest.mark.parametrize("mode", ["paired", "significant"])
def test_one_winner_is_rejected_at_every_size_although_its_delta_equals_its_error(
    judge_deltas, mode: str, multiplier: str, size: float
):
    for n in range(2, 61):
        for base in (0.0, 0.6):
            if base + size <= 1.0:
                verdict = judge_deltas([size] + [0.0] * (n - 1), base=base, mode=mode, multiplier=multiplier)
                assert verdict.decision is REJECT, (n, base)
                if multiplier == "normal":
                    assert "only equals" in verdict.reason


@pytest.mark.parametrize("size", [0.1, 0.3, 1 / 3, 1.0])
def test_a_gain_that_equals_the_margin_is_rejected_at_every_size(judge_deltas, size: float):
    for n in range(2, 61):
        deltas = [size] + [0.0] * (n - 1)
        verdict = judge_deltas(deltas, mode="threshold", threshold=size / n)
        assert verdict.decision is REJECT, n
        assert "only equals" in verdict.reason
        above = judge_deltas(deltas, mode="threshold", threshold=size / n - 1e-6)
        assert above.decision is ACCEPT, n


def test_the_margin_of_threshold_is_really_used(judge_deltas):
    assert judge_deltas([0.25] * 4, mode="threshold", threshold=0.2).decision is ACCEPT
    verdict = judge_deltas([0.25] * 4, mode="threshold", threshold=0.3)
    assert (verdict.decision, verdict.rule, verdict.bar) == (REJECT, "threshold", 0.3)
    assert verdict.reason == (
        "mean paired delta +0.250 does not exceed 0.300 over 4 tasks (4 better, 0 worse, 0 same); "
        "SE is 0; mode threshold asks for no error"
    )


def test_strict_accepts_any_gain_and_no_tie(judge_deltas):
    verdict = judge_deltas([0.01, 0.0, 0.0], mode="strict")
    assert (verdict.decision, verdict.rule) == (ACCEPT, "strict")
    assert "mode strict asks for no error" in verdict.reason
    assert judge_deltas([0.0, 0.1, -0.1], base=0.5, mode="strict").decision is REJECT
    # Sums to 0, or to 5e-17 with naive rounding.
    assert judge_deltas([0.1, 0.2, -0.3], base=0.5, mode="strict").decision is REJECT


@pytest.mark.parametrize("mode", ["paired", "significant"])
def test_a_constant_gain_without_error_is_decided_by_the_exact_test(judge_deltas, mode: str):
    # 2^-2 is above the level of k_se = 1, which is .159; 2^-3 is within it.
    two, three = judge_deltas([0.1] * 2, mode=mode), judge_deltas([0.1] * 3, mode=mode)
    assert (two.decision, two.rule, two.p_value) == (REJECT, "sign_flip", 0.25)
    assert (three.decision, three.rule, three.p_value) == (ACCEPT, "sign_flip", 0.125)
    assert two.bar is None
    assert f"SE 0, so the exact sign-flip test decided instead of mode {mode}: p 0.125" in three.reason
    assert judge_deltas([0.1] * 3, mode=mode, k_se=2.0).decision is REJECT
    assert judge_deltas([0.1] * 6, mode=mode, k_se=2.0).decision is ACCEPT


@pytest.mark.parametrize("mode", list(MODES))
def test_no_change_at_all_is_rejected(measure, mode: str):
    for k in (0.0, 1.0):
        same = measure({f"t{i}": [i / 8] for i in range(8)})
        assert judge(same, same, GateSettings(mode=mode, k_se=k)).decision is REJECT


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("reward", [0.0, 0.7, 1.0])
def test_a_val_whose_every_trial_scores_the_same_is_indecisive_and_shows_no_delta(
    judge_deltas, mode: str, reward: float
):
    verdict = judge_deltas([0.0] * 8, base=reward, mode=mode)
    assert (verdict.decision, verdict.rule) == (INDECISIVE, "no_variation")
    assert "cannot tell candidates apart" in verdict.reason
    assert (verdict.delta, verdict.se, verdict.p_value) == (None, None, None)


def test_the_first_edition_of_the_rules_rejected_without_variation(judge_deltas):
    assert judge_deltas([0.0] * 8, edition=1).decision is REJECT


@pytest.mark.parametrize("mode", list(MODES))
def test_a_constant_loss_without_error_is_rejected(judge_deltas, mode: str):
    assert judge_deltas([-0.1] * 8, base=0.7, mode=mode).decision is REJECT


def test_significant_uses_the_unpaired_errors(measure):
    # Every task gains .1, so the paired deltas have no error to speak of; the means have.
    rewards = [0.0, 0.2, 0.4, 0.6, 0.8]
    candidate = measure({f"t{i}": [r + 0.1 + i % 2 * 0.001] for i, r in enumerate(rewards)})
    incumbent = measure({f"t{i}": [r] for i, r in enumerate(rewards)})
    assert judge(candidate, incumbent, GateSettings(mode="paired")).decision is ACCEPT
    verdict = judge(candidate, incumbent, GateSettings(mode="significant", multiplier="normal"))
    assert verdict.decision is REJECT
    assert verdict.se == pytest.approx((2 * 0.1 / 5) ** 0.5, abs=1e-3)
    assert verdict.reason.startswith("difference of means +0.100 does not exceed 1.00 x SE 0.200")


def test_clusters_and_not_tasks_carry_the_error(judge_deltas):
    deltas = [0.5, 0.5, 0.5, 0.5, -0.25, -0.25, -0.25, -0.25]
    alone = judge_deltas(deltas, base=0.5)
    together = judge_deltas(deltas, base=0.5, clusters=list("aaaabbbb"))
    assert alone.decision is REJECT
    assert together.se > 1.9 * alone.se
    assert "over 8 tasks in 2 clusters (4 better, 4 worse, 0 same)" in together.reason


@pytest.mark.parametrize("mode", ["paired", "significant"])
def test_one_cluster_is_indecisive_where_an_error_is_asked_for(judge_deltas, mode: str):
    verdict = judge_deltas([0.5, 0.25, 0.5], clusters=list("aaa"), mode=mode)
    assert (verdict.decision, verdict.rule) == (INDECISIVE, "clusters")
    assert "one cluster" in verdict.reason


def test_the_exact_test_flips_whole_clusters(judge_deltas):
    # Six tasks would give 2^-6; their two clusters give 2^-2, above the level.
    verdict = judge_deltas([0.1] * 6, clusters=list("aaabbb"))
    assert (verdict.decision, verdict.p_value) == (REJECT, 0.25)


def test_a_lower_mean_is_not_accepted_because_the_tasks_in_common_gained(measure):
    # Both errors are 0 over clusters, and the two tasks that the incumbent has gained .1 each.
    clusters = dict(zip("abcd", "xxyy", strict=True))
    candidate = measure({"a": [1.0], "b": [0.0], "c": [1.0], "d": [0.0]}, clusters)
    incumbent = measure({"a": [0.9], "b": [Reason.INFRA], "c": [0.9], "d": [Reason.INFRA]}, clusters)
    verdict = judge(candidate, incumbent, GateSettings(mode="significant", k_se=0.5, min_coverage=0.5))
    assert (verdict.decision, verdict.rule) == (REJECT, "sign_flip")
    assert verdict.delta == pytest.approx(-0.4)
