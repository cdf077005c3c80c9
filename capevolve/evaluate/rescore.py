"""Scores stored rollouts of train and val again with the project's current scorer; the target is not called.

What comes of it are rows of their own. Trials, measurements and verdicts stay as they are: they were claimed
under the scorer of their run.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from capevolve.adapters.listing import list_tasks
from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import AdapterFacts, AdapterRef, TaskListing, TrialReply, TrialRequest
from capevolve.adapters.rescoring import (
    FOLDER_VARIABLE,
    MAKER,
    READY_VARIABLE,
    TARGET_VARIABLE,
    drop_rollout,
    write_rollout,
)
from capevolve.canonical import canonical_json
from capevolve.errors import AdapterError, TestSealError
from capevolve.evaluate.measurement import read_tasks
from capevolve.evaluate.stored import Failed, Unfit, read_stored
from capevolve.ledger.evaluations import EvaluationRecord, list_evaluations
from capevolve.ledger.rescores import RescoreRow, insert_rescores, next_asking, read_rescores
from capevolve.ledger.rollouts import RolloutRow, read_rollouts_after
from capevolve.ledger.store import Ledger
from capevolve.ledger.trials import TrialRow, read_trials
from capevolve.model import Scored, Split, TaskRef
from capevolve.spec.models import EvaluationSpec

AGENT_FAILED = "the agent failed: 0 under any scorer"

_PAGE = 64
_UNFIT = frozenset(Unfit)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Rescored:
    """An evaluation whose rollouts were scored again.

    Attributes:
        tasks: Its tasks in split order.
        trials: Its trials as they were recorded.
        again: What the current scorer says, by task id and trial; a trial whose target left nothing has none.
    """

    evaluation: EvaluationRecord
    tasks: tuple[TaskRef, ...]
    trials: tuple[TrialRow, ...]
    again: dict[tuple[str, int], RescoreRow]


@dataclass(frozen=True, slots=True)
class Rescoring:
    """A run scored again: by which adapter, what was asked for now, and every evaluation."""

    facts: AdapterFacts
    scored_now: int
    evaluations: tuple[Rescored, ...]


@dataclass(frozen=True, slots=True)
class _Item:
    """A rollout on its way to the scorer."""

    row: TrialRow
    digest: str
    fields: dict[str, object]


def select_evaluations(
    evaluations: Sequence[EvaluationRecord], split: str | None, candidate_id: str | None
) -> tuple[EvaluationRecord, ...]:
    """The evaluations of train and val, or of one of them, of all candidates or of one.

    Raises:
        TestSealError: The test split was asked for.
    """
    if split == "test":
        raise TestSealError(
            "Rollouts of the test split are never scored again: its number was claimed under one scorer.",
            where="--split test",
            fix="A changed scorer needs a new run, and its test number is a new look.",
        )
    splits: tuple[Split, ...] = ("train", "val")
    return tuple(
        evaluation
        for evaluation in evaluations
        if evaluation.key.split in splits
        and split in (None, evaluation.key.split)
        and candidate_id in (None, evaluation.key.candidate_id)
    )


async def rescore(
    ledger: Ledger,
    run_id: str,
    adapter: AdapterRef,
    settings: EvaluationSpec,
    *,
    split: str | None = None,
    candidate_id: str | None = None,
    again: bool = False,
    clock: Clock,
) -> Rescoring:
    """Scores the stored rollouts of a run again; what the same adapter has scored already is not asked again.

    Args:
        adapter: The project's current adapter; `score` is called in a host, without `live`.
        settings: How many at once, and the limit of each.
        split: `train` or `val`; None is both.
        candidate_id: Of one candidate only.
        again: Ask about all of them anew: what a scorer reads beside its modules is in no adapter's digest.

    Raises:
        TestSealError: The test split was asked for.
        AdapterError: The adapter cannot be loaded, or no longer has a task as the splits froze it.
    """
    with ledger.read() as connection:
        chosen = select_evaluations(list_evaluations(connection, run_id), split, candidate_id)
        tasks = {evaluation.id: read_tasks(connection, evaluation) for evaluation in chosen}
    listing = await list_tasks(adapter, timeout_s=settings.timeout_s)
    check_tasks(listing, [ref for refs in tasks.values() for ref in refs])
    count = 0
    with tempfile.TemporaryDirectory(prefix="capevolve-rescore-") as scratch:
        folder = Path(scratch)
        async with _make_pool(adapter, settings, folder) as pool:
            for evaluation in chosen:
                digests = {ref.id: ref.digest for ref in tasks[evaluation.id]}
                work = _Work(ledger, evaluation, listing.facts.digest, digests, clock, again)
                count += await work.run(pool, folder)
    with ledger.read() as connection:
        done = tuple(
            Rescored(
                evaluation,
                tasks[evaluation.id],
                read_trials(connection, evaluation.id),
                read_rescores(connection, evaluation.id, listing.facts.digest),
            )
            for evaluation in chosen
        )
    return Rescoring(listing.facts, count, done)


def _make_pool(adapter: AdapterRef, settings: EvaluationSpec, folder: Path) -> HostPool:
    """Hosts that score the rollouts laid ready in a folder."""
    (folder / "empty").mkdir()
    return HostPool(
        AdapterRef(adapter.root, MAKER),
        folder / "empty",
        slots=settings.concurrency,
        timeout_s=settings.timeout_s,
        grace_s=settings.grace_s,
        trials_per_host=settings.trials_per_host,
        env={
            TARGET_VARIABLE: adapter.target,
            READY_VARIABLE: adapter.ready,
            FOLDER_VARIABLE: str(folder),
        },
    )


def check_tasks(listing: TaskListing, refs: Sequence[TaskRef]) -> None:
    """Refuses an adapter whose tasks are not those that the splits froze.

    Raises:
        AdapterError: A task is gone, or its content changed.
    """
    now = {task.id: task.digest for task in listing.tasks}
    for ref in refs:
        if now.get(ref.id) != ref.digest:
            what = "changed since" if ref.id in now else "is gone: it was there when"
            raise AdapterError(
                f"task {ref.id!r} {what} the splits were frozen, so its rollouts answer another question",
                where="tasks('all')",
                fix="restore the task's content, or start a new run with new splits",
            )


@dataclass(slots=True)
class _Work:
    """One evaluation to score again; neither a transaction nor more than a page of payloads is held."""

    ledger: Ledger
    evaluation: EvaluationRecord
    adapter_digest: str
    digests: dict[str, str]
    clock: Clock
    again: bool
    settled: list[RescoreRow] = field(default_factory=list)

    async def run(self, pool: HostPool, folder: Path) -> int:
        """Scores what this adapter has not scored yet; returns how many rollouts that were."""
        with self.ledger.read() as connection:
            asked = next_asking(connection, self.evaluation.id, self.adapter_digest)
        items, flights, count = self._read_items(), dict[int, _Item](), 0
        while True:
            requests = []
            for item in itertools.islice(items, pool.free()):
                write_rollout(folder, count, item.fields)
                flights[count] = item
                requests.append(TrialRequest(count, item.row.task_id, item.digest, item.row.trial, count))
                count += 1
            if requests:
                pool.submit(requests)
            replies = await pool.replies() if flights else []
            for reply in replies:
                drop_rollout(folder, reply.key)
                self.settled.append(_describe(flights.pop(reply.key).row, reply))
            self._record(asked)
            if not replies:
                return count

    def _record(self, asked: int) -> None:
        """Keeps what was said so far: a scorer may be paid for."""
        rows, self.settled = self.settled, []
        if rows:
            with self.ledger.write() as connection:
                insert_rescores(
                    connection, self.evaluation.id, self.adapter_digest, asked, rows, self.clock()
                )

    def _read_items(self) -> Iterator[_Item]:
        """The rollouts to score; what cannot be scored is settled on the way."""
        with self.ledger.read() as connection:
            rows = {(row.task_id, row.trial): row for row in read_trials(connection, self.evaluation.id)}
            known = read_rescores(connection, self.evaluation.id, self.adapter_digest)
        settled = known.items() if not self.again else ()
        final = {key for key, row in settled if row.reward is not None or row.reason in _UNFIT}
        for rollout in self._read_rollouts():
            row = rows.get((rollout.task_id, rollout.trial))
            if row is None or (row.task_id, row.trial) in final:
                continue
            stored = read_stored(row, rollout.payload)
            if isinstance(stored, Unfit):
                self.settled.append(RescoreRow(row.task_id, row.trial, None, stored.value))
            elif isinstance(stored, Failed):
                failed = RescoreRow(row.task_id, row.trial, 0.0, None, AGENT_FAILED, rollout.feedback)
                self.settled.append(failed)
            elif stored is not None:
                yield _Item(row, self.digests[row.task_id], stored)

    def _read_rollouts(self) -> Iterator[RolloutRow]:
        place = None
        while True:
            with self.ledger.read() as connection:
                page = read_rollouts_after(connection, self.evaluation.id, place, _PAGE)
            if not page:
                return
            yield from page
            place = (page[-1].task_id, page[-1].trial)


def _describe(row: TrialRow, reply: TrialReply) -> RescoreRow:
    outcome = reply.outcome
    metrics = canonical_json([asdict(metric) for metric in reply.metrics])
    if isinstance(outcome, Scored):
        return RescoreRow(row.task_id, row.trial, outcome.reward, None, "", reply.feedback, metrics)
    return RescoreRow(row.task_id, row.trial, None, outcome.reason.value, outcome.detail)
