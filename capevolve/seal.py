"""The seal of the test split: SEALED -> OPEN(plan) -> COMMITTED(result).

The test split estimates; it never selects. So its numbers are produced once per look, and every look is on
record. The rules, each enforced here and nowhere else:

1. *Reserve.* Asking changes nothing. A committed run answers with its result; it is not scored again.
2. *Attempt guard.* Before the first test task leaves, the plan of the attempt is stored: both candidates,
   every test task with its content, trials, seeds, ks, adapter files, version. The same plan again is the
   same attempt: recorded trials are reused and only trials without a result run. A different plan, once any
   trial was claimed, is refused.
3. *Commit.* The result, the digests of the run's rows and the burned seal are one transaction. `final.json`
   is its projection.
4. *Override.* A further attempt takes a reason in words. It is a new attempt and a new look; both stay on
   record for ever.
5. *Looks* are counted over all runs of the ledger by the contents (or the ids) of the test set, so neither
   renaming nor shuffling resets them. `max_test_looks` refuses before the first call.
6. Every step is a link of a hash chain. Test tasks leave the ledger only through `open_attempt`.

The limit: this is tamper-evident, not tamper-proof. Who can write the database can rewrite the chain; that
is why its head is also published where others keep it (a Prefect artifact, an exported bundle).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from capevolve.canonical import canonical_json, digest
from capevolve.errors import TamperError, TestSealError
from capevolve.evaluate.ticket import TestPlan, Ticket
from capevolve.failpoints import failpoint
from capevolve.ledger import attempts as rows
from capevolve.ledger.attempts import AttemptRecord, SealEvent
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.evidence import digest_run
from capevolve.ledger.leases import Driver, check_lease
from capevolve.ledger.runs import SplitSet, find_splits, read_sealed_split
from capevolve.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class Sealed:
    """No attempt was opened."""


@dataclass(frozen=True, slots=True)
class Open:
    """An attempt is open; `claims` of its test trials may have been called."""

    attempt: AttemptRecord
    claims: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The test numbers exist: `attempt.result`."""

    attempt: AttemptRecord


SealState = Sealed | Open | Committed


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a finalize wants to score; the seal adds the test tasks to make it a plan."""

    best_id: str
    seed_id: str
    num_trials: int
    base_seed: int
    ks: tuple[int, ...]
    adapter_files: tuple[tuple[str, str], ...]
    version: str


def read_state(connection: Connection, run_id: str) -> SealState:
    """The state of a run's seal: that of its latest attempt."""
    attempts = rows.read_attempts(connection, run_id)
    if not attempts:
        return Sealed()
    last = attempts[-1]
    if last.state == "committed":
        return Committed(last)
    return Open(last, rows.count_claims(connection, last.id))


def reserve(connection: Connection, run_id: str) -> Sealed | Open:
    """Asks for the test split without burning anything.

    Raises:
        TestSealError: The run is committed: its result exists and is not scored again.
    """
    state = read_state(connection, run_id)
    if isinstance(state, Committed):
        raise TestSealError(
            "The test split of this run was scored; it is scored once.",
            where=f"run {run_id}, attempt {state.attempt.number}, look {state.attempt.look}",
            fix=f"Read the result: capevolve report {run_id}. A further look needs a reason: "
            f"capevolve finalize {run_id} --allow-test-rescore REASON.",
        )
    return state


def open_attempt(
    ledger: Ledger,
    driver: Driver,
    request: PlanRequest,
    *,
    now: float,
    override_reason: str | None = None,
    max_looks: int | None = None,
) -> Ticket:
    """Opens an attempt at the test split, or finds the open one with the same plan again.

    Args:
        request: What is to be scored.
        now: The time, in seconds since the epoch.
        override_reason: Why the test split may be scored although it was before.
        max_looks: Looks at this test set, over all runs, after which no attempt opens.

    Returns:
        The ticket for the evaluations of this attempt, with the test tasks.

    Raises:
        TestSealError: The run is committed, or trials of another plan were claimed, and no reason was
            given; or the looks are used up.
        FencedError: Another driver took the run over.
    """
    with ledger.write() as connection:
        check_lease(connection, driver)
        rows.lock_attempts(connection)
        tasks = tuple(task.ref for task in read_sealed_split(connection, driver.run_id))
        plan = TestPlan(tasks=tuple(sorted((task.id, task.digest) for task in tasks)), **asdict(request))
        state = _admit(connection, driver.run_id, plan, override_reason)
        failpoint("seal.admitted")
        attempt_id = _enter(connection, driver, plan, state, override_reason, max_looks, now)
    failpoint("seal.opened")
    return Ticket(driver.run_id, attempt_id, plan.digest, tasks)


def _admit(connection: Connection, run_id: str, plan: TestPlan, reason: str | None) -> SealState:
    """Refuses what the rules refuse without an override."""
    if reason is not None:
        return read_state(connection, run_id)
    state = reserve(connection, run_id)
    if isinstance(state, Open) and state.claims and state.attempt.plan_digest != plan.digest:
        raise TestSealError(
            f"The open attempt scored {state.claims} test trials with another plan: "
            + "; ".join(name_differences(TestPlan.from_json(state.attempt.plan), plan)),
            where=f"run {run_id}, attempt {state.attempt.number}",
            fix="Restore what changed and finalize again: it continues the open attempt. To drop that "
            f"attempt and take another look: capevolve finalize {run_id} --allow-test-rescore REASON.",
        )
    return state


