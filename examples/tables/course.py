"""The train tasks that a proposer was told, to race skills on."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from adapter import judge
from agent import Agent, Reader, Skill


@dataclass(frozen=True, slots=True)
class Lesson:
    """A train task: a question and the SQL that answers it."""

    task_id: str
    question: str
    sql: str

    @property
    def form(self) -> str:
        """The SQL with its literals masked: questions of one form can share an example."""
        return find_form(self.sql)


def find_form(sql: str) -> str:
    """SQL with its literals masked."""
    return re.sub(r"'[^']*'|-?\b\d+(\.\d+)?\b", "?", sql)


class Course:
    """The train tasks of a brief.

    Args:
        lessons: The train tasks.
        tried: Edits that were tried in vain on the skill as it is.
    """

    def __init__(self, lessons: Sequence[Lesson], tried: Sequence[str] = ()) -> None:
        self.lessons = tuple(lessons)
        self.tried = frozenset(tried)
        named = {word for edit in tried for word in re.findall(r"[\w-]+", edit)}
        self._stale = {lesson.form for lesson in lessons if lesson.task_id in named}
        self._readers: dict[str, Reader] = {}

    def read(self, skill: Skill) -> Reader:
        """The reader of a skill, built once for all skills with the same slots and ignored words."""
        key = json.dumps([skill.words, skill.patterns, sorted(skill.ignored)])
        if key not in self._readers:
            self._readers[key] = Reader(skill)
        return self._readers[key]

    def find_failures(self, skill: Skill, *, by_heart: bool = False) -> list[Lesson]:
        """The tasks that a skill fails; unless `by_heart`, each is asked without its own example."""
        agent = Agent(skill, self.read(skill))
        failures = []
        for lesson in self.lessons:
            answer = agent.answer(lesson.question, without=None if by_heart else lesson.question)
            if judge(answer.sql, lesson.sql)[0] < 1:
                failures.append(lesson)
        return failures

    def find_teachers(self, skill: Skill) -> list[Lesson]:
        """The failures that could be added as examples; forms just tried in vain only if all are."""
        used = {example.question for example in skill.examples}
        failures = [lesson for lesson in self.find_failures(skill) if lesson.question not in used]
        return [lesson for lesson in failures if lesson.form not in self._stale] or failures

    def count_right(self, skill: Skill) -> int:
        """Tasks answered without their own example: what may carry over to other questions."""
        return len(self.lessons) - len(self.find_failures(skill))

    def value(self, skill: Skill) -> int:
        """What a skill is worth: `count_right`, plus the tasks answered with their own example.

        The second part tells two skills apart where the first cannot: a form that train shows only once.
        """
        return self.count_right(skill) + len(self.lessons) - len(self.find_failures(skill, by_heart=True))
