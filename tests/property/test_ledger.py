"""The ledger under any order of claims, results, new sessions and takeovers: a result is for ever."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from capevolve.candidates import read_tree, store_candidate
from capevolve.errors import FencedError, LedgerError
from capevolve.ledger import schema
from capevolve.ledger.evaluations import EvaluationKey, Fence, check_fence, open_evaluation
from capevolve.ledger.leases import acquire_lease
from capevolve.ledger.runs import RunRecord, insert_run
from capevolve.ledger.store import open_ledger
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, read_trials, record_results
from capevolve.model import Scored

TASKS = st.sampled_from(["a", "b", "c"])
REWARDS = st.sampled_from([0.0, 0.25, 1.0])


class LedgerMachine(RuleBasedStateMachine):
    """Keeps every fence ever issued and lets each of them try to write."""

    @initialize()
    def begin(self):
        self.place = Path(tempfile.mkdtemp(prefix="capevolve-machine-"))
        (self.place / "candidate").mkdir()
        self.ledger = open_ledger(f"sqlite:///{self.place}/ledger.db")
        with self.ledger.write() as connection:
            self.driver = acquire_lease(connection, "r", 0.0)
            self.candidate = store_candidate(connection, read_tree(self.place / "candidate")).id
            record = RunRecord("r", "d", 0.0, "{}", "", "0", self.candidate, (), "", "running", None, None)
            insert_run(connection, record)
        self.fences: list[Fence] = []
        self.claimed: dict[str, Fence] = {}
        self.results: dict[str, float] = {}
        self.open_session()

    def teardown(self):
        if hasattr(self, "ledger"):
            self.ledger.close()
            shutil.rmtree(self.place)

    @rule()
    def open_session(self):
        with self.ledger.write() as connection:
            key = EvaluationKey("r", self.candidate, "val", 1, 0)
            self.fences.append(open_evaluation(connection, self.driver, key, 0.0))

    @rule()
    def take_over(self):
        with self.ledger.write() as connection:
            connection.execute(schema.leases.update().values(heartbeat_at=-1000.0))
            self.driver = acquire_lease(connection, "r", 0.0)
        self.open_session()

    @rule(which=st.integers(0, 30), task=TASKS)
    def claim(self, which, task):
        fence = self.fences[which % len(self.fences)]
        current = fence == self.fences[-1]
        try:
            with self.ledger.write() as connection:
                check_fence(connection, fence)
                assert current, "a stale writer passed the fence"
                fresh = task not in self.claimed
                claim_trials(connection, fence, [Claim(task, 0, 0, fresh, 1, 0)], 0.0)
        except FencedError:
            assert not current
        else:
            if task not in self.results:
                self.claimed[task] = fence

    @rule(which=st.integers(0, 30), task=TASKS, reward=REWARDS, checked=st.booleans())
    def record(self, which, task, reward, checked):
        fence = self.fences[which % len(self.fences)]
        allowed = self.claimed.get(task) == fence and task not in self.results
        recorded = False
        with contextlib.suppress(LedgerError), self.ledger.write() as connection:
            if checked:
                check_fence(connection, fence)
            record_results(connection, fence, [TrialResult(task, 0, Scored(reward))], 0.0)
            recorded = True
        if recorded:
            assert allowed
            assert not checked or fence == self.fences[-1]
            self.results[task] = reward
        elif allowed:
            assert checked and fence != self.fences[-1]

    @invariant()
    def every_result_is_what_was_recorded_first(self):
        if not hasattr(self, "fences") or not self.fences:
            return
        with self.ledger.read() as connection:
            rows = read_trials(connection, self.fences[0].evaluation_id)
        found = {row.task_id: row.outcome.reward for row in rows if isinstance(row.outcome, Scored)}
        assert found == self.results
        assert {row.task_id for row in rows} == set(self.claimed)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=15, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
