"""Each scorer: what passes, what does not, and that feedback tells no target unless asked to."""

from __future__ import annotations

import asyncio
import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from capevolve.adapters.ready.scoring import Scorer, find_fault, judge
from capevolve.adapters.ready.texts import find_object, has_subset, is_equal, last_number
from capevolve.errors import AdapterError
from capevolve.model import Score, Task
from capevolve.spec.ready import ScoringSpec

SPEC = TypeAdapter(ScoringSpec)


def spec_of(value):
    return SPEC.validate_python(value)


def reward(scoring, target, answer):
    spec = spec_of(scoring)
    assert find_fault(spec, target) is None
    return judge(spec, target, answer)[0]


NO_CASE = {"kind": "exact", "ignore_case": True}
GROUP = {"kind": "regex", "pattern": r"answer: (\w+)"}


@pytest.mark.parametrize(
    ("scoring", "target", "answer", "expected"),
    [
        ("exact", "Yes", "Yes", 1),
        ("exact", "Yes", "  Yes\r\n", 1),
        ("exact", "Yes", "yes", 0),
        ("exact", "Yes", "Yes.", 0),
        ("exact", "a b", "a  b", 0),
        ("exact", "caf\u00e9", "cafe\u0301", 1),
        (NO_CASE, "Straße", "STRASSE", 1),
        ("exact", 3, "3", 1),
        ("exact", True, "true", 1),
        ("exact", 3.5, 3.5, 1),
        ("exact", ["yes", "y", 1], "y", 1),
        ("exact", ["yes", "y", 1], "1", 1),
        ("exact", ["yes", "y"], "no", 0),
        ("exact", "", " ", 1),
        ("contains", "Paris", "It is Paris.", 1),
        ("contains", "Paris", "It is paris.", 0),
        ({"kind": "contains", "ignore_case": True}, "Paris", "it is PARIS", 1),
        ("contains", ["Rome", "Paris"], "Paris", 1),
        ("contains", 42, "it is 42", 1),
        ("regex", r"\bcat\b", "a cat sat", 1),
        ("regex", r"\bcat\b", "a category", 0),
        ({"kind": "regex", "ignore_case": True}, r"^cat", "CAT", 1),
        (GROUP, "blue", "answer: red, no: answer: blue", 1),
        (GROUP, "red", "answer: red, no: answer: blue", 0),
        (GROUP, "blue", "blue", 0),
        (GROUP, None, "answer: any", 1),
        (GROUP, None, "any", 0),
        ({"kind": "regex", "pattern": r"\d+"}, "7", "1 and 7", 1),
        ({"kind": "regex", "pattern": r"x|(y)"}, "y", "x", 0),
        ("number", 42, "The answer is 42.", 1),
        ("number", "42", "41, no, 42", 1),
        ("number", 42, "42 or 41", 0),
        ("number", 1234.5, "$1,234.50", 1),
        ("number", -3, "x = -3", 1),
        ("number", -3, "x = \u22123", 1),
        ("number", 5, "3-5", 1),
        ("number", 1e-3, "1e-3", 1),
        ("number", 0.5, "about .5", 1),
        ("number", 1, "one", 0),
        ("number", 1.0, "1.0000009", 1),
        ("number", 1.0, "1.00001", 0),
        ({"kind": "number", "tolerance": 0.5}, 1, "1.5", 1),
        ({"kind": "number", "tolerance": 0.5}, 1, "1.51", 0),
        ({"kind": "number", "relative_tolerance": 0.1}, -100, "-110", 1),
        ({"kind": "number", "relative_tolerance": 0.1}, -100, "-111", 0),
        ("number", 5, "1e999", 0),
        ("json_subset", {"a": 1}, '{"a": 1, "b": 2}', 1),
        ("json_subset", {"a": 1}, '{"a": 1.0}', 1),
        ("json_subset", {"a": 1}, '{"a": true}', 0),
        ("json_subset", {"a": None}, "{}", 0),
        ("json_subset", {"a": {"b": 1}}, '{"a": {"b": 1, "c": 2}}', 1),
        ("json_subset", {"a": [1, 2]}, '{"a": [1, 2, 3]}', 0),
        ("json_subset", '{"a": 1}', 'So:\n```json\n{"a": 1}\n```\nDone {x}.', 1),
        ("json_subset", {"a": 1}, 'First {"a": 2}, then {"a": 1}!', 1),
        ("json_subset", {"a": 1}, {"a": 1}, 1),
        ("json_subset", {"a": 1, "b": 2}, '{"a": 1, "b": 3}', 0),
        ({"kind": "json_subset", "partial": True}, {"a": 1, "b": 2, "c": 3, "d": 4}, '{"a": 1, "b": 0}', 0.25),
        ({"kind": "json_subset", "partial": True}, {"a": 1}, "none", 0),
        ("json_subset", {"a": 1}, "[1]", 0),
    ],
)  # fmt: skip
def test_the_table_of_rewards(scoring, target, answer, expected):
    assert reward(scoring, target, answer) == expected


