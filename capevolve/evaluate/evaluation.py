"""The doors to an evaluation: `evaluate` for one candidate, `evaluate_together` for interleaved ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sqlalchemy import Connection

from capevolve.budget import Allowance, Remaining
from capevolve.candidates import load_candidate
from capevolve.errors import BudgetExhaustedError, UserError
from capevolve.evaluate.batches import arrange_arm
from capevolve.evaluate.execute import Executor
from capevolve.evaluate.flight import Arm, Execution
from capevolve.evaluate.inputs import check_adapter, make_pool, write_copy
from capevolve.evaluate.measurement import read_measurement
from capevolve.evaluate.opening import open_admission
from capevolve.evaluate.plan import TrialPlan, plan_trials
from capevolve.evaluate.progress import Progress, ignore_progress
from capevolve.evaluate.ticket import Ticket, check_ticket
from capevolve.failpoints import failpoint
from capevolve.ledger.evaluations import (
    EvaluationKey,
    Fence,
    check_fence,
    finish_evaluation,
    open_evaluation,
    read_evaluation,
)
from capevolve.ledger.runs import RunRecord, read_run, read_split
from capevolve.ledger.trials import (
    TrialResult,
    claim_trials,
    count_finished,
    read_target_spend,
    read_task_durations,
    read_trials,
    record_results,
)
from capevolve.model import SPLITS, Measurement, Reason, Split, TaskRef, Unmeasured
from capevolve.runs import OpenRun

TEST_INTERRUPTIONS = 2
"""A test trial interrupted this often is missing data; `seal.interrupted: missing` makes it 1."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A candidate to evaluate.

    Attributes:
        num_trials: Trials per task; None is the spec's `evaluation.num_trials`.
        ids: Only these tasks of the split. Such a measurement is a subset and never gates.
        tag: Sets this evaluation apart from others of the same candidate, split and trials.
        base_seed: The seed of trial 0; None is the spec's. Never for test, whose seeds the attempt fixes.
    """

    candidate_id: str
    split: Split
    num_trials: int | None = None
    ids: tuple[str, ...] | None = None
    tag: str = ""
    base_seed: int | None = None

    @property
    def title(self) -> str:
        """A short name for people: the tag without the digests in it, else the split."""
        return " ".join(self.tag.split("/")[:2]) or self.split


@dataclass(frozen=True, slots=True)
class _Work:
    """An opened evaluation: its fence, its tasks, and what is left to do."""

    request: EvaluationRequest
    fence: Fence
    tasks: tuple[TaskRef, ...]
    plan: TrialPlan


@dataclass(frozen=True, slots=True)
class _Opened:
    """The evaluations of one call, and what the run's ledger says of the target so far."""

    record: RunRecord
    works: tuple[_Work, ...]
    dearest_usd: float | None


async def evaluate(
    run: OpenRun,
    request: EvaluationRequest,
    *,
    ticket: Ticket | None = None,
    remaining: Remaining | None = None,
    on_progress: Callable[[Progress], None] = ignore_progress,
) -> Measurement:
    """Evaluates a candidate on a split. Asked again, it continues: finished trials are never called again.

    Args:
        ticket: The seal's ticket; without it the test split is refused.
        remaining: What may be spent; None is no cap.
        on_progress: Called after every commit.

    Raises:
        TestSealError: The test split without the ticket of an open attempt.
        BudgetExhaustedError: A cap was reached; what was measured is kept.
        AdapterError: The adapter or the candidate cannot be loaded.
        TamperError: The adapter changed since the run was started, or the target edited its candidate.
    """
    measurements = await evaluate_together(
        run, [request], ticket=ticket, remaining=remaining, on_progress=on_progress
    )
    return measurements[0]


async def evaluate_together(
    run: OpenRun,
    requests: Sequence[EvaluationRequest],
    *,
    ticket: Ticket | None = None,
    remaining: Remaining | None = None,
    on_progress: Callable[[Progress], None] = ignore_progress,
) -> list[Measurement]:
    """Evaluates candidates interleaved, task by task, in one queue. See `evaluate`."""
    opened = _open(run, requests, ticket)
    works = opened.works
    progress = Progress(
        title=" + ".join(request.title for request in requests),
        done=sum(work.plan.finished + len(work.plan.lost) for work in works),
        total=sum(work.plan.total for work in works),
    )
    on_progress(progress)
    allowance = Allowance(remaining or Remaining(), run.clock, opened.dearest_usd)
    if any(work.plan.todo for work in works):
        await _execute(run, opened, allowance, progress, on_progress)
    failpoint("evaluate.executed")
    with run.ledger.write() as connection:
        unfinished = [work for work in works if not _is_finished(connection, work)]
        for work in works:
            if work not in unfinished:
                finish_evaluation(connection, work.fence, run.clock())
    if unfinished:
        raise BudgetExhaustedError(
            f"The evaluation stopped: {allowance.exhausted}. What was measured is kept.",
            fix=f"Raise the cap in capevolve.yaml and run: capevolve run --resume {run.id}.",
        )
    failpoint("evaluate.finished")
    with run.ledger.read() as connection:
        return [
            read_measurement(connection, read_evaluation(connection, work.fence.evaluation_id), work.tasks)
            for work in works
        ]


