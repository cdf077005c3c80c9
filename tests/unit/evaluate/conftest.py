"""An executor on a real ledger with a pool that answers as a test says, and projects with real hosts."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capevolve.adapters.records import TrialReply, TrialRequest
from capevolve.budget import Allowance, Remaining
from capevolve.candidates import read_tree, store_candidate
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.evaluate.admission import Admission
from capevolve.evaluate.congestion import Congestion
from capevolve.evaluate.execute import Executor
from capevolve.evaluate.flight import Arm, Execution
from capevolve.evaluate.progress import Progress
from capevolve.ledger import schema
from capevolve.ledger.evaluations import EvaluationKey, Fence, find_evaluation, open_evaluation
from capevolve.ledger.leases import Driver, acquire_lease
from capevolve.ledger.runs import RunRecord, insert_run, read_run
from capevolve.ledger.store import Ledger, open_ledger
from capevolve.ledger.trials import Claim, TrialRow, read_trials
from capevolve.model import Measurement, Outcome, Reason, Scored, Split, Unmeasured
from capevolve.runs import OpenRun
from capevolve.start import start_run

NOW = 1_700_000_000.0
INFRA = Unmeasured(Reason.INFRA, "the registry said 429")

Answer = Callable[[TrialRequest, int], TrialReply]


def reply(request: TrialRequest, outcome: Outcome | None = None, **values: object) -> TrialReply:
    base: dict[str, object] = {
        "feedback": "", "metrics": (), "payload": "{}", "cost_usd": None, "tokens": None, "duration_s": 0.0
    }  # fmt: skip
    return TrialReply(request.key, outcome or Scored(1.0), **{**base, **values})  # type: ignore[arg-type]


@dataclass
class FakePool:
    """Answers requests one at a time, the newest first, and notes what it was asked and how much at once."""

    answer: Answer
    slots: int
    on_submit: Callable[[Sequence[TrialRequest]], None] = lambda requests: None
    waiting: list[TrialRequest] = field(default_factory=list)
    asked: list[TrialRequest] = field(default_factory=list)
    most: int = 0
    limits: list[int | None] = field(default_factory=list)

    def throttle(self, limit: int | None) -> None:
        self.limits.append(limit)

    def ready(self, wanted: int) -> int:
        return min(wanted, self.free())

    def busy(self) -> bool:
        return bool(self.waiting)

    def free(self) -> int:
        return self.slots - len(self.waiting)

    def submit(self, requests: Sequence[TrialRequest]) -> None:
        self.on_submit(requests)
        self.waiting += requests
        self.asked += requests
        self.most = max(self.most, len(self.waiting))

    async def replies(self) -> list[TrialReply]:
        await asyncio.sleep(0)
        request = self.waiting.pop()
        tries = Counter((r.task_id, r.trial) for r in self.asked)[(request.task_id, request.trial)]
        return [self.answer(request, tries)]


@dataclass
class Bench:
    """Runs an executor for one or two evaluations of `tasks`, on a ledger that holds the run `r1`."""

    ledger: Ledger
    driver: Driver
    candidate_id: str
    tasks: tuple[str, ...] = ("a", "b", "c", "d")
    num_trials: int = 1
    concurrency: int = 2
    retries: int = 0
    prefetch: bool = True
    rate_limit_retries: int = 20
    admission: Admission | None = None
    clock: Callable[[], float] = lambda: 0.0
    check_copy: Callable[[], None] = lambda: None
    progress: list[Progress] = field(default_factory=list)
    allowance: Allowance = field(default_factory=lambda: Allowance(Remaining(), lambda: 0.0))

    def arm(self, answer: Answer, tag: str = "") -> Arm:
        key = EvaluationKey("r1", self.candidate_id, "val", self.num_trials, 0, tag)
        with self.ledger.write() as connection:
            fence = open_evaluation(connection, self.driver, key, NOW)
        claims = [Claim(task, k, k) for task in self.tasks for k in range(self.num_trials)]
        pool = FakePool(answer, self.concurrency)
        digests = {task: f"sha256:{task}" for task in self.tasks}
        return Arm(fence, pool, digests, deque(claims), self.check_copy)  # type: ignore[arg-type]

    def run(self, *arms: Arm) -> None:
        executor = Executor(
            self.ledger,
            arms,
            Execution(self.concurrency, self.prefetch, self.retries, 0.0, self.rate_limit_retries),
            self.allowance,
            self.clock,
            self.progress.append,
            Progress("val", 0, len(self.tasks) * self.num_trials * len(arms)),
            self.admission or Admission(Congestion(self.concurrency, lambda n: 0.0)),
        )
        asyncio.run(executor.run())

    def cap(self, *, dearest: float | None = None, **caps: object) -> None:
        self.allowance = Allowance(Remaining(**caps), lambda: 0.0, dearest)  # type: ignore[arg-type]

    def rows(self, arm: Arm) -> dict[tuple[str, int], TrialRow]:
        with self.ledger.read() as connection:
            rows = read_trials(connection, arm.fence.evaluation_id)
        return {(row.task_id, row.trial): row for row in rows}

    def take_over(self) -> Driver:
        return take_over(self.ledger, "r1")

    def open_again(self, arm: Arm) -> Fence:
        key = EvaluationKey("r1", self.candidate_id, "val", self.num_trials, 0)
        with self.ledger.write() as connection:
            return open_evaluation(connection, self.driver, key, NOW)


def take_over(ledger: Ledger, run_id: str) -> Driver:
    """Another driver finds a heartbeat that stopped long ago, and takes the run."""
    with ledger.write() as connection:
        connection.execute(schema.leases.update().values(heartbeat_at=0.0))
        return acquire_lease(connection, run_id, NOW)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


@pytest.fixture
def bench(ledger: Ledger, tmp_path: Path) -> Bench:
    (tmp_path / "candidate").mkdir()
    with ledger.write() as connection:
        driver = acquire_lease(connection, "r1", NOW)
        candidate = store_candidate(connection, read_tree(tmp_path / "candidate"))
        run = RunRecord("r1", "demo", NOW, "{}", "", "0", candidate.id, (), "", "running", None, None)
        insert_run(connection, run)
    return Bench(ledger, driver, candidate.id)


@pytest.fixture
def answer():
    return reply


@pytest.fixture
def infra() -> Unmeasured:
    return INFRA


@dataclass
class Lab:
    """Evaluates the seed candidate of a project with real hosts, each time as a new driver."""

    project: object

    async def _go(self, run: OpenRun, split: Split, options: dict[str, object]) -> Measurement:
        started = await start_run(run)
        asked = {
            key: options.pop(key) for key in ("num_trials", "ids", "tag", "candidate_id") if key in options
        }
        request = EvaluationRequest(
            **{"candidate_id": started.record.seed_candidate, "split": split, **asked}
        )
        return await evaluate(run, request, **options)

    def evaluate(self, split: Split = "val", **options: object) -> Measurement:
        with self.project.driven() as run:
            return asyncio.run(self._go(run, split, options))

    def start(self) -> None:
        with self.project.driven() as run:
            asyncio.run(start_run(run))

    def rows(self, split: Split = "val") -> tuple[TrialRow, ...]:
        with self.project.driven() as run, run.ledger.read() as connection:
            key = run.key(read_run(connection, run.id).seed_candidate, split)
            found = find_evaluation(connection, key)
            return () if found is None else read_trials(connection, found.id)

    take_over = staticmethod(take_over)


@pytest.fixture
def make_lab(make_project):
    def make(*arguments: object, **options: object) -> Lab:
        return Lab(make_project(*arguments, **options))

    return make
