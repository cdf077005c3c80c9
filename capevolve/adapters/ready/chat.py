"""The target `openai`: one chat completion per trial, through the official client.

The client tries once: whether and when to try again is capevolve's business, which counts what is spent.
Whatever keeps an answer from coming is a failure of the infrastructure, by name, with what the server says of
trying again; an empty answer and a model's refusal are answers.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capevolve.adapters.ready.prompts import Prompts, read_prompts
from capevolve.adapters.refusals import RefusedRollout, read_refusal
from capevolve.errors import AdapterError
from capevolve.model import Rollout, Task
from capevolve.spec.ready import OPENAI_KEY, OpenaiTargetSpec

# What the client imports at its first request, when a user's module may have taken a standard name.
_LATE_IMPORTS = ("openai.resources.chat.completions", "anyio._backends._asyncio")
_NO_KEY = "none"  # the client insists on one
_SHOWN = 1_000
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Chat:
    """What is live: a candidate's prompts and a client."""

    prompts: Prompts
    client: Any


class ChatTarget:
    """Asks a model.

    Raises:
        AdapterError: The client is not installed, or the variable of the key is not set.
    """

    is_async = True

    def __init__(self, spec: OpenaiTargetSpec) -> None:
        if importlib.util.find_spec("openai") is None:
            raise AdapterError(
                "target.kind openai needs the package openai, which is not installed",
                where="capevolve.yaml, target",
                fix="pip install 'capevolve[openai]'",
            )
        self._spec = spec
        self._key = find_key(spec)

    def import_client(self) -> Any:
        """Imports the client; before any module of the user can take the name of one that it needs."""
        for name in _LATE_IMPORTS:
            with suppress(ImportError):  # other versions have other parts
                importlib.import_module(name)
        return importlib.import_module("openai")

    def address(self) -> str:
        """Returns where the API is."""
        return self._spec.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"

    async def live(self, candidate_dir: Path, inputs: Iterable[Any]) -> AsyncIterator[Chat]:
        """Reads the prompts and opens a client while trials run.

        Raises:
            CandidateError: See `read_prompts`.
        """
        prompts = read_prompts(candidate_dir, self._spec, inputs)
        client = self.import_client().AsyncOpenAI(
            api_key=self._key,
            base_url=self.address(),
            max_retries=0,
            timeout=self._spec.request_timeout_s,
        )
        try:
            yield Chat(prompts, client)
        finally:
            await client.close()

    async def run(self, task: Task, chat: Chat, seed: int) -> Rollout:
        """Asks once."""
        spec = self._spec
        options = {"temperature": spec.temperature, "max_tokens": spec.max_tokens}
        try:
            reply = await chat.client.chat.completions.create(
                model=spec.model,
                messages=chat.prompts.messages(task.input),
                seed=seed,
                extra_body=spec.extra_body or None,
                **{name: value for name, value in options.items() if value is not None},
            )
        except Exception as error:  # noqa: BLE001  (the client lets through whatever its parts raise)
            words = self._hide_key(describe_failure(error))
            return RefusedRollout(task.id, error=words, refusal=read_refusal(error))
        return read_reply(task.id, reply, spec)

    def _hide_key(self, text: str) -> str:
        return text.replace(self._key, "[key]") if len(self._key) > _SHORTEST_SECRET else text


def find_key(spec: OpenaiTargetSpec) -> str:
    """Returns the API key from the environment; a key is sent to a `base_url` only when the spec says which.

    Raises:
        AdapterError: The variable is not set.
    """
    name = spec.api_key_env or (None if spec.base_url else OPENAI_KEY)
    if name is None:
        return _NO_KEY
    key = os.environ.get(name, "").strip()
    if not key:
        raise AdapterError(
            f"the environment variable {name} is not set, and the target takes its API key from it",
            where="capevolve.yaml, target.api_key_env",
            fix=f"export {name}=..., or name another variable",
        )
    return key


def describe_failure(error: BaseException) -> str:
    """Returns a failed request as `RateLimitError 429: message (Retry-After: 2)`."""
    status = getattr(error, "status_code", None)
    words = f"{type(error).__name__} {status}" if status else type(error).__name__
    cause = error.__cause__
    message = str(error).strip()[:_SHOWN]
    if cause is not None and status is None:
        message = f"{message} ({type(cause).__name__}: {str(cause)[:_SHOWN]})".replace(": )", ")")
    headers = getattr(getattr(error, "response", None), "headers", {})
    wait = headers.get("retry-after") if status in (429, 503) else None
    return f"{words}: {message}".removesuffix(": ") + (f" (Retry-After: {wait})" if wait else "")


def read_reply(task_id: str, reply: Any, spec: OpenaiTargetSpec) -> Rollout:
    """Returns the rollout of a reply; servers that are only alike may leave anything out."""
    choices = getattr(reply, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if message is None:
        return Rollout(task_id, error=f"the server's reply holds no message: {str(reply)[:200]}")
    usage = getattr(reply, "usage", None)
    given, made = (_count(getattr(usage, f"{part}_tokens", None)) for part in ("prompt", "completion"))
    metadata = {
        "model": getattr(reply, "model", None),
        "finish_reason": getattr(choice, "finish_reason", None),
        "input_tokens": given,
        "output_tokens": made,
        "refusal": getattr(message, "refusal", None),
    }
    calls = getattr(message, "tool_calls", None) or []
    return Rollout(
        task_id,
        output=getattr(message, "content", None) or "",
        tool_calls=[call.model_dump() if hasattr(call, "model_dump") else call for call in calls],
        cost_usd=price(given, made, spec),
        tokens=None if given is None or made is None else given + made,
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


def price(given: int | None, made: int | None, spec: OpenaiTargetSpec) -> float | None:
    """Returns US dollars for so many tokens in and out; None when a count or a price is not known."""
    into, out = spec.usd_per_million_input_tokens, spec.usd_per_million_output_tokens
    if given is None or made is None or into is None or out is None:
        return None
    return (given * into + made * out) / 1e6


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
