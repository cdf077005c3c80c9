"""The agent: answers a question with the SQL of its nearest example, slots filled in. Standard library only.

What it can do is all in its skill (`skill.json`): examples of questions with their SQL, slots (words or a
pattern that stand for a value) and the least similarity at which it dares to answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

MAX_EXAMPLES = 16


class SkillError(ValueError):
    """The skill cannot be used as it stands: the agent has nothing to work with."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question and the SQL that answers it."""

    question: str
    sql: str


@dataclass(frozen=True, slots=True)
class Skill:
    """What the agent knows.

    Attributes:
        examples: At most `MAX_EXAMPLES`; of equally near ones the first wins.
        words: For each slot, the words that fill it and the value that SQL uses for each.
        patterns: For each slot, the regular expression of the text that fills it. Tried after all words.
        ignored: Words that do not count when questions are compared.
        minimum_similarity: Below this the agent gives no answer. In [0, 1].
    """

    examples: tuple[Example, ...]
    words: Mapping[str, Mapping[str, str]]
    patterns: Mapping[str, str]
    ignored: frozenset[str]
    minimum_similarity: float


@dataclass(frozen=True, slots=True)
class Masked:
    """A question with its slots masked.

    Attributes:
        tokens: Its words in lower case, each slot as `<name_1>`, `<name_2>`, without ignored ones.
        values: The slots in order of appearance, each as (slot, value).
    """

    tokens: frozenset[str]
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent answers: `sql` is None when no example is near enough."""

    sql: str | None
    example: Example | None
    similarity: float


def parse_skill(text: str) -> Skill:
    """Reads a skill from the text of `skill.json`.

    Raises:
        SkillError: The text is no skill, or holds more than `MAX_EXAMPLES` examples.
    """
    try:
        raw = json.loads(text)
        skill = Skill(
            examples=tuple(Example(str(e["question"]), str(e["sql"])) for e in raw["examples"]),
            words={s: {w.lower(): str(v) for w, v in ws.items()} for s, ws in raw["words"].items()},
            patterns={s: str(p) for s, p in raw["patterns"].items()},
            ignored=frozenset(str(w).lower() for w in raw["ignored"]),
            minimum_similarity=float(raw["minimum_similarity"]),
        )
        Reader(skill)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, re.error) as error:
        raise SkillError(f"skill.json is not a skill: {error!r}") from error
    if len(skill.examples) > MAX_EXAMPLES:
        raise SkillError(f"skill.json holds {len(skill.examples)} examples; at most {MAX_EXAMPLES} may be")
    return skill


def format_skill(skill: Skill) -> str:
    """The text of `skill.json` for a skill."""
    raw = {
        "examples": [{"question": e.question, "sql": e.sql} for e in skill.examples],
        "words": skill.words,
        "patterns": skill.patterns,
        "ignored": sorted(skill.ignored),
        "minimum_similarity": skill.minimum_similarity,
    }
    return json.dumps(raw, indent=2, ensure_ascii=False) + "\n"


class Reader:
    """Reads questions the way one skill's slots and ignored words say."""

    def __init__(self, skill: Skill) -> None:
        self._words = words = skill.words
        self._ignored = skill.ignored
        # Longer words first, so that "New York City" is not read as "New York".
        by_length = sorted(((w, s) for s, ws in words.items() for w in ws), key=lambda x: (-len(x[0]), x))
        self._slot_of = dict(by_length)
        known = "|".join(re.escape(w) for w, _ in by_length)
        parts = [rf"(?P<word_>\b(?i:{known})\b)"] if known else []
        parts += [f"(?P<{slot}>{pattern})" for slot, pattern in skill.patterns.items()]
        self._slots = re.compile("|".join(parts)) if parts else None
        self._masked: dict[str, Masked] = {}

    def mask(self, question: str) -> Masked:
        """Masks the slots of a question."""
        if question not in self._masked:
            self._masked[question] = self._mask(question)
        return self._masked[question]

    def _mask(self, question: str) -> Masked:
        values: list[tuple[str, str]] = []

        def replace(match: re.Match[str]) -> str:
            slot = match.lastgroup or ""
            value = match.group().strip("'")
            if slot == "word_":
                word = value.lower()
                slot = self._slot_of[word]
                value = self._words[slot][word]
            values.append((slot, value))
            # Numbered, so that a question about two states is not like one about a single state.
            return f" <{slot}_{sum(s == slot for s, _ in values)}> "

        text = self._slots.sub(replace, question) if self._slots else question
        tokens = re.findall(r"<\w+>|\w+", text.lower())
        return Masked(frozenset(tokens) - self._ignored, tuple(values))


def measure_similarity(one: Masked, other: Masked) -> float:
    """Tokens in common over tokens in either (Jaccard, 1901). In [0, 1]; 0 when both are empty."""
    union = one.tokens | other.tokens
    return len(one.tokens & other.tokens) / len(union) if union else 0.0


def substitute(sql: str, old: Masked, new: Masked) -> str:
    """Puts the slot values of a new question where an example's SQL holds those of its own question.

    The i-th value of a slot replaces the i-th value of the same slot; one without a partner stays.
    """
    swaps: dict[str, str] = {}
    for slot in {slot for slot, _ in old.values}:
        before = [value for s, value in old.values if s == slot]
        after = [value for s, value in new.values if s == slot]
        swaps.update(zip(before, after, strict=False))
    if not swaps:
        return sql
    # All at once: one after the other, a value just put in could be replaced again.
    known = "|".join(re.escape(value) for value in sorted(swaps, key=lambda v: (-len(v), v)))
    return re.sub(rf"(?<![\w.-])(?:{known})(?![\w.])", lambda m: swaps[m.group()].replace("'", "''"), sql)


class Agent:
    """One skill at work. The same question always gets the same answer.

    Args:
        skill: What the agent knows.
        reader: A reader of the same slots and ignored words, to spare building it again.
    """

    def __init__(self, skill: Skill, reader: Reader | None = None) -> None:
        self.skill = skill
        self.reader = reader or Reader(skill)
        self._examples = [(example, self.reader.mask(example.question)) for example in skill.examples]

    def answer(self, question: str, *, without: str | None = None) -> Answer:
        """Answers one question.

        Args:
            question: The question.
            without: A question whose example is left out, as if the skill did not hold it.
        """
        asked = self.reader.mask(question)
        nearest: tuple[Example, Masked] | None = None
        best = -1.0
        for example, masked in self._examples:
            similarity = measure_similarity(asked, masked)
            if similarity > best and example.question != without:
                nearest, best = (example, masked), similarity
        if nearest is None:
            return Answer(None, None, 0.0)
        example, masked = nearest
        if best < self.skill.minimum_similarity:
            return Answer(None, example, best)
        return Answer(substitute(example.sql, masked, asked), example, best)


@lru_cache(maxsize=8)
def open_agent(skill_text: str) -> Agent:
    """The agent of a `skill.json`, kept for the next question.

    Raises:
        SkillError: The text is no skill.
    """
    return Agent(parse_skill(skill_text))
