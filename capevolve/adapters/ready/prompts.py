"""The candidate's prompt files: read once when it goes live, filled in for each task."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capevolve.adapters.ready.texts import show_text
from capevolve.errors import CandidateError
from capevolve.spec.ready import OpenaiTargetSpec

_PLACE = re.compile(r"\{input(?:\.([^{}\s]+))?\}")


@dataclass(frozen=True, slots=True)
class Prompts:
    """The messages that a candidate makes of a task.

    Attributes:
        system: The system message; None: there is none.
        user: The template of the user message; None: the input alone.
    """

    system: str | None
    user: str | None

    def messages(self, value: Any) -> list[dict[str, str]]:
        """Returns the messages for a task's input."""
        given = show_text(value)
        user = given if self.user is None else fill_template(self.user, value)
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, {"role": "user", "content": user}]


def read_prompts(candidate_dir: Path, spec: OpenaiTargetSpec, inputs: Iterable[Any]) -> Prompts:
    """Reads a candidate's prompt files, and proves them on every input before a call is paid for.

    Raises:
        CandidateError: A file is missing or not UTF-8; the user message lost its {input}, or asks for a key
            that an input does not have.
    """
    system = None if spec.system is None else _read(candidate_dir, spec.system)
    user = None if spec.user is None else _read(candidate_dir, spec.user)
    if spec.user is not None and user is not None:
        _check_places(spec.user, user, inputs)
    return Prompts(system, user)


def fill_template(template: str, value: Any) -> str:
    """Returns the template with {input} and {input.KEY} filled in, once; all other braces stay."""

    def fill(match: re.Match[str]) -> str:
        key = match.group(1)
        return show_text(value if key is None else value[key])

    return _PLACE.sub(fill, template)


def _read(candidate_dir: Path, name: str) -> str:
    path = candidate_dir / name
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise CandidateError(
            f"the candidate's {name} cannot be read: {error.strerror}", where=name, fix="keep the file"
        ) from None
    except UnicodeDecodeError:
        raise CandidateError(f"the candidate's {name} is not UTF-8", where=name, fix="save it so") from None


def _check_places(name: str, template: str, inputs: Iterable[Any]) -> None:
    keys = _PLACE.findall(template)
    if not keys:
        raise CandidateError(
            f"the candidate's {name} has no {{input}}: the model would not see the task",
            where=name,
            fix="keep {input} where the task belongs",
        )
    for value in inputs:
        for key in keys:
            if key and not (isinstance(value, dict) and key in value):
                raise CandidateError(
                    f"the candidate's {name} asks for {{input.{key}}}, which a task's input does not have",
                    where=name,
                    fix="use {input}, or a key that every input has",
                )
