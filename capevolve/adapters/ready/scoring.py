"""Scores an answer by the rule that `scoring` names. Pure: the same answer, the same score.

Feedback says what is wrong and not what would be right, unless `show_expected` is set.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from capevolve.adapters.ready.texts import (
    find_object,
    has_subset,
    last_number,
    normalise,
    read_number,
    show_text,
)
from capevolve.errors import AdapterError
from capevolve.model import Score, Task
from capevolve.spec.ready import (
    ContainsScoring,
    ExactScoring,
    JsonSubsetScoring,
    NumberScoring,
    PythonScoring,
    RegexScoring,
    ScoringSpec,
)

Judged = tuple[float, str]
"""A reward in [0, 1] and, where it is below 1, what is wrong."""

_SHOWN = 500


class Scorer:
    """Scores answers.

    Args:
        function: For kind python, the user's function.
    """

    def __init__(self, spec: ScoringSpec, function: Callable[..., Any] | None = None) -> None:
        self._spec = spec
        self._function = function

    @property
    def needs_target(self) -> bool:
        """False where a task may have no target: the user's function, and a pattern that only must match."""
        spec = self._spec
        return not isinstance(spec, PythonScoring) and not (isinstance(spec, RegexScoring) and spec.pattern)

    def check(self, task: Task) -> None:
        """Refuses a target that this rule cannot compare with.

        Raises:
            AdapterError: It cannot; the message does not name the target.
        """
        fault = find_fault(self._spec, task.target)
        if fault:
            raise AdapterError(
                f"the target of task {task.id!r} {fault}",
                where=f"scoring: {self._spec.kind}",
                fix="correct tasks.target or the task, or choose another scoring",
            )

    def score(self, task: Task, answer: Any) -> Score | Awaitable[Score]:
        """Returns the score of one answer; awaitable where the user's function is `async def`."""
        spec = self._spec
        if isinstance(spec, PythonScoring):
            assert self._function is not None
            value = self._function(task, answer)
            return _settle_score(task.id, value) if isawaitable(value) else read_score(task.id, value)
        reward, wrong = judge(spec, task.target, answer)
        if wrong and spec.show_expected:
            wrong += f" Expected {show_text(task.target)[:_SHOWN]!r}, got {show_text(answer)[:_SHOWN]!r}."
        return Score(task.id, reward, wrong)


def judge(spec: ScoringSpec, target: Any, answer: Any) -> Judged:
    """Judges an answer by one of the rules that need no function."""
    if isinstance(spec, ExactScoring):
        return judge_exact(answer, target, ignore_case=spec.ignore_case)
    if isinstance(spec, ContainsScoring):
        return judge_contains(answer, target, ignore_case=spec.ignore_case)
    if isinstance(spec, RegexScoring):
        return judge_regex(answer, target, spec.pattern, ignore_case=spec.ignore_case)
    if isinstance(spec, NumberScoring):
        return judge_number(answer, target, spec.tolerance, spec.relative_tolerance)
    assert isinstance(spec, JsonSubsetScoring)
    return judge_json_subset(answer, target, partial=spec.partial)


def find_fault(spec: ScoringSpec, target: Any) -> str | None:
    """Returns why a rule cannot compare with a target, to be read after "the target"; None when it can."""
    if isinstance(spec, PythonScoring) or (
        isinstance(spec, RegexScoring) and spec.pattern and target is None
    ):
        return None
    if isinstance(spec, NumberScoring):
        return None if read_number(target) is not None else "is not a number"
    if isinstance(spec, JsonSubsetScoring):
        wanted = find_wanted(target)
        return None if wanted else "is not a JSON object with at least one key"
    return _fault_of_text(spec, target)


def _fault_of_text(spec: ScoringSpec, target: Any) -> str | None:
    if target is None or isinstance(target, dict):
        return "is missing" if target is None else "is an object; use json_subset or a function"
    if isinstance(spec, RegexScoring) and not spec.pattern:
        if not isinstance(target, str) or not target:
            return "is not a regular expression"
        try:
            re.compile(target)
        except re.error as error:
            return f"is not a regular expression: {error.msg}"
        return None
    texts = _accepted(target)
    if not texts or any(isinstance(item, list | dict) or item is None for item in _items(target)):
        return "is a list that is empty, or not of texts and numbers"
    empty = isinstance(spec, ContainsScoring) and any(not normalise(t, ignore_case=False) for t in texts)
    return "is empty, and every answer contains that" if empty else None