def _open(run: OpenRun, requests: Sequence[EvaluationRequest], ticket: Ticket | None) -> _Opened:
    """Opens a session on each evaluation and settles what earlier sessions left behind."""
    if len({_key(run, request, ticket) for request in requests}) < len(requests):
        raise UserError("The same evaluation was asked for twice at once.", where=f"run {run.id}")
    with run.ledger.write() as connection:
        record = read_run(connection, run.id)
        durations = read_task_durations(connection, run.id)
        works = []
        for request in requests:
            key = _key(run, request, ticket)
            tasks = _tasks(connection, key, ticket)
            load_candidate(connection, key.candidate_id)
            fence = open_evaluation(connection, run.driver, key, run.clock())
            plan = plan_trials(
                tasks,
                read_trials(connection, fence.evaluation_id),
                num_trials=key.num_trials,
                base_seed=key.base_seed,
                max_interruptions=_max_interruptions(run, request.split),
                durations=durations,
            )
            _record_lost(connection, fence, plan, run.clock())
            works.append(_Work(request, fence, tasks, plan))
        dearest_usd = read_target_spend(connection, run.id).dearest_usd
    failpoint("evaluate.opened")
    return _Opened(record, tuple(works), dearest_usd)


def _key(run: OpenRun, request: EvaluationRequest, ticket: Ticket | None) -> EvaluationKey:
    test = request.split == "test"
    if request.split not in SPLITS:
        raise UserError(f"There is no split {request.split!r}.", where="split", fix="Use train or val.")
    if request.num_trials is not None and request.num_trials < 1:
        raise UserError("An evaluation takes at least one trial per task.", where="num_trials")
    return EvaluationKey(
        run_id=run.id,
        candidate_id=request.candidate_id,
        split=request.split,
        num_trials=request.num_trials or run.spec.evaluation.num_trials,
        base_seed=run.spec.base_seed() if request.base_seed is None or test else request.base_seed,
        tag=request.tag,
        subset=None if request.ids is None else tuple(sorted(set(request.ids))),
        attempt_id=ticket.attempt_id if test and ticket is not None else None,
    )


def _tasks(connection: Connection, key: EvaluationKey, ticket: Ticket | None) -> tuple[TaskRef, ...]:
    """The tasks to evaluate, in split order."""
    if key.split == "test":
        check_ticket(connection, key, ticket)
        return ticket.tasks if ticket is not None else ()
    refs = tuple(task.ref for task in read_split(connection, key.run_id, key.split))
    if key.subset is not None:
        unknown = sorted(set(key.subset) - {ref.id for ref in refs})
        if unknown or not key.subset:
            raise UserError(
                f"The {key.split} split has no task {unknown[0]!r}." if unknown else "No task was named.",
                where="ids",
                fix=f"`capevolve status {key.run_id}` says where the split is listed.",
            )
        refs = tuple(ref for ref in refs if ref.id in set(key.subset))
    if not refs:
        raise UserError(f"The {key.split} split is empty: there is nothing to measure.", where=key.run_id)
    return refs


def _max_interruptions(run: OpenRun, split: Split) -> int:
    if split == "test":
        return 1 if run.spec.seal.interrupted == "missing" else TEST_INTERRUPTIONS
    return run.spec.evaluation.max_interruptions


def _record_lost(connection: Connection, fence: Fence, plan: TrialPlan, now: float) -> None:
    if not plan.lost:
        return
    check_fence(connection, fence)
    claim_trials(connection, fence, plan.lost, now)
    results = [
        TrialResult(
            claim.task_id,
            claim.trial,
            Unmeasured(Reason.INTERRUPTED, f"interrupted {claim.interrupted} times without a result"),
        )
        for claim in plan.lost
    ]
    record_results(connection, fence, results, now)


def _is_finished(connection: Connection, work: _Work) -> bool:
    return count_finished(connection, work.fence.evaluation_id) == work.plan.total


async def _execute(
    run: OpenRun,
    opened: _Opened,
    allowance: Allowance,
    progress: Progress,
    on_progress: Callable[[Progress], None],
) -> None:
    settings = run.spec.evaluation
    works = opened.works
    test = any(work.request.split == "test" for work in works)
    admission = open_admission(run)
    prefetch = not test and len(works) == 1 and admission.prefetch
    scratch = run.folder / "work"
    async with AsyncExitStack() as stack:
        arms = []
        for work in works:
            if not work.plan.todo:
                continue
            folder = scratch / f"evaluation-{work.fence.evaluation_id}-{work.fence.session}"
            copy = write_copy(run.ledger, work.request.candidate_id, folder)
            stack.callback(copy.remove)
            pool = make_pool(run, folder, expected=len(work.plan.todo), prefetch=prefetch)
            await stack.enter_async_context(pool)
            facts = await pool.facts()
            check_adapter(opened.record, facts)
            digests = {task.id: task.digest for task in work.tasks}
            arm = Arm(work.fence, pool, digests, deque(work.plan.todo), copy.check)
            if arrange_arm(arm, facts.hook):
                prefetch = False  # a call is claimed when it begins
            arms.append(arm)
        executor = Executor(
            ledger=run.ledger,
            arms=arms,
            settings=Execution(
                settings.concurrency,
                prefetch,
                settings.retries,
                settings.retry_wait_s,
                settings.rate_limit_retries,
                settings.timeout_is,
            ),
            allowance=allowance,
            clock=run.clock,
            on_progress=on_progress,
            progress=progress,
            admission=admission,
        )
        await executor.run()
