"""The spec of a project: what `capevolve.yaml` may say, as frozen models.

Strict: a quoted number is not a number and `true` is not 1. Numbers are finite. Every field says what it
means; `capevolve init` and the documentation print these texts.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from capevolve.spec.fields import (
    AdapterName,
    Command,
    Count,
    Environment,
    Ks,
    LedgerUrl,
    Limit,
    Name,
    NotNegative,
    Patterns,
    Positive,
    Rate,
    Seconds,
    Seed,
    SeedCandidate,
    Text,
)
from capevolve.spec.gating import GateSpec
from capevolve.spec.ready import READY_KEYS, ReadySpec, ScoringSpec, TargetSpec, TasksSpec, ready_fault
from capevolve.spec.section import Section
from capevolve.spec.splitting import SplitsSpec


class EvaluationSpec(Section):
    """How trials are run."""

    num_trials: Positive = Field(1, description="Trials per task.")
    ks: Ks | None = Field(
        None, description="The k of pass^k and pass@k to report; left out: every k up to num_trials."
    )
    concurrency: int = Field(4, ge=1, le=512, description="Trials that run at the same time.")
    timeout_s: Limit = Field(300.0, description="Seconds until a trial is ended; see timeout_is.")
    timeout_is: Literal["agent", "infra"] = Field(
        "agent",
        description='What a trial over its limit means: "agent": the agent was too slow, it scores 0; '
        '"infra": missing data. A limit reached while score() was seen to run is missing data in any case.',
    )
    grace_s: Seconds = Field(2.0, description="Seconds between asking a hung trial to end and killing it.")
    retries: Count = Field(2, description="How often a trial is tried again after an infrastructure failure.")
    retry_wait_s: Seconds = Field(0.5, description="Seconds before the first retry; doubles with each.")
    base_seed: Seed | None = Field(
        None, description="Trial k runs with seed base_seed + k; left out: splits.seed."
    )
    trials_per_host: Positive | None = Field(
        None, description="Trials that share one child process; left out: capevolve decides."
    )
    batch_size: Count = Field(
        16,
        description="Trials in one call of an adapter's run_trials, run_batch or score_batch, and no more "
        "than concurrency; 0: these hooks are not called.",
    )
    memory_mb: Positive | None = Field(
        None,
        description="Megabytes of address space (RLIMIT_AS) that a process of the adapter may have, and "
        "each that it starts; left out: no limit. macOS does not keep it.",
    )
    max_trace_kb: int = Field(
        1000,
        ge=1,
        le=100_000,
        description="Thousands of characters kept of what a trial returned (output, trace, tool calls, "
        "metadata); a longer field is cut, and says so.",
    )
    deterministic: bool = Field(
        False,
        description="Declares that the seed makes no difference to the target: `capevolve check` holds it to "
        "that, and one trial per task is enough.",
    )
    max_interruptions: Positive = Field(
        5, description="A trial interrupted this often becomes missing data instead of running again."
    )
    requests_per_minute: Rate | None = Field(
        None, description="Calls of the target that may begin in any minute of a run, retries included."
    )
    tokens_per_minute: Rate | None = Field(
        None,
        description="Tokens that trials may use in a minute, in the long run; needs a target that reports "
        "its tokens.",
    )
    prefect_limit: Name | None = Field(
        None,
        description="A Prefect global concurrency limit with slot decay that every call takes a slot of, "
        "shared by all runs that name it; kept by what runs as a Prefect flow.",
    )
    adaptive: bool = Field(
        True,
        description="Halve the concurrency when the target is rate limited (HTTP 429) and recover with "
        "successes; false only waits for Retry-After.",
    )
    rate_limit_retries: Count = Field(
        20,
        description="How often a trial is tried again after a rate-limit answer, not counted in retries; "
        "then it is missing data.",
    )

    def reported_ks(self, num_trials: int) -> tuple[int, ...]:
        """Returns the measurable ks with that many trials per task; larger ones are undefined."""
        return tuple(k for k in self.ks or range(1, num_trials + 1) if k <= num_trials)


class CommandProposerSpec(Section):
    """A program that edits a candidate."""

    kind: Literal["command"] = Field(description="A program.")
    command: Command = Field(
        description="The program and its arguments: a list, or one text that is split at spaces and "
        "quotation marks; no shell runs."
    )
    timeout_s: Limit = Field(600.0, description="Seconds until the program is ended.")
    env: Environment = Field(
        default_factory=dict, repr=False, description="Environment variables for the program."
    )

    def argv(self) -> tuple[str, ...]:
        """Returns the program and its arguments."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command