def _enter(
    connection: Connection,
    driver: Driver,
    plan: TestPlan,
    state: SealState,
    reason: str | None,
    max_looks: int | None,
    now: float,
) -> int:
    """Continues the open attempt, replans one that never called the target, or adds a new one."""
    if isinstance(state, Open) and state.attempt.plan_digest == plan.digest:
        _append(connection, driver, "continued", {"attempt": state.attempt.number}, now)
        return state.attempt.id
    if isinstance(state, Open) and state.claims == 0:
        rows.replan_attempt(connection, state.attempt.id, plan.to_json(), plan.digest)
        payload = {"attempt": state.attempt.number, "plan": plan.digest, "was": state.attempt.plan_digest}
        _append(connection, driver, "replanned", payload, now)
        return state.attempt.id
    splits = _frozen_splits(connection, driver.run_id)
    look = count_earlier_looks(connection, splits) + 1
    if max_looks is not None and look > max_looks:
        raise TestSealError(
            f"This would be look {look} at this test set; max_test_looks is {max_looks}.",
            where=f"run {driver.run_id}",
            fix="Collect fresh test tasks, or raise seal.max_test_looks and say so with the number.",
        )
    number = 1
    if isinstance(state, Open | Committed):
        number = state.attempt.number + 1
        if isinstance(state, Open):
            rows.supersede_attempt(connection, state.attempt.id, now)
    attempt_id = rows.insert_attempt(
        connection,
        run_id=driver.run_id,
        number=number,
        plan=plan.to_json(),
        plan_digest=plan.digest,
        test_digest=splits.test_digest,
        test_ids_digest=splits.test_ids_digest,
        look=look,
        override_reason=reason if number > 1 else None,
        now=now,
    )
    payload = {
        "attempt": number,
        "plan": plan.digest,
        "splits": splits.digest,
        "look": look,
        "override": reason if number > 1 else None,
    }
    _append(connection, driver, "opened", payload, now)
    return attempt_id


def commit(ledger: Ledger, driver: Driver, ticket: Ticket, result: str, *, now: float) -> None:
    """Stores the result and burns the seal, in one transaction.

    Raises:
        TestSealError: The attempt is not open, or one of its evaluations is not finished.
        FencedError: Another driver took the run over.
    """
    failpoint("seal.scored")
    with ledger.write() as connection:
        check_lease(connection, driver)
        attempt = rows.find_attempt(connection, ticket.attempt_id)
        if attempt is None or attempt.state != "open" or attempt.plan_digest != ticket.plan_digest:
            raise TestSealError("There is no open attempt with this plan to commit.", where=driver.run_id)
        plan = TestPlan.from_json(attempt.plan)
        mine = [e for e in list_evaluations(connection, driver.run_id) if e.key.attempt_id == attempt.id]
        if not {plan.best_id, plan.seed_id} <= {
            e.key.candidate_id for e in mine if e.finished_at is not None
        }:
            raise TestSealError(
                "The attempt still has test trials without a result.",
                where=f"run {driver.run_id}, attempt {attempt.number}",
                fix=f"Finish it: capevolve finalize {driver.run_id}.",
            )
        rows.commit_attempt(connection, attempt.id, result, now)
        failpoint("seal.committing")
        payload = {"attempt": attempt.number, "plan": attempt.plan_digest, "result": digest(result)}
        evidence = digest_run(connection, driver.run_id).to_payload()
        _append(connection, driver, "committed", {**payload, "evidence": evidence}, now)
    failpoint("seal.committed")


def name_differences(old: TestPlan, new: TestPlan) -> list[str]:
    """Names every difference between two plans, in words."""
    before, after = asdict(old), asdict(new)
    return [
        f"{key} was {_show(before[key])}, is {_show(after[key])}"
        for key in before
        if before[key] != after[key]
    ]


def _show(value: object) -> str:
    text = canonical_json(value)
    return text if len(text) <= 90 else f"{len(text)} characters with {digest(value)[:19]}"


def count_earlier_looks(connection: Connection, splits: SplitSet) -> int:
    """Attempts of all runs at this test set so far."""
    counted = rows.count_looks(connection, splits.test_digest, splits.test_ids_digest)
    return max(counted, rows.highest_look(connection, splits.test_digest))


def _frozen_splits(connection: Connection, run_id: str) -> SplitSet:
    splits = find_splits(connection, run_id)
    if splits is None or splits.size("test") == 0:
        raise TestSealError("There is no frozen test split to open.", where=f"run {run_id}")
    return splits


def _append(
    connection: Connection, driver: Driver, kind: str, payload: dict[str, object], now: float
) -> None:
    chain = rows.read_seal_events(connection, driver.run_id)
    body = canonical_json({**payload, "epoch": driver.epoch})
    previous = chain[-1].hash if chain else genesis(driver.run_id)
    link = SealEvent(driver.run_id, len(chain) + 1, kind, body, now, previous, "")
    rows.insert_seal_event(connection, _with_hash(link))


def genesis(run_id: str) -> str:
    """What the first link of a run's chain follows."""
    return digest(["capevolve seal", run_id])


def _with_hash(link: SealEvent) -> SealEvent:
    body = [link.run_id, link.seq, link.kind, link.payload, link.at, link.previous]
    return SealEvent(link.run_id, link.seq, link.kind, link.payload, link.at, link.previous, digest(body))


def read_head(connection: Connection, run_id: str) -> str:
    """The hash of the chain's last link; the genesis hash when there is none."""
    chain = rows.read_seal_events(connection, run_id)
    return chain[-1].hash if chain else genesis(run_id)


def check_chain(run_id: str, chain: Sequence[SealEvent]) -> None:
    """Recomputes the chain of a run.

    Raises:
        TamperError: A link was edited, removed, added or moved.
    """
    previous = genesis(run_id)
    for seq, link in enumerate(chain, start=1):
        if link.seq != seq or link.previous != previous or _with_hash(link).hash != link.hash:
            raise TamperError("The chain of seal events is broken.", where=f"seal_events, {run_id}, {seq}")
        previous = link.hash
