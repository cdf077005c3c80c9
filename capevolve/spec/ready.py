"""What `capevolve.yaml` says instead of an adapter: where the tasks are, what runs them, what scores them."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from capevolve.spec.fields import (
    Command,
    Environment,
    InsidePath,
    Limit,
    NotNegative,
    Positive,
    Text,
)
from capevolve.spec.section import Section

READY_KEYS = ("tasks", "target", "scoring")
"""The keys that stand in for `adapter`; all three or none."""

OPENAI_KEY = "OPENAI_API_KEY"
"""The variable that holds the key when neither `base_url` nor `api_key_env` is given."""

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_function(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise ValueError("must be package.module:function; the module is looked for beside capevolve.yaml")
    return text


def _check_variable(text: str) -> str:
    # The text is not repeated: it may be the key itself.
    if not _VARIABLE.fullmatch(text):
        raise ValueError("must be the name of an environment variable, never the key itself")
    return text


def _check_base_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL that starts with http:// or https://")
    if parts.username or parts.password or parts.query:
        raise ValueError("must hold no user, password or query: keys go into an environment variable")
    return text


def _check_file(text: str) -> str:
    if not text.lower().endswith((".jsonl", ".csv")):
        raise ValueError("must end in .jsonl or .csv")
    return text


def _check_pattern(text: str) -> str:
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if compiled.groups > 1:
        raise ValueError("must have one group at most: what it holds is the answer; write (?:...) for others")
    return text


FunctionName = Annotated[Text, AfterValidator(_check_function)]
Variable = Annotated[Text, AfterValidator(_check_variable)]
BaseUrl = Annotated[Text, AfterValidator(_check_base_url)]
TaskFile = Annotated[InsidePath, AfterValidator(_check_file)]
Pattern = Annotated[str, Field(min_length=1), AfterValidator(_check_pattern)]
FieldNames = Annotated[tuple[Text, ...], Field(strict=False)]
InputNames = Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]


class TasksSpec(Section):
    """A file of tasks, and which of its fields are what."""

    file: TaskFile = Field(
        description="A .jsonl file, one JSON object a line, or a .csv file with a header. UTF-8."
    )
    id: Text | None = Field(
        None,
        description="The field that holds the id; left out: `id`, and where no task has it an id made from "
        "the content.",
    )
    input: Text | InputNames = Field(
        "input",
        description="The field that the agent is given; of a list of fields it is given an object.",
    )
    target: Text | None = Field(
        "target",
        description="The field that the scorer compares with; the agent never sees it. null: there is none.",
    )
    metadata: FieldNames = Field(
        (),
        description="Fields kept beside, for group_key, stratify_key and the like. The agent sees them.",
    )


class CommandTargetSpec(Section):
    """A program: a task on its standard input, the answer on its standard output."""

    kind: Literal["command"] = Field(description="A program.")
    command: Command = Field(
        description="The program and its arguments: a list, or one text that is split at spaces and "
        "quotation marks; no shell runs. `python` is the running interpreter; `{candidate}` and `{project}` "
        "stand for folders.",
    )
    env: Environment = Field(
        default_factory=dict,
        repr=False,
        description="Environment variables for the program. They are never stored, only their digest.",
    )

    def argv(self) -> tuple[str, ...]:
        """Returns the program and its arguments."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command


class OpenaiTargetSpec(Section):
    """A model behind an API like OpenAI's; the candidate holds the prompts."""

    kind: Literal["openai"] = Field(description="A chat completion. Needs `pip install 'capevolve[openai]'`.")
    model: Text = Field(description="The model's name.")
    base_url: BaseUrl | None = Field(
        None, description="Where the API is; left out: the variable OPENAI_BASE_URL, else OpenAI."
    )
    system: InsidePath | None = Field(None, description="File of the candidate: the system message.")
    user: InsidePath | None = Field(
        None,
        description="File of the candidate: the user message, in which {input} is the task's input and "
        "{input.KEY} a key of it. Left out: the input alone.",
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="Left out: the server's."
    )
    max_tokens: Positive | None = Field(None, description="Tokens of the answer at most; the server's.")
    extra_body: dict[str, JsonValue] = Field(
        default_factory=dict, description="More keys for the body of each request, such as top_p."
    )
    api_key_env: Variable | None = Field(
        None,
        description="Name of the environment variable that holds the key. Left out: OPENAI_API_KEY, but "
        "with a base_url no key is sent.",
    )
    request_timeout_s: Limit = Field(120.0, description="Seconds a request may wait for the server.")
    usd_per_million_input_tokens: NotNegative | None = Field(
        None, description="Price; without both prices a trial's cost is unknown."
    )
    usd_per_million_output_tokens: NotNegative | None = Field(None, description="Price.")

    @model_validator(mode="after")
    def _reads_the_candidate(self) -> Self:
        if self.system is None and self.user is None:
            raise ValueError("names no file of the candidate: give system, user or both")
        if (self.usd_per_million_input_tokens is None) != (self.usd_per_million_output_tokens is None):
            raise ValueError("gives one price: give both usd_per_million_... or none")
        return self


