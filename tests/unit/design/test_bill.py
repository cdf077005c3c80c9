"""What a run costs: counted by hand."""

from __future__ import annotations

import pytest

from capevolve.design import Figure, Price


def parts_of(design):
    return {part.name: (part.least, part.most) for part in design.bill.parts}


def test_a_confirmation_costs_a_race_at_least_and_every_look_of_both_arms_at_most(draw):
    design = draw(needs_evidence=True)
    assert parts_of(design) == {
        "baseline": (60, 60),
        "train_evidence": (30, 300),
        "candidates": (10 * 10, 10 * (20 + 2 * 20 * 12)),
        "test": (60, 120),
    }
    assert (design.bill.candidate_least, design.bill.candidate_most) == (10, 500)
    assert (design.bill.least, design.bill.most) == (250, 5480)


def test_without_a_race_the_whole_screen_is_the_least(draw):
    design = draw(val=7)
    assert (design.bill.candidate_least, design.bill.candidate_most) == (7, 7 + 2 * 7 * 12)


@pytest.mark.parametrize("mode", ["paired", "significant", "strict", "threshold"])
def test_the_other_modes_evaluate_every_candidate_in_full(draw, mode):
    design = draw(mode, needs_evidence=False)
    assert parts_of(design) == {"baseline": (60, 60), "candidates": (600, 600), "test": (60, 120)}


def test_an_unknown_proposer_is_left_out_of_the_least_and_counted_in_the_most(draw):
    assert parts_of(draw(needs_evidence=None))["train_evidence"] == (0, 300)


def test_no_iterations_cost_a_baseline_and_a_test_number(draw):
    design = draw(search={"max_iterations": 0}, needs_evidence=True)
    assert parts_of(design) == {"baseline": (60, 60), "test": (60, 120)}
    assert design.gate_error is None


def test_a_stall_ends_the_search_early_at_the_least(draw):
    design = draw("paired", search={"max_iterations": 10, "stall": 3}, needs_evidence=False)
    assert parts_of(design)["candidates"] == (180, 600)


def test_an_aa_control_is_on_the_bill(draw):
    assert parts_of(draw({"mode": "confirm", "aa_control": True}))["aa_control"] == (10, 500)
    assert parts_of(draw({"mode": "paired", "aa_control": True}))["aa_control"] == (60, 60)
    assert "aa_control" not in parts_of(draw("paired"))


def test_the_seal_may_take_its_own_trials(draw):
    assert parts_of(draw(seal={"num_trials": 5}))["test"] == (100, 200)


def test_an_unknown_price_stays_unknown(draw):
    bill = draw().bill
    assert bill.seconds is None
    assert bill.usd is None


def test_time_is_shared_by_the_trials_that_run_at_once_and_money_is_not(draw):
    price = Price(Figure(2.0, "stated"), Figure(0.5, "measured", "r1"))
    bill = draw(price=price, needs_evidence=True).bill
    assert (bill.seconds.least, bill.seconds.most) == (250 * 2 / 4, 5480 * 2 / 4)
    assert (bill.usd.least, bill.usd.most) == (125.0, 2740.0)


def test_a_price_of_nothing_is_nothing_not_unknown(draw):
    assert draw(price=Price(usd=Figure(0.0, "measured", "r1"))).bill.usd.most == 0.0
