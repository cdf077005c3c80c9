"""What a wanted effect takes: trials on the tasks there are, or tasks at the trials there are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from capevolve.design import Variance


def need_of(design, name):
    return next(need for need in design.needs if need.name == name)


def test_the_trials_needed_are_those_of_the_closed_form(draw):
    """O48: 2 v (z_.95 + z_.8)^2 / (n d^2) = 3.536 for n = 50, v = 0.143, d = 0.10 (scipy)."""
    assert need_of(draw(test=50, wanted=0.1), "test").trials == 4


def test_the_tasks_needed_are_those_of_the_closed_form(draw):
    """The same solved for n at k = 3: 58.94."""
    assert need_of(draw(test=50, wanted=0.1), "test").tasks == 59


def test_a_confirmation_needs_whole_looks(draw):
    """2 v (z_.99 + z_.8)^2 / (n d^2) = 14.35 trials, in units of 1 + 1 + 2."""
    need = need_of(draw(wanted=0.1), "confirmation")
    assert (need.trials, need.unit) == (16, 4)


def test_trials_cannot_mend_a_screen_of_one_trial(draw):
    need = need_of(draw(wanted=0.1), "all_stages")
    assert need.trials is None
    assert need.tasks > 40


def test_a_margin_above_the_effect_is_never_met(draw):
    need = need_of(draw({"mode": "threshold", "threshold": 0.2}, wanted=0.1), "gate")
    assert (need.trials, need.tasks) == (None, None)


def test_the_wanted_effect_is_the_named_one_else_that_of_the_gate(draw):
    assert draw(wanted=0.07).wanted == 0.07
    assert draw({"confirm": {"effect": 0.04}}).wanted == 0.04
    assert draw("paired").wanted == 0.1


def test_what_is_unknown_needs_an_unknown_number(draw):
    need = need_of(draw(variance=Variance(), wanted=0.1), "test_new_tasks")
    assert (need.trials, need.tasks) == (None, None)
    assert "no accepted edit" in need.reason


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(8, 100),
    wanted=st.floats(0.02, 0.5),
    within=st.floats(0.01, 0.25),
    gate=st.sampled_from(["paired", "confirm"]),
)
def test_what_is_needed_finds_the_wanted_effect_and_one_less_does_not(draw, n, wanted, within, gate):
    name = "gate" if gate == "paired" else "confirmation"
    need = need_of(draw(gate, val=n, within=within, wanted=wanted), name)

    def find(val, k):
        design = draw(gate, val=val, within=within, wanted=wanted, evaluation={"num_trials": k})
        return next(effect.effect for effect in design.effects if effect.name == name)

    units = need.unit or need.trials
    assert find(n, units) <= wanted + 1e-9
    less = None if units == 1 else find(n, units - 1)
    assert less is None or less > wanted - 1e-9
    assert find(need.tasks, 3) <= wanted + 1e-9
