"""What crosses from the hosts to the rest of capevolve: requests, replies, facts, listed tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from capevolve.model import Outcome


@dataclass(frozen=True, slots=True)
class AdapterRef:
    """Where an adapter is.

    Attributes:
        root: The project's directory: the hosts' working directory.
        target: `adapter.py`, `adapters/adapter.py:Class` or `package.module:Class`; the class is `Adapter`
            unless named. `capevolve.yaml` for a ready adapter.
        ready: The JSON text of a `ReadySpec`; empty for an adapter that the user wrote.
    """

    root: Path
    target: str
    ready: str = ""


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A trial to run.

    Attributes:
        key: Names the request within its pool; unique among those in flight.
        task_digest: The digest of the task's content as the splits froze it.
        trial: The trial's number k, from 0.
        seed: What `run_target` receives.
        call: Requests of the same number may go into one call of a batch hook.
    """

    key: int
    task_id: str
    task_digest: str
    trial: int
    seed: int
    call: int = 0


@dataclass(frozen=True, slots=True)
class Metric:
    """A shown-only figure beside the reward; the primary one equals the reward."""

    name: str
    value: float
    primary: bool
    direction: Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A provider's answer that says when calling again may help.

    Attributes:
        rate_limited: It asks to be called less often. False: it would refuse the same call for ever.
        retry_after_s: Seconds that it asks to wait, >= 0; None where it did not say.
    """

    rate_limited: bool
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class TrialReply:
    """What became of a request.

    Attributes:
        key: The request's key.
        feedback: The scorer's words, or those of an `AgentFailure`.
        payload: JSON text of an object: `output`, `trace`, `tool_calls`, `error`, `metadata` of the rollout;
            `traceback` after an exception; `host_output` (the last 16 KB printed) after a death.
        cost_usd: As reported; None when not reported or not a finite number >= 0.
        tokens: As reported; None when not reported or not a whole number >= 0.
        duration_s: From the call of `run_target` to the end of `score`, in seconds.
        starts: How often the target was called for it: 2 when a host died under several trials and this one
            ran again alone.
        refusal: What the provider said, for a trial that it kept from being measured.
    """

    key: int
    outcome: Outcome
    feedback: str
    metrics: tuple[Metric, ...]
    payload: str
    cost_usd: float | None
    tokens: int | None
    duration_s: float
    starts: int = 1
    refusal: Refusal | None = None

    @property
    def retryable(self) -> bool:
        """False when the same call would be refused again."""
        return self.refusal is None or self.refusal.rate_limited

    @property
    def rate_limited(self) -> bool:
        """True when the provider asks to be called less often."""
        return self.refusal is not None and self.refusal.rate_limited

    @property
    def retry_after_s(self) -> float | None:
        """Seconds that the provider asks to wait; None where it did not say."""
        return None if self.refusal is None else self.refusal.retry_after_s


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """What a host learned by loading the adapter.

    Attributes:
        class_name: The adapter's class; for a ready one the sections that define it.
        is_async: True when `run_target` is `async def`.
        file: The adapter's file, relative to the project's root where it lies under it.
        files: Path and digest of that file and of every module loaded from under the root, sorted.
        hook: The batch hook by which trials run: `run_trials`, `run_batch`, `score_batch`; empty for none.
        digest: One digest over `class_name`, `files` and a ready adapter's sections: it changes when the
            adapter or its scorer does.
    """

    class_name: str
    is_async: bool
    file: str
    files: tuple[tuple[str, str], ...]
    digest: str
    hook: str = ""


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task as the adapter listed it.

    Attributes:
        digest: `canonical.digest` of `{"input", "target", "metadata"}`.
        content: The canonical JSON text of the same object.
        cluster: `metadata["cluster"]` as text; None when absent.
    """

    id: str
    digest: str
    content: str
    cluster: str | None

    @property
    def input(self) -> Any:
        """What the agent is given."""
        return json.loads(self.content)["input"]

    @property
    def target(self) -> Any:
        """What the scorer compares with."""
        return json.loads(self.content)["target"]

    @property
    def metadata(self) -> dict[str, Any]:
        """The task's free JSON."""
        return cast("dict[str, Any]", json.loads(self.content)["metadata"])


@dataclass(frozen=True, slots=True)
class TaskListing:
    """The tasks of an adapter.

    Attributes:
        tasks: Every task once, sorted by id: the order in which an adapter lists them means nothing.
        source: `all`, or `splits` when the adapter only knows train, val and test.
        facts: What was learned by loading the adapter.
    """

    tasks: tuple[ListedTask, ...]
    source: Literal["all", "splits"]
    facts: AdapterFacts
