"""What the gate modes cost."""

from __future__ import annotations

import pytest

from capevolve.gate import GateSettings, chance_of_any_false_accept, false_accept_rate
from capevolve.gate.confirm.profile import PROFILES, ConfirmProfile
from capevolve.gate.disclosure import describe_error
from capevolve.gate.error_table import ErrorCell, read_error_table

STRICT = GateSettings(mode="strict")
MARGIN = GateSettings(mode="threshold", threshold=0.05)
CONFIRM = GateSettings(mode="confirm", confirm=PROFILES["default"])


def cell(mode: str, n_tasks: int, num_trials: int) -> ErrorCell:
    (found,) = [
        c
        for c in read_error_table().cells
        if (c.mode, c.n_tasks, c.num_trials) == (mode, n_tasks, num_trials)
    ]
    return found


def test_one_look_costs_what_the_level_of_k_se_says():
    assert false_accept_rate(GateSettings()) == pytest.approx(0.1587, abs=1e-4)
    assert false_accept_rate(GateSettings(mode="significant", k_se=1.645)) == pytest.approx(0.05, abs=1e-4)
    assert false_accept_rate(STRICT) == 0.5


def test_a_margin_costs_what_nobody_knows_before_the_noise():
    assert false_accept_rate(MARGIN) is None
    assert chance_of_any_false_accept(MARGIN, 10) is None
    assert chance_of_any_false_accept(MARGIN, 10, 50, 3) is None
    assert false_accept_rate(GateSettings(mode="threshold")) == 0.5


def test_a_run_of_ten_and_of_twenty_costs_what_simulation_found():
    assert 0.53 < chance_of_any_false_accept(GateSettings(), 10) < 0.56
    assert 0.64 < chance_of_any_false_accept(GateSettings(), 20) < 0.67


def test_one_candidate_costs_one_look_and_none_cost_nothing():
    assert chance_of_any_false_accept(GateSettings(), 1) == pytest.approx(false_accept_rate(GateSettings()))
    assert chance_of_any_false_accept(GateSettings(), 0) == pytest.approx(0.0, abs=1e-12)
    assert chance_of_any_false_accept(GateSettings(), 0, 50, 3) == 0.0


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000])
def test_strict_accepts_unless_the_incumbent_is_luckiest_of_all(n: int):
    assert chance_of_any_false_accept(STRICT, n) == pytest.approx(n / (n + 1), abs=1e-6)


def test_the_table_says_what_made_it_and_covers_its_grid():
    table = read_error_table()
    assert (table.source, table.k_se) == ("benchmarks/gate_table.py", 1.0)
    assert table.runs >= 1000
    grid = {
        (mode, n, k)
        for mode in ("paired", "significant", "strict")
        for n in (10, 20, 50, 100, 300)
        for k in (1, 3, 5)
    }
    assert {(c.mode, c.n_tasks, c.num_trials) for c in table.cells} == grid
    assert len(table.cells) == len(grid)
    assert all(c.candidates == (1, 5, 10, 20, 40) for c in table.cells)


def test_more_candidates_never_cost_less():
    for known in read_error_table().cells:
        assert list(known.chances) == sorted(known.chances)
        assert known.chances[0] >= 0.0 and known.chances[-1] <= 1.0
    costs = [chance_of_any_false_accept(GateSettings(), count, 50, 3) for count in (*range(45), 60, 100, 200)]
    assert costs == sorted(costs)
    assert costs[-1] < 1.0


def test_twenty_edits_without_effect_pass_paired_in_two_runs_of_three():
    assert 0.60 < cell("paired", 50, 3).chances[3] < 0.70
    assert chance_of_any_false_accept(GateSettings(), 20, 50, 3) == cell("paired", 50, 3).chances[3]


def test_strict_ties_on_few_trials_so_it_costs_less_than_the_approximation_says():
    assert chance_of_any_false_accept(STRICT, 1, 10, 1) < 0.47
    margin_of_nothing = GateSettings(mode="threshold")
    assert chance_of_any_false_accept(margin_of_nothing, 7, 10, 1) == chance_of_any_false_accept(
        STRICT, 7, 10, 1
    )


@pytest.mark.parametrize(("n", "k", "nearest"), [(2, 1, (10, 1)), (31, 2, (20, 3)), (32, 9, (50, 5))])
def test_the_cell_is_the_nearest_by_ratio(n: int, k: int, nearest: tuple[int, int]):
    found = read_error_table().find_nearest("paired", n, k)
    assert found is not None
    assert (found.n_tasks, found.num_trials) == nearest


def test_between_two_numbers_of_candidates_the_chance_is_linear_in_their_logarithm():
    known = ErrorCell("paired", 50, 3, (1, 4, 16), (0.1, 0.3, 0.9))
    assert known.interpolate(4) == 0.3
    assert known.interpolate(2) == pytest.approx(0.2)
    assert known.interpolate(8) == pytest.approx(0.6)
    assert known.interpolate(99) == 0.9


def test_another_k_se_or_multiplier_is_approximated_since_it_was_not_simulated():
    for settings in (GateSettings(k_se=2.0), GateSettings(multiplier="normal")):
        assert chance_of_any_false_accept(settings, 20, 50, 3) == chance_of_any_false_accept(settings, 20)
    assert chance_of_any_false_accept(GateSettings(), 20, 50) == chance_of_any_false_accept(
        GateSettings(), 20
    )


def test_confirm_has_a_bound_for_the_run_and_no_rate_of_one_look():
    assert false_accept_rate(CONFIRM) is None
    assert chance_of_any_false_accept(CONFIRM, 1) == 0.20
    assert chance_of_any_false_accept(CONFIRM, 500, 50, 3) == 0.20
    strict = GateSettings(mode="confirm", confirm=PROFILES["strict"])
    assert chance_of_any_false_accept(strict, 20, 50, 3) == 0.05


def test_a_run_starts_with_one_sentence_on_what_its_gate_costs():
    share = round(100 * cell("paired", 50, 3).chances[3])
    assert describe_error(GateSettings(), 20, 60, 3) == (
        "gate paired: if all 20 edits changed nothing, one would still be accepted with a chance of "
        f"{share} % (simulated at 50 tasks x 3 trials)"
    )
    assert describe_error(GateSettings(k_se=2.0), 1, 60, 3) == (
        "gate paired: if the one edit changed nothing, it would still be accepted with a chance of "
        "2 % (approximated)"
    )
    assert describe_error(STRICT, 1000, 50, 1).endswith("more than 99 % (simulated at 50 tasks x 1 trial)")
    assert describe_error(MARGIN, 20, 50, 3) == (
        "gate threshold: how often an edit that changes nothing is accepted depends on the noise of val"
    )


def test_a_confirmed_run_starts_with_its_bound():
    assert describe_error(CONFIRM, 20, 50, 3) == (
        "gate confirm: the chance that any edit that changes nothing is accepted is at most 20 % "
        "over the whole run (8 failed confirmations)"
    )
    once = GateSettings(mode="confirm", confirm=ConfirmProfile(alpha_run=0.025, max_failed_confirmations=1))
    assert describe_error(once, 20, 50, 3).endswith(
        "at most 2.5 % over the whole run (1 failed confirmation)"
    )
