"""What the uncontrolled modes cost."""

from __future__ import annotations

import pytest

from capevolve.gate import GateSettings, chance_of_any_false_accept, false_accept_rate

STRICT = GateSettings(mode="strict")


def test_one_look_costs_what_the_level_of_k_se_says():
    assert false_accept_rate(GateSettings()) == pytest.approx(0.1587, abs=1e-4)
    assert false_accept_rate(GateSettings(mode="significant", k_se=1.645)) == pytest.approx(0.05, abs=1e-4)
    assert false_accept_rate(STRICT) == 0.5


def test_a_margin_costs_what_nobody_knows_before_the_noise():
    margin = GateSettings(mode="threshold", threshold=0.05)
    assert false_accept_rate(margin) is None
    assert chance_of_any_false_accept(margin, 10) is None
    assert false_accept_rate(GateSettings(mode="threshold")) == 0.5


def test_a_run_of_ten_and_of_twenty_costs_what_simulation_found():
    assert 0.53 < chance_of_any_false_accept(GateSettings(), 10) < 0.56
    assert 0.64 < chance_of_any_false_accept(GateSettings(), 20) < 0.67


def test_one_candidate_costs_one_look_and_none_cost_nothing():
    assert chance_of_any_false_accept(GateSettings(), 1) == pytest.approx(false_accept_rate(GateSettings()))
    assert chance_of_any_false_accept(GateSettings(), 0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000])
def test_strict_accepts_unless_the_incumbent_is_luckiest_of_all(n: int):
    assert chance_of_any_false_accept(STRICT, n) == pytest.approx(n / (n + 1), abs=1e-6)
