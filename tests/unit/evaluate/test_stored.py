"""What of a stored rollout a scorer can be asked about again."""

from __future__ import annotations

import json

import pytest

from capevolve.adapters.payload import render_payload
from capevolve.evaluate.stored import Failed, Unfit, read_stored
from capevolve.ledger.trials import TrialRow
from capevolve.model import Reason, Scored, Unmeasured

FIELDS = {"output": "x", "trace": [1], "tool_calls": [], "error": None, "metadata": {"a": 1}}


def row(outcome=None, calls=1, interrupted=0):
    return TrialRow("t", 0, 7, outcome, 1, 1, calls, interrupted, 1.0, 0.5, 12)


def read(outcome, fields=None, **values):
    return read_stored(row(outcome, **values), render_payload(FIELDS if fields is None else fields))


def test_a_scored_rollout_is_handed_back_as_it_was():
    assert read(Scored(0.5)) == {**FIELDS, "cost_usd": 0.5, "tokens": 12}


def test_the_cost_of_several_calls_is_not_taken_for_that_of_one():
    stored = read(Scored(0.5), calls=2)
    assert (stored["cost_usd"], stored["tokens"]) == (None, None)
    assert read(Scored(0.5), calls=2, interrupted=1)["cost_usd"] == 0.5


@pytest.mark.parametrize("reason", [Reason.SCORER_ERROR, Reason.INVALID_SCORE])
def test_a_rollout_that_the_old_scorer_could_not_score_is_asked_about_without_the_scorers_error(reason):
    stored = read(Unmeasured(reason, "boom"), {**FIELDS, "error": "boom", "traceback": "..."})
    assert (stored["output"], stored["error"]) == ("x", None)


@pytest.mark.parametrize("reason", [Reason.INFRA, Reason.CRASH, Reason.TIMEOUT, Reason.INTERRUPTED])
def test_where_the_target_did_not_finish_there_is_nothing_to_score(reason):
    assert read(Unmeasured(reason)) is None
    assert read(None) is None


def test_an_agents_failure_is_0_under_any_scorer():
    assert read(Scored(0.0), {**FIELDS, "output": None, "traceback": "AgentFailure"}) == Failed()


def test_an_output_of_none_that_was_scored_is_scored_again():
    assert read(Scored(0.0), {**FIELDS, "output": None})["output"] is None


@pytest.mark.parametrize("field", ["output", "trace", "metadata", "tool_calls"])
def test_a_field_that_was_cut_when_it_was_stored_is_not_guessed(field):
    payload = render_payload({**FIELDS, field: ["long"] * 1000}, limit=2000)
    assert json.loads(payload)[field]["truncated"] is True
    assert read_stored(row(Scored(1.0)), payload) is Unfit.TRUNCATED


def test_an_output_that_only_looks_cut_in_part_is_not_taken_for_cut():
    assert read(Scored(1.0), {**FIELDS, "output": {"truncated": True}})["output"] == {"truncated": True}


@pytest.mark.parametrize(
    ("payload", "unfit"),
    [("{}", Unfit.NO_OUTPUT), ('{"error":"x"}', Unfit.NO_OUTPUT), ("[", Unfit.UNREADABLE), ("[]", Unfit.UNREADABLE),
     ("[" * 200_000, Unfit.UNREADABLE)],
)  # fmt: skip
def test_a_payload_without_an_output_is_named(payload, unfit):
    assert read_stored(row(Scored(1.0)), payload) is unfit