class PythonTargetSpec(Section):
    """A Python function beside capevolve.yaml."""

    kind: Literal["python"] = Field(description="A function.")
    function: FunctionName = Field(
        description="module:function, `def` or `async def`, called as function(input, candidate_dir, seed), "
        "or with a Task without its target when its first parameter is called `task`.",
    )


class _WithWords(Section):
    show_expected: bool = Field(
        False, description="Feedback names what was expected; proposers see it for train tasks."
    )


class ExactScoring(_WithWords):
    """1 when the answer is the target's text, but for white space around it."""

    kind: Literal["exact"] = Field(description="The same text. `scoring: exact` is short for it.")
    ignore_case: bool = Field(False, description="Case does not matter.")


class ContainsScoring(_WithWords):
    """1 when the target's text is somewhere in the answer."""

    kind: Literal["contains"] = Field(description="The text somewhere in the answer.")
    ignore_case: bool = Field(False, description="Case does not matter.")


class RegexScoring(_WithWords):
    """1 when a regular expression finds what it should."""

    kind: Literal["regex"] = Field(description="A regular expression, as Python's `re` reads it.")
    pattern: Pattern | None = Field(
        None,
        description="Finds the answer: its last match, or the group in it, must be the target's text, as "
        "exact compares; for a task without a target a match is enough. Left out: each task's target is the "
        "expression, to be found anywhere.",
    )
    ignore_case: bool = Field(False, description="Case does not matter.")


class NumberScoring(_WithWords):
    """1 when the last number in the answer is the target."""

    kind: Literal["number"] = Field(description="The last number in the answer.")
    tolerance: NotNegative = Field(1e-6, description="How far it may be off.")
    relative_tolerance: NotNegative = Field(
        0.0, description="How far it may be off, as a share of the target; the larger of both holds."
    )


class JsonSubsetScoring(_WithWords):
    """1 when the JSON object in the answer has all keys of the target, with equal values."""

    kind: Literal["json_subset"] = Field(description="Keys and values of a JSON object.")
    partial: bool = Field(False, description="The share of the target's top-level keys that are right.")


class PythonScoring(Section):
    """A Python function beside capevolve.yaml."""

    kind: Literal["python"] = Field(description="A function.")
    function: FunctionName = Field(
        description="module:function, `def` or `async def`, called as function(task, answer); returns a "
        "number in [0, 1], (number, feedback) or a Score.",
    )


def _expand(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


TargetSpec = Annotated[CommandTargetSpec | OpenaiTargetSpec | PythonTargetSpec, Field(discriminator="kind")]
ScoringSpec = Annotated[
    ExactScoring | ContainsScoring | RegexScoring | NumberScoring | JsonSubsetScoring | PythonScoring,
    Field(discriminator="kind"),
    BeforeValidator(_expand),
]


class ReadySpec(Section):
    """The three sections that stand in for an adapter, as they travel to the hosts."""

    tasks: TasksSpec = Field(description="The file of tasks.")
    target: TargetSpec = Field(description="What runs a task.")
    scoring: ScoringSpec = Field(description="What scores an answer.")


def ready_fault(adapter: object, sections: dict[str, Any]) -> str | None:
    """Returns what is wrong with these of `adapter`, `tasks`, `target` and `scoring`, or None."""
    given = [key for key in READY_KEYS if sections.get(key) is not None]
    missing = [key for key in READY_KEYS if key not in given]
    if given and adapter is not None:
        return f"gives adapter and {' and '.join(given)}; give an adapter or the sections, not both"
    if given and missing:
        return f"gives {' and '.join(given)} without {' and '.join(missing)}; they need each other"
    if not given and adapter is None:
        return "gives no adapter; give one, or the sections tasks, target and scoring"
    return None