def judge_exact(answer: Any, target: Any, *, ignore_case: bool = False) -> Judged:
    """1 when the normalised answer is the normalised target; of a list, any one of its texts."""
    got = normalise(show_text(answer), ignore_case=ignore_case)
    wanted = [normalise(text, ignore_case=ignore_case) for text in _accepted(target)]
    if got in wanted:
        return 1.0, ""
    if not got:
        return 0.0, "The answer is empty."
    if any(text and text in got for text in wanted):
        return 0.0, "The expected text is in the answer, but not alone: give nothing beside it."
    if any(text.casefold() == got.casefold() for text in wanted):
        return 0.0, "The answer differs from the expected text in upper and lower case."
    return 0.0, "The answer is not the expected text."


def judge_contains(answer: Any, target: Any, *, ignore_case: bool = False) -> Judged:
    """1 when the normalised target is somewhere in the normalised answer; of a list, any one of its texts."""
    got = normalise(show_text(answer), ignore_case=ignore_case)
    if any(normalise(text, ignore_case=ignore_case) in got for text in _accepted(target)):
        return 1.0, ""
    return 0.0, "The expected text is not in the answer." if got else "The answer is empty."


def judge_regex(answer: Any, target: Any, pattern: str | None, *, ignore_case: bool = False) -> Judged:
    """1 when the target, as an expression, is found; or what the pattern finds last is the target's text."""
    text = show_text(answer)
    flags = re.IGNORECASE if ignore_case else 0
    if pattern is None:
        return (1.0, "") if re.search(target, text, flags) else (0.0, "The expected pattern is not found.")
    matches = list(re.finditer(pattern, text, flags))
    if not matches:
        return 0.0, f"Nothing in the answer matches {pattern!r}."
    match = matches[-1]
    if target is None:
        return 1.0, ""
    found = match.group(match.re.groups) or ""  # the group where there is one, else all of the match
    reward, _ = judge_exact(found, target, ignore_case=ignore_case)
    return reward, "" if reward else "What the pattern finds in the answer is not the expected text."


def judge_number(answer: Any, target: Any, tolerance: float, relative_tolerance: float = 0.0) -> Judged:
    """1 when the last number in the answer is within the larger tolerance of the target, bounds included."""
    wanted = read_number(target)
    assert wanted is not None, "`Scorer.check` refuses such a target"
    got = last_number(show_text(answer))
    if got is None:
        return 0.0, "There is no number in the answer."
    if abs(got - wanted) <= max(tolerance, relative_tolerance * abs(wanted)):
        return 1.0, ""
    return 0.0, "The last number in the answer is not the expected one."


def judge_json_subset(answer: Any, target: Any, *, partial: bool = False) -> Judged:
    """1 when the answer's JSON object has all keys of the target with equal values.

    With `partial`, the share of the target's top-level keys that are there and equal. Objects inside are
    compared the same way; lists must be equal.
    """
    wanted = find_wanted(target)
    assert wanted, "`Scorer.check` refuses such a target"
    found = find_object(answer)
    if found is None:
        return 0.0, "There is no JSON object in the answer."
    missing = [key for key in wanted if key not in found]
    wrong = [key for key, value in wanted.items() if key in found and not has_subset(found[key], value)]
    if not missing and not wrong:
        return 1.0, ""
    words = [f"missing: {', '.join(missing)}"] if missing else []
    words += [f"wrong: {', '.join(wrong)}"] if wrong else []
    share = 1.0 - (len(missing) + len(wrong)) / len(wanted)
    return share if partial else 0.0, f"Keys of the JSON object {'; '.join(words)}."


def read_score(task_id: str, value: Any) -> Score:
    """Turns what a user's function returned into a score; an invalid reward stays, to be named later."""
    if hasattr(value, "reward"):
        return value  # type: ignore[no-any-return]
    if isinstance(value, tuple) and len(value) == 2:
        return Score(task_id, value[0], value[1])
    return Score(task_id, value)


async def _settle_score(task_id: str, value: Awaitable[Any]) -> Score:
    return read_score(task_id, await value)


def find_wanted(target: Any) -> dict[str, Any] | None:
    """The object that a target is; text is read as JSON, for CSV has nothing else."""
    if isinstance(target, str):
        target = find_object(target) if target.strip().startswith("{") else None
    return target if isinstance(target, dict) else None


def _items(target: Any) -> list[Any]:
    return target if isinstance(target, list) else [target]


def _accepted(target: Any) -> list[str]:
    return [show_text(item) for item in _items(target)]
