"""Operators on a skill: each makes ideas, an edited skill with what was edited and why it may help."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent import MAX_EXAMPLES, Example, Skill, measure_similarity
from course import Course, Lesson, find_form

BATCH = 4
"""Examples that one idea adds at most."""
POOL = 10
"""Failing examples that are drawn and raced for each place."""
IGNORED_COUNTS = (3, 6, 10, 15)
MINIMUM_SIMILARITIES = (0.5, 0.4, 0.3, 0.2, 0.0)


@dataclass(frozen=True, slots=True)
class Idea:
    """An edited skill, what was edited, and why it may help."""

    skill: Skill
    edit: str
    why: str


def add_failures(skill: Skill, course: Course, rng: random.Random) -> Iterator[Idea]:
    """Adds failing examples one by one: some are drawn, likelier if they resemble many others, and raced."""
    grown, added = skill, list[str]()
    while len(added) < BATCH and len(grown.examples) < MAX_EXAMPLES:
        teachers = course.find_teachers(grown)
        if not teachers:
            break
        reader = course.read(grown)
        masked = [reader.mask(lesson.question) for lesson in teachers]
        weights = [sum(measure_similarity(one, other) ** 2 for other in masked) for one in masked]
        drawn = dict.fromkeys(rng.choices(range(len(teachers)), weights, k=POOL))
        ideas = [(_add(grown, teachers[i]), teachers[i]) for i in drawn]
        grown, lesson = max(ideas, key=lambda idea: course.value(idea[0]))
        added.append(lesson.task_id)
    if added:
        yield Idea(grown, f"add {', '.join(added)}", "they resemble other failures")


def add_diverse(skill: Skill, course: Course, rng: random.Random) -> Iterator[Idea]:
    """Adds one failing example for each of the commonest forms of answer that no example shows yet."""
    known = {find_form(example.sql) for example in skill.examples}
    teachers = [lesson for lesson in course.find_teachers(skill) if lesson.form not in known]
    places = min(BATCH, MAX_EXAMPLES - len(skill.examples))
    grown, added = skill, list[str]()
    for form, _ in Counter(lesson.form for lesson in teachers).most_common(places):
        lesson = rng.choice([lesson for lesson in teachers if lesson.form == form])
        grown = _add(grown, lesson)
        added.append(lesson.task_id)
    if added:
        yield Idea(grown, f"add {', '.join(added)}", "no example had their form")


def swap_examples(skill: Skill, course: Course, rng: random.Random) -> Iterator[Idea]:
    """Drops examples that earn nothing and adds failing ones in their place."""
    smaller, dropped = skill, list[str]()
    while len(dropped) < BATCH and smaller.examples:
        places = list(range(len(smaller.examples)))
        rng.shuffle(places)
        worst = max(places, key=lambda place: course.value(_drop(smaller, place)))
        if course.value(_drop(smaller, worst)) < course.value(smaller):
            break
        dropped.append(f'"{smaller.examples[worst].question}"')
        smaller = _drop(smaller, worst)
    if dropped:
        for idea in add_failures(smaller, course, rng):
            why = f"the dropped earned nothing, of the added {idea.why}"
            yield Idea(idea.skill, f"drop {', '.join(dropped)} and {idea.edit}", why)


def mine_words(skill: Skill, course: Course, rng: random.Random) -> Iterator[Idea]:
    """Takes words into a slot when they begin like the value that the SQL compares the slot's column with."""
    reader = course.read(skill)
    words = {slot: dict(known) for slot, known in skill.words.items()}
    mined: list[str] = []
    for lesson in course.lessons:
        masked = reader.mask(lesson.question)
        filled = {value for _, value in masked.values}
        for column, value in re.findall(r"(\w+) = '([^'%]+)'", lesson.sql):
            if column not in words or value in filled:
                continue
            for word in sorted(masked.tokens - words[column].keys()):
                if len(word) >= 3 and word[:3] == value[:3].lower():
                    words[column][word] = value
                    mined.append(word)
    if mined:
        yield Idea(replace(skill, words=words), f"read {', '.join(mined)} as slots", "they name values")


def ignore_words(skill: Skill, course: Course, rng: random.Random) -> Iterator[Idea]:
    """Ignores the words that turn up in questions of the most forms: they tell the forms apart least."""
    reader = course.read(skill)
    forms: dict[str, set[str]] = {}
    for lesson in course.lessons:
        for word in reader.mask(lesson.question).tokens:
            if not word.startswith("<"):
                forms.setdefault(word, set()).add(lesson.form)
    common = sorted(forms, key=lambda word: (-len(forms[word]), word))
    for count in IGNORED_COUNTS:
        edited = replace(skill, ignored=skill.ignored | set(common[:count]))
        yield Idea(edited, f"ignore {', '.join(common[:count])}", "questions of most forms use them")


def set_minimum_similarity(skill: Skill, course: Course, rng: random.Random) -> Iterator[Idea]:
    """Sets how near an example must be."""
    for value in MINIMUM_SIMILARITIES:
        if value != skill.minimum_similarity:
            edited = replace(skill, minimum_similarity=value)
            yield Idea(edited, f"set the minimum similarity to {value}", "it fits the train questions better")


def shuffle_examples(skill: Skill, course: Course, rng: random.Random) -> Iterator[Idea]:
    """Puts the examples in another order: of equally near ones the first wins."""
    order = list(range(len(skill.examples)))
    rng.shuffle(order)
    shuffled = replace(skill, examples=tuple(skill.examples[i] for i in order))
    yield Idea(shuffled, f"order the examples {order}", "the first of equally near ones wins")


def _add(skill: Skill, lesson: Lesson) -> Skill:
    return replace(skill, examples=(*skill.examples, Example(lesson.question, lesson.sql)))


def _drop(skill: Skill, place: int) -> Skill:
    return replace(skill, examples=skill.examples[:place] + skill.examples[place + 1 :])
