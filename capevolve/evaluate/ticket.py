"""The ticket without which the test split is not evaluated.

A ticket is worth only what the ledger says: it names an attempt, and every evaluation of test checks in
the ledger that this attempt is open, that its plan is the ticket's plan, and that the plan covers exactly
the candidate, tasks, trials and seeds asked for, once. Only `capevolve.seal` opens attempts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from capevolve.canonical import canonical_json, digest
from capevolve.errors import TestSealError
from capevolve.ledger.attempts import find_attempt
from capevolve.ledger.evaluations import EvaluationKey, list_evaluations
from capevolve.model import TaskRef


@dataclass(frozen=True, slots=True)
class TestPlan:
    """Everything that decides what the test numbers of an attempt will be.

    Attributes:
        best_id, seed_id: Digests of the two candidates that are scored.
        tasks: (task id, content digest) of every test task, sorted.
        ks: The k of pass^k that will be reported.
        adapter_files: (path, digest) of the adapter, its scorer and the project modules they import.
    """

    __test__ = False  # not a pytest class, whatever its name says

    best_id: str
    seed_id: str
    tasks: tuple[tuple[str, str], ...]
    num_trials: int
    base_seed: int
    ks: tuple[int, ...]
    adapter_files: tuple[tuple[str, str], ...]
    version: str

    def to_json(self) -> str:
        """The plan's canonical JSON."""
        return canonical_json(asdict(self))

    @property
    def digest(self) -> str:
        """The digest of the plan's canonical JSON."""
        return digest(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TestPlan:
        """Reads a plan back."""
        values = json.loads(text)
        for key in ("tasks", "adapter_files"):
            values[key] = tuple((a, b) for a, b in values[key])
        values["ks"] = tuple(values["ks"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Ticket:
    """Admission to the test split for one open attempt, with the tasks the seal released."""

    run_id: str
    attempt_id: int
    plan_digest: str
    tasks: tuple[TaskRef, ...]


def check_ticket(connection: Connection, key: EvaluationKey, ticket: Ticket | None) -> None:
    """Refuses an evaluation of test that no open attempt covers.

    Raises:
        TestSealError: There is no ticket, its attempt is not open, or its plan says something else.
    """
    if ticket is None:
        raise _refusal("The test split is sealed: evaluating it takes the ticket that finalize holds.", key)
    attempt = find_attempt(connection, ticket.attempt_id)
    if attempt is None or attempt.run_id != key.run_id or ticket.run_id != key.run_id:
        raise _refusal("This ticket belongs to no attempt of this run.", key)
    if attempt.state != "open":
        raise _refusal(f"This ticket's attempt is {attempt.state}: the test split is sealed again.", key)
    plan = TestPlan.from_json(attempt.plan)
    asked = tuple(sorted((task.id, task.digest) for task in ticket.tasks))
    covered = (
        plan.digest == attempt.plan_digest == ticket.plan_digest
        and asked == plan.tasks
        and key.attempt_id == attempt.id
        and key.candidate_id in (plan.best_id, plan.seed_id)
        and (key.num_trials, key.base_seed) == (plan.num_trials, plan.base_seed)
        and key.subset is None
    )
    if not covered:
        raise _refusal("The open attempt's plan does not cover this evaluation.", key)
    for other in list_evaluations(connection, key.run_id):
        same = (other.key.attempt_id, other.key.candidate_id) == (key.attempt_id, key.candidate_id)
        if same and other.key.tag != key.tag:
            raise _refusal(f"This attempt already scores this candidate, as {other.key.tag!r}.", key)


def _refusal(what: str, key: EvaluationKey) -> TestSealError:
    return TestSealError(
        what,
        where=f"run {key.run_id}",
        fix=f"Select on val; the test number comes once, from: capevolve finalize {key.run_id}.",
    )
