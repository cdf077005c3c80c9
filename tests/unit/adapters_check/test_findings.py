"""What the replies to a check's calls prove; pure."""

from __future__ import annotations

import json

import pytest

from capevolve.adapters.alteration import MARK, Alteration, AlteredTrial, judge_use
from capevolve.adapters.findings import (
    Examination,
    Level,
    judge_feedback,
    judge_rewards,
    judge_scorer,
    judge_seed,
    judge_traces,
)
from capevolve.adapters.records import ListedTask, TrialReply
from capevolve.canonical import canonical_json, digest
from capevolve.model import Reason, Scored, Unmeasured


def task(target, given="a question") -> ListedTask:
    content = {"input": given, "target": target, "metadata": {}}
    return ListedTask("t", digest(content), canonical_json(content), None)


def reply(output=None, outcome=None, feedback="", cost=None, **payload) -> TrialReply:
    text = json.dumps({"output": output, **payload})
    return TrialReply(0, outcome or Scored(0.5), feedback, (), text, cost, None, 0.0)


@pytest.mark.parametrize(
    ("outputs", "reads", "words", "level"),
    [
        ((1, 1, 1), True, "two seeds gave the same output", Level.WARNING),
        ((1, 1, 1), False, "never looks at `seed`", Level.WARNING),
        ((1, 1, 2), True, "the seed is forwarded", Level.PROOF),
        ((1, 2, 3), True, "cannot be repeated", Level.WARNING),
        ((1, 2, 1), True, "cannot be repeated", Level.WARNING),
        ((1, 2, 3), False, "never looks at `seed`", Level.PROBLEM),
        (({"a": 1, "b": 2}, {"b": 2, "a": 1}, 3), True, "the seed is forwarded", Level.PROOF),
    ],
)
def test_what_three_outputs_say_of_the_seed(outputs, reads, words, level):
    finding = judge_seed(outputs, reads_seed=reads, deterministic=False)
    assert words in finding.what
    assert finding.level is level
    assert (finding.fix is None) == (level is Level.PROOF)


@pytest.mark.parametrize(
    ("outputs", "level"),
    [((1, 1, 1), Level.PROOF), ((1, 1, 2), Level.PROBLEM), ((1, 2, 1), Level.PROBLEM)],
)
def test_a_declaration_silences_the_doubt_and_is_held_to(outputs, level):
    for reads in (True, False):
        assert judge_seed(outputs, reads_seed=reads, deterministic=True).level is level


@pytest.mark.parametrize("declared", [True, False])
def test_no_output_proves_nothing_of_the_seed(declared):
    assert judge_seed([None] * 3, reads_seed=False, deterministic=declared).level is Level.NOTE


@pytest.mark.parametrize(
    ("rewards", "words"),
    [((0.0, 0.0), "every reward was 0"), ((1.0, 1.0), "every reward was 1"), ((0.0, 1.0), ""), ((0.5,), "")],
)
def test_rewards_without_room_are_noted(rewards, words):
    notes = [
        f.what
        for f in judge_rewards("t", [reply(outcome=Scored(r), cost=0.0) for r in rewards])
        if f.level is Level.NOTE
    ]
    assert len(notes) == bool(words)
    assert all(words in note for note in notes)


def test_a_cost_that_is_reported_once_is_no_warning():
    def warned(replies):
        return any(f.level is Level.WARNING for f in judge_rewards("t", replies))

    assert not warned([reply(cost=0.0), reply(), reply()])
    assert warned([reply(), reply()])


@pytest.mark.parametrize(
    ("target", "feedback", "leaks"),
    [
        ("Paris", "Expected Paris.", True),
        ("Paris", "expected  PARIS, not Rome", True),
        ("New York  City", "it was: new york\ncity!", True),
        ("ﬁrst", "the FIRST one", True),  # a ligature
        ("Paris", "Parisian food is not a city", False),
        ("Paris", "wrong city", False),
        ("Paris", "asked on Comparis", False),
        (1234, "expected 1234", True),
        (1234, "expected 12345", False),
        (12.25, "expected 12.25", True),
        ({"city": "Lyon"}, "the key city is wrong", False),
        ({"city": "Lyon"}, "city should be Lyon", True),
        (["alpha", "omega"], "omega is missing", True),
        ("yes", "expected yes", False),
        (None, "expected None", False),
    ],
)
def test_feedback_that_tells_the_target(target, feedback, leaks):
    found = judge_feedback(task(target), [reply(feedback=feedback)])
    assert any(f.level is Level.WARNING for f in found) == leaks
    assert any("does not tell" in f.what for f in found) == (not leaks and target not in ("yes", None))