@pytest.mark.parametrize(
    ("scoring", "target", "fault"),
    [
        ("exact", None, "missing"),
        ("exact", {"a": 1}, "json_subset"),
        ("exact", [], "empty"),
        ("exact", ["a", None], "not of texts"),
        ("exact", ["a", ["b"]], "not of texts"),
        ("contains", " ", "every answer"),
        ("contains", ["a", ""], "every answer"),
        ("regex", "(", "not a regular expression"),
        ("regex", "", "not a regular expression"),
        ("regex", 3, "not a regular expression"),
        (GROUP, {"a": 1}, "object"),
        ("number", "about 4", "not a number"),
        ("number", "NaN", "not a number"),
        ("number", True, "not a number"),
        ("number", 10**400, "not a number"),
        ("json_subset", {}, "at least one key"),
        ("json_subset", "[1]", "JSON object"),
        ("json_subset", None, "JSON object"),
    ],
)
def test_a_target_that_a_rule_cannot_compare_with_is_refused_without_naming_it(scoring, target, fault):
    with pytest.raises(AdapterError, match=fault) as caught:
        Scorer(spec_of(scoring)).check(Task("t1", target=target))
    assert "'t1'" in caught.value.what


SECRETS = [
    ("exact", "azure", "blue"),
    ("exact", "azure", ""),
    ("exact", "azure", "it is azure"),
    ("exact", "azure", "AZURE"),
    ("contains", "azure", "blue"),
    ("regex", "az+ure", "blue"),
    (GROUP, "azure", "answer: blue"),
    (GROUP, "azure", "blue"),
    ("number", 77, "78"),
    ("number", 77, "none"),
    ("json_subset", {"color": "azure"}, '{"color": "blue"}'),
    ("json_subset", {"color": "azure"}, "blue"),
]


@pytest.mark.parametrize(("scoring", "target", "answer"), SECRETS)
def test_feedback_says_what_is_wrong_and_names_the_target_only_when_asked_to(scoring, target, answer):
    secret = str(target["color"] if isinstance(target, dict) else target)
    task = Task("t", target=target)
    score = Scorer(spec_of(scoring)).score(task, answer)
    assert score.reward == 0
    assert score.feedback
    assert secret not in score.feedback
    told = {**(scoring if isinstance(scoring, dict) else {"kind": scoring}), "show_expected": True}
    assert secret in Scorer(spec_of(told)).score(task, answer).feedback


def test_an_answer_that_is_right_needs_no_feedback():
    assert Scorer(spec_of("exact")).score(Task("t", target="a"), "a") == Score("t", 1.0, "")


def test_partial_feedback_names_the_keys_that_are_missing_and_wrong():
    score = Scorer(spec_of("json_subset")).score(
        Task("t", target={"a": 1, "b": 2, "c": 3}), '{"a": 1, "b": 9}'
    )
    assert score.feedback == "Keys of the JSON object missing: c; wrong: b."


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (0.5, Score("t", 0.5)),
        (True, Score("t", True)),
        ((0.25, "why"), Score("t", 0.25, "why")),
        (Score("t", 0.75, "own"), Score("t", 0.75, "own")),
        (None, Score("t", None)),
        (7.0, Score("t", 7.0)),
    ],
)
def test_a_function_returns_a_number_a_pair_or_a_score_and_nothing_is_mended(returned, expected):
    spec = spec_of({"kind": "python", "function": "s:score"})
    assert Scorer(spec, lambda task, answer: returned).score(Task("t"), "x") == expected

    async def later(task, answer):
        return returned

    waiting = Scorer(spec, later).score(Task("t"), "x")
    assert inspect.isawaitable(waiting)
    assert asyncio.run(_wait(waiting)) == expected


async def _wait(value):
    return await value


def test_rules_without_need_of_a_target_say_so():
    needs = {name: Scorer(spec_of(name)).needs_target for name in ("exact", "contains", "regex", "number")}
    assert all(needs.values())
    assert not Scorer(spec_of(GROUP)).needs_target
    assert not Scorer(spec_of({"kind": "python", "function": "s:score"}), print).needs_target


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON, min_size=1, max_size=4)


@given(st.text(alphabet=st.characters(max_codepoint=126), min_size=1).filter(str.strip))
def test_a_text_is_exactly_itself_and_contained_in_more_text(text):
    assert reward("exact", text, f" {text}\n") == 1
    assert reward("contains", text, f"say: {text} so") == 1
    assert reward("exact", text, f"{text} so") == 0


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(alphabet="abc ,:\n"))
def test_a_number_is_found_at_the_end_of_any_words(number, words):
    assert reward("number", number, f"{words} {number!r}") == 1
    assert reward("number", number, f"1 {words} 2 {number!r} {words}") == 1


@given(st.text())
def test_any_text_has_a_finite_last_number_or_none(text):
    value = last_number(text)
    assert value is None or value - value == 0


@given(OBJECTS, OBJECTS)
def test_an_object_has_every_subset_of_itself(wanted, more):
    found = {**more, **wanted}
    assert has_subset(found, wanted)
    assert reward("json_subset", wanted, json.dumps(found)) == 1
    assert reward("json_subset", wanted, f"Here: {json.dumps(found)}") == 1
    partial = reward({"kind": "json_subset", "partial": True}, wanted, more)
    assert 0 <= partial <= 1
    assert (partial == 1) == has_subset(more, wanted)


@given(JSON, JSON)
def test_equality_of_json_is_that_of_its_text_but_for_ways_to_write_a_number(one, other):
    assert is_equal(one, one)
    assert is_equal(one, other) == is_equal(other, one)
    if json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True):
        assert is_equal(one, other)


@given(st.text(alphabet='{}[]"a:1,` \n'))
def test_any_text_has_an_object_or_none(text):
    assert find_object(text) is None or isinstance(find_object(text), dict)


def test_open_braces_without_end_cost_little():
    assert find_object('{"a":' * 40_000) is None
    assert find_object("{" * 1_000_000) is None
