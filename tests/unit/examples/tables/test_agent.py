import json
from dataclasses import replace

import pytest


@pytest.fixture(scope="module")
def seed_text(tables):
    return (tables.folder / "seed" / "skill.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def skill(tables, seed_text):
    return tables.agent.parse_skill(seed_text)


def answer(tables, skill, question, *examples, minimum=0.0):
    known = tuple(tables.agent.Example(*example) for example in examples)
    agent = tables.agent.Agent(replace(skill, examples=known, minimum_similarity=minimum))
    return agent.answer(question)


def test_a_slot_is_filled_with_the_value_of_the_new_question(tables, skill):
    example = ("How many airports are in Ohio?", "SELECT COUNT(*) FROM airports WHERE state = 'OH'")
    found = answer(tables, skill, "How many airports are in West Virginia?", example)
    assert found.sql == "SELECT COUNT(*) FROM airports WHERE state = 'WV'"
    assert found.similarity == 1.0


def test_the_longest_word_fills_a_slot(tables, skill):
    cities = {"new york": "NY", "new york city": "NYC", "york": "Y"}
    reader = tables.agent.Reader(replace(skill, words={"city": cities}))
    assert reader.mask("New York City, New York or York?").values == (
        ("city", "NYC"),
        ("city", "NY"),
        ("city", "Y"),
    )


def test_two_values_of_one_slot_can_change_places(tables, skill):
    example = ("Is Utah before Ohio?", "SELECT 'UT', 'OH'")
    assert answer(tables, skill, "Is Ohio before Utah?", example).sql == "SELECT 'OH', 'UT'"


def test_all_places_of_a_value_are_filled_and_longer_numbers_left_alone(tables, skill):
    example = (
        "Days below 2 in 2012?",
        "SELECT 2, -2, 12, 2.5, a2 FROM t WHERE date LIKE '2012/%' OR y = 2012",
    )
    sql = answer(tables, skill, "Days below -3.5 in 2014?", example).sql
    assert sql == "SELECT -3.5, -2, 12, 2.5, a2 FROM t WHERE date LIKE '2014/%' OR y = 2014"


def test_a_slot_without_a_partner_keeps_its_value(tables, skill):
    example = ("Rain in July 2013?", "SELECT '2013/07/%'")
    assert answer(tables, skill, "Rain in 2014?", example).sql == "SELECT '2014/07/%'"


def test_a_quotation_mark_in_a_value_cannot_end_the_text(tables, skill):
    odd = replace(skill, patterns={"quoted": r'"[^"]+"'}, words={})
    example = ('Find "abc"', "SELECT '\"abc\"'")
    assert answer(tables, odd, 'Find "x\' OR 1 --"', example).sql == "SELECT '\"x'' OR 1 --\"'"


def test_of_equally_near_examples_the_first_wins(tables, skill):
    found = answer(tables, skill, "one two", ("one", "SELECT 1"), ("two", "SELECT 2"))
    assert found.sql == "SELECT 1"


def test_below_the_minimum_similarity_there_is_no_answer(tables, skill):
    example = ("one two three", "SELECT 1")
    assert answer(tables, skill, "one", example, minimum=0.34).sql is None
    assert answer(tables, skill, "one", example, minimum=0.33).sql == "SELECT 1"


def test_without_examples_there_is_no_answer(tables, skill):
    assert answer(tables, skill, "one").sql is None


def test_an_example_can_be_left_out(tables, skill):
    agent = tables.agent.Agent(replace(skill, examples=(tables.agent.Example("one", "SELECT 1"),)))
    assert agent.answer("one").sql == "SELECT 1"
    assert agent.answer("one", without="one").sql is None


def test_a_skill_survives_being_written_and_read(tables, skill, seed_text):
    assert tables.agent.format_skill(skill) == seed_text
    assert tables.agent.parse_skill(tables.agent.format_skill(skill)) == skill


@pytest.mark.parametrize(
    "change",
    [
        {"examples": [{"question": "q"}]},
        {"examples": [{"question": "q", "sql": "s"}] * 17},
        {"patterns": {"year": "("}},
        {"patterns": {"word_": "x"}},
        {"patterns": {"no name": "x"}},
        {"words": ["rain"]},
        {"minimum_similarity": "high"},
        {"ignored": None},
    ],
)
def test_a_broken_skill_is_a_skill_error(tables, seed_text, change):
    with pytest.raises(tables.agent.SkillError):
        tables.agent.parse_skill(json.dumps({**json.loads(seed_text), **change}))


def test_text_that_is_no_json_is_a_skill_error(tables):
    with pytest.raises(tables.agent.SkillError):
        tables.agent.parse_skill("{")