def test_feedback_on_an_answer_that_holds_the_target_tells_nothing():
    right = reply("it is Paris", feedback="Paris is right")
    assert all(f.level is not Level.WARNING for f in judge_feedback(task("paris"), [right]))


def test_what_is_not_looked_for_is_said():
    (short,) = judge_feedback(task("yes"), [])
    assert "too short" in short.what
    (given,) = judge_feedback(task("billing", "choose: billing, sales"), [reply(feedback="billing or sales")])
    assert "in the task's input anyway" in given.what


@pytest.mark.parametrize("where", ["trace", "tool_calls"])
def test_a_trace_that_holds_the_target_of_a_wrong_answer_is_a_doubt(where):
    asked = task("Bordeaux")
    (finding,) = judge_traces(asked, [reply("Lyon", **{where: [{"prompt": "The answer is bordeaux."}]})])
    assert finding.level is Level.WARNING
    assert judge_traces(asked, [reply("Bordeaux", **{where: ["so Bordeaux"]})]) == []
    assert judge_traces(asked, [reply("Lyon", **{where: ["so Lyon"]})]) == []


def examine(**parts) -> list[str]:
    found = judge_scorer(
        Examination(**{"again": (), "truth": None, "empty": None, "nonsense": None, **parts})
    )
    return [f"{f.level}: {f.what}" for f in found]


def test_a_scorer_is_random_when_any_of_the_repeats_shows_it():
    same, other = (Scored(0.5), Scored(0.5)), (Scored(0.5), Scored(0.25))
    assert examine(again=(same, same, other)) == ["problem: the scorer gave the same rollout 0.5 and 0.25"]
    assert examine(again=(same,))[0].startswith("proof")
    gone = (Scored(0.5), Unmeasured(Reason.SCORER_ERROR, "x"))
    assert examine(again=(gone,)) == ["problem: the scorer gave the same rollout 0.5 and scorer_error"]
    assert examine() == []


def test_the_true_answer_should_score_1_where_it_is_an_answer():
    assert examine(truth=reply(outcome=Scored(1.0)))[0].startswith("proof")
    assert examine(truth=reply(outcome=Scored(0.5)))[0].startswith("note: the task's target, given as the")
    assert examine(truth=reply(outcome=Unmeasured(Reason.SCORER_ERROR, "x"))) == []


REPEATING = [reply("a"), reply("a"), reply("b")]
VARYING = [reply("a"), reply("b"), reply("c")]


@pytest.mark.parametrize(
    ("replies", "touched", "altered", "level"),
    [
        (REPEATING, False, AlteredTrial(Alteration.EMPTIED, reply("z")), Level.PROOF),
        (REPEATING, True, AlteredTrial(Alteration.EMPTIED, reply("a")), Level.WARNING),
        (REPEATING, False, AlteredTrial(Alteration.EMPTIED, reply("a")), Level.PROBLEM),
        (REPEATING, False, AlteredTrial(Alteration.EMPTIED, refusal="no"), Level.PROOF),
        (REPEATING, True, AlteredTrial(Alteration.EMPTIED), Level.NOTE),
        (REPEATING, False, AlteredTrial(Alteration.EMPTIED), Level.PROBLEM),
        (REPEATING, True, None, Level.NOTE),
        (REPEATING, False, None, Level.PROBLEM),
        (VARYING, True, AlteredTrial(Alteration.MARKED, reply("d")), Level.NOTE),
        (VARYING, False, AlteredTrial(Alteration.MARKED, reply("d")), Level.PROBLEM),
        (VARYING, False, AlteredTrial(Alteration.MARKED, reply("d", trace=[f"read {MARK}"])), Level.PROOF),
    ],
)
def test_what_is_proved_of_the_candidates_way_to_the_target(replies, touched, altered, level):
    assert judge_use(replies, touched=touched, altered=altered).level is level


@pytest.mark.parametrize(("reason", "level"), [(Reason.TIMEOUT, Level.NOTE), (Reason.INFRA, Level.PROOF)])
def test_a_trial_that_was_not_heard_out_proves_nothing(reason, level):
    failed = AlteredTrial(Alteration.EMPTIED, reply(outcome=Unmeasured(reason, "x")))
    assert judge_use(REPEATING, touched=True, altered=failed).level is level