class ScriptProposerSpec(Section):
    """A file of prepared edits, for tests and demonstrations."""

    kind: Literal["script"] = Field(description="Prepared edits.")
    file: Text = Field(description="The file, relative to capevolve.yaml.")


ProposerSpec = Annotated[CommandProposerSpec | ScriptProposerSpec, Field(discriminator="kind")]


class SearchSpec(Section):
    """What is tried, and for how long."""

    kind: Literal["hill_climb"] = Field("hill_climb", description="The policy.")
    max_iterations: Count = Field(10, description="Proposals at most.")
    stall: Count = Field(0, description="Stop after this many rejects in a row; 0 never stops early.")


class BudgetSpec(Section):
    """What a run may spend. A cap that is left out does not exist; 0 lets nothing be spent."""

    max_calls: Count | None = Field(None, description="Calls of the target at most; retries count.")
    max_usd: NotNegative | None = Field(None, description="US dollars in all.")
    max_proposer_usd: NotNegative | None = Field(None, description="US dollars for the proposer.")
    max_minutes: NotNegative | None = Field(None, description="Minutes of driving a run.")


class SealSpec(Section):
    """How the test split is scored, once."""

    num_trials: Positive | None = Field(
        None, description="Trials per test task; left out: evaluation.num_trials."
    )
    max_test_looks: Positive | None = Field(
        None, description="Refuse to score a test set that was looked at this often, over all runs."
    )
    interrupted: Literal["rerun", "missing"] = Field(
        "rerun",
        description='A test trial cut off without a result: "rerun" it in the same attempt, or "missing".',
    )


class ProjectSpec(Section):
    """All of `capevolve.yaml`."""

    name: Name = Field(description="The project's name; left out: the name of its directory.")
    adapter: AdapterName | None = Field(
        "adapter.py",
        description="adapter.py, adapter.py:ClassName or package.module:ClassName; left out: adapter.py or "
        "adapters/adapter.py. Instead of it: tasks, target and scoring.",
    )
    tasks: TasksSpec | None = Field(None, description=TasksSpec.__doc__)
    target: TargetSpec | None = Field(
        None, description="What runs a task: a command, an openai model or a python function."
    )
    scoring: ScoringSpec | None = Field(None, description="What scores an answer.")
    seed_candidate: SeedCandidate = Field(
        "seed", description="Directory of what the agent reads, to start from."
    )
    ledger: LedgerUrl | None = Field(
        None, repr=False, description="SQLAlchemy URL; left out: .capevolve/ledger.db, an SQLite file."
    )
    editable: Patterns = Field(
        ("**",), description="Glob patterns of the candidate's files that a proposal may touch."
    )
    splits: SplitsSpec = Field(default_factory=SplitsSpec, description=SplitsSpec.__doc__)
    evaluation: EvaluationSpec = Field(default_factory=EvaluationSpec, description=EvaluationSpec.__doc__)
    gate: GateSpec = Field(default_factory=GateSpec, description=GateSpec.__doc__)
    proposer: ProposerSpec | None = Field(None, description="Who edits candidates: a command or a script.")
    search: SearchSpec = Field(default_factory=SearchSpec, description=SearchSpec.__doc__)
    budget: BudgetSpec = Field(default_factory=BudgetSpec, description=BudgetSpec.__doc__)
    seal: SealSpec = Field(default_factory=SealSpec, description=SealSpec.__doc__)

    @model_validator(mode="before")
    @classmethod
    def _drop_the_default_adapter(cls, data: object) -> object:
        if isinstance(data, dict) and any(data.get(key) is not None for key in READY_KEYS):
            return {"adapter": None, **data}
        return data

    @model_validator(mode="after")
    def _adapter_or_sections(self) -> Self:
        fault = ready_fault(self.adapter, {key: getattr(self, key) for key in READY_KEYS})
        if fault:
            raise ValueError(fault)
        return self

    @model_validator(mode="after")
    def _ks_are_measured(self) -> Self:
        most = max(self.evaluation.num_trials, self.seal_trials())
        beyond = [k for k in self.evaluation.ks or () if k > most]
        if beyond:
            raise ValueError(f"evaluation.ks asks for k = {beyond[0]}, but num_trials is {most}")
        return self

    def ready(self) -> ReadySpec | None:
        """Returns the sections that stand in for an adapter; None when there is one."""
        if self.tasks is None or self.target is None or self.scoring is None:
            return None
        return ReadySpec(tasks=self.tasks, target=self.target, scoring=self.scoring)

    def base_seed(self) -> int:
        """Returns the seed of trial 0."""
        base = self.evaluation.base_seed
        return self.splits.seed if base is None else base

    def seal_trials(self) -> int:
        """Returns the trials per task on test."""
        return self.seal.num_trials or self.evaluation.num_trials
