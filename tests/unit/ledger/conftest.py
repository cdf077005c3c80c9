"""A real ledger with a started run in it, and words for what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from capevolve.candidates import read_tree, store_candidate
from capevolve.ledger import schema
from capevolve.ledger.attempts import insert_attempt
from capevolve.ledger.evaluations import EvaluationKey, Fence, check_fence, open_evaluation
from capevolve.ledger.leases import Driver, acquire_lease
from capevolve.ledger.runs import RunRecord, SplitSet, SplitTask, insert_run, insert_splits
from capevolve.ledger.store import Ledger, open_ledger
from capevolve.ledger.trials import Claim, TrialResult, TrialRow, claim_trials, read_trials, record_results
from capevolve.model import Outcome, Scored, Split, TaskRef

NOW = 1_700_000_000.0


@dataclass
class Book:
    """A ledger that holds the started run `r1` with one candidate and four train and four val tasks."""

    ledger: Ledger
    driver: Driver
    candidate_id: str

    def key(self, split: Split = "val", *, num_trials: int = 1, **changes: object) -> EvaluationKey:
        return EvaluationKey("r1", self.candidate_id, split, num_trials, 0, **changes)  # type: ignore[arg-type]

    def open(self, key: EvaluationKey | None = None, driver: Driver | None = None) -> Fence:
        with self.ledger.write() as connection:
            return open_evaluation(connection, driver or self.driver, key or self.key(), NOW)

    def claim(self, fence: Fence, *claims: Claim) -> None:
        with self.ledger.write() as connection:
            check_fence(connection, fence)
            claim_trials(connection, fence, claims or (Claim("t0", 0, 0),), NOW)

    def record(self, fence: Fence, *results: TrialResult) -> None:
        with self.ledger.write() as connection:
            check_fence(connection, fence)
            record_results(connection, fence, results or (scored(),), NOW + 1.0)

    def rows(self, fence: Fence) -> tuple[TrialRow, ...]:
        with self.ledger.read() as connection:
            return read_trials(connection, fence.evaluation_id)

    def attempt(self, number: int = 1, look: int = 1, test_digest: str = "sha256:test") -> int:
        with self.ledger.write() as connection:
            return insert_attempt(
                connection,
                run_id="r1",
                number=number,
                plan="{}",
                plan_digest="sha256:plan",
                test_digest=test_digest,
                test_ids_digest="sha256:ids",
                look=look,
                override_reason=None,
                now=NOW,
            )

    def take_over(self) -> Driver:
        """Another driver finds a heartbeat that stopped long ago, and takes the run."""
        with self.ledger.write() as connection:
            connection.execute(schema.leases.update().values(heartbeat_at=0.0))
            return acquire_lease(connection, "r1", NOW + 100.0)


def scored(
    task_id: str = "t0", trial: int = 0, outcome: Outcome | None = None, **values: object
) -> TrialResult:
    return TrialResult(task_id, trial, outcome or Scored(1.0), **values)  # type: ignore[arg-type]


def make_run(run_id: str = "r1", seed_candidate: str = "sha256:seed") -> RunRecord:
    return RunRecord(
        run_id, "demo", NOW, "{}", "sha256:0", "0", seed_candidate, (("adapter.py", "sha256:a"),), "sha256:a",
        "running", None, None,
    )  # fmt: skip


def make_splits() -> tuple[SplitSet, list[tuple[str, SplitTask]]]:
    splits = SplitSet(
        '{"holdout":true,"val_holdout":true,"warnings":[]}', "sha256:s", "sha256:test", "sha256:ids", NOW, ()
    )
    tasks = [
        (split, SplitTask(TaskRef(f"{split}{i}", f"sha256:{i}"), None, f'{{"input":"{split}{i}"}}'))
        for split in ("train", "val", "test")
        for i in range(4)
    ]
    return splits, tasks


@pytest.fixture
def ledger(make_ledger_url: Callable[[], str]) -> Iterator[Ledger]:
    opened = open_ledger(make_ledger_url())
    yield opened
    opened.close()


@pytest.fixture
def book(ledger: Ledger, tmp_path: Path) -> Book:
    folder = tmp_path / "candidate"
    folder.mkdir()
    (folder / "prompt.md").write_text("hello")
    splits, tasks = make_splits()
    with ledger.write() as connection:
        driver = acquire_lease(connection, "r1", NOW)
        candidate = store_candidate(connection, read_tree(folder))
        insert_run(connection, make_run(seed_candidate=candidate.id))
        insert_splits(connection, "r1", splits, tasks)
    return Book(ledger, driver, candidate.id)


@pytest.fixture
def result():
    return scored


@pytest.fixture
def now() -> float:
    return NOW
