"""Ledgers written by the ledger's own functions, as a driver would have left them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import pytest

import capevolve
from capevolve import seal
from capevolve.candidates import read_tree, store_candidate
from capevolve.canonical import canonical_json, digest, digest_bytes
from capevolve.evaluate.measurement import reduce_trials
from capevolve.gate import judge
from capevolve.gate.record import gate_settings
from capevolve.ledger import open_ledger
from capevolve.ledger.attempts import find_attempt
from capevolve.ledger.evaluations import (
    EvaluationKey,
    find_evaluation,
    finish_evaluation,
    list_evaluations,
    open_evaluation,
)
from capevolve.ledger.leases import acquire_lease, release_lease
from capevolve.ledger.proposals import (
    ProposalRecord,
    VerdictRecord,
    finish_proposal,
    insert_verdict,
    start_proposal,
)
from capevolve.ledger.runs import (
    RunRecord,
    SplitSet,
    SplitTask,
    find_splits,
    insert_run,
    insert_splits,
    set_run_status,
)
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, read_trials, record_results
from capevolve.model import Decision, Reason, Scored, TaskRef, Unmeasured
from capevolve.report import read_facts
from capevolve.result import SealRecord, build_result
from capevolve.spec import ProjectSpec
from capevolve.spec.resume import spec_json

START = 1_700_000_000.0
BEST_TEST = (1, 1, 0, 1, 1, 0, 1, 0)
SEED_TEST = (0, 1, 0, 0, 1, 0, 0, 1)
Rewards = Mapping[str, Sequence[float | Reason]]


class Story:
    """One run in a ledger of its own, told step by step.

    `rewards` maps a task id to what its trials gave; a task left out was not run.
    """

    def __init__(
        self,
        root,
        *,
        run_id="demo-1",
        name="demo",
        sizes=(4, 8, 8),
        num_trials=1,
        holdout=True,
        ids: Mapping[str, Sequence[str]] | None = None,
        warnings=(),
        clusters: Mapping[str, str] | None = None,
        ledger=None,
        **spec,
    ) -> None:
        self.root, self.run_id, self.now = root, run_id, START
        self.clusters = clusters or {}
        settings = {"name": name, "evaluation": {"num_trials": num_trials}, **spec}
        self.spec = ProjectSpec.model_validate(settings)
        names = ids or {
            split: [f"{split}-{n}" for n in range(size)]
            for split, size in zip(("train", "val", "test"), sizes, strict=True)
        }
        self.refs = {split: tuple(map(self._ref, listed)) for split, listed in names.items()}
        self.ledger = ledger or open_ledger(f"sqlite:///{root / 'ledger.db'}")
        self.seed_id = self._store("seed")
        self._start(holdout, warnings)
        with self.ledger.write() as connection:
            self.driver = acquire_lease(connection, run_id, self.now)
        self.best_id = self.seed_id
        self.iteration = 0
        self.cost, self.tokens = 0.01, 100

    def _ref(self, name: str) -> TaskRef:
        return TaskRef(name, digest(["content", name]), self.clusters.get(name))

    def _store(self, text: str) -> str:
        folder = self.root / "trees" / digest(text)[-8:]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prompt.md").write_text(text)
        with self.ledger.write() as connection:
            return store_candidate(connection, read_tree(folder)).id

    def _start(self, holdout: bool, warnings: Sequence[str]) -> None:
        text = spec_json(self.spec)
        record = RunRecord(
            id=self.run_id,
            name=self.spec.name,
            created_at=self.now,
            spec=text,
            spec_digest=digest_bytes(text.encode()),
            version=capevolve.__version__,
            seed_candidate=self.seed_id,
            adapter_files=(("adapter.py", digest("adapter")),),
            adapter_digest=digest("adapter"),
            status="running",
            stop_reason=None,
            ended_at=None,
        )
        payload = {
            "seed": 7,
            "method": "ratios",
            "holdout": holdout,
            "val_holdout": True,
            "warnings": list(warnings),
        }
        listed = {split: [ref.id for ref in refs] for split, refs in self.refs.items()}
        splits = SplitSet(
            payload=canonical_json(payload),
            digest=digest(listed),
            test_digest=digest(sorted(ref.digest for ref in self.refs["test"])),
            test_ids_digest=digest(sorted(listed["test"])),
            frozen_at=self.now,
            sizes=(),
        )
        pairs = [(split, SplitTask(ref, None, "{}")) for split, refs in self.refs.items() for ref in refs]
        with self.ledger.write() as connection:
            insert_run(connection, record)
            insert_splits(connection, self.run_id, splits, pairs)

    def tick(self, seconds: float = 1.0) -> float:
        self.now += seconds
        return self.now

    def same(self, split: str, *rewards: float | Reason) -> Rewards:
        return {ref.id: rewards for ref in self.refs[split]}

    def per_task(self, split: str, rewards: Sequence[float | Reason]) -> Rewards:
        return {ref.id: (reward,) for ref, reward in zip(self.refs[split], rewards, strict=True)}

    def measure(
        self,
        rewards: Rewards,
        candidate_id: str | None = None,
        *,
        split="val",
        tag="",
        attempt_id=None,
        num_trials: int | None = None,
        finish=True,
        in_flight=0,
    ) -> None:
        """Claims and records trials; the last `in_flight` of them stay claimed."""
        key = EvaluationKey(
            self.run_id,
            candidate_id or self.seed_id,
            split,
            num_trials or self.spec.evaluation.num_trials,
            self.spec.base_seed(),
            tag=tag,
            attempt_id=attempt_id,
        )
        rows = [(name, k, reward) for name, trials in rewards.items() for k, reward in enumerate(trials)]
        with self.ledger.write() as connection:
            fence = open_evaluation(connection, self.driver, key, self.tick())
            claim_trials(connection, fence, [Claim(name, k, k) for name, k, _ in rows], self.now)
            done = rows[: len(rows) - in_flight]
            results = [
                TrialResult(
                    name, k, self._outcome(reward), duration_s=1.0, cost_usd=self.cost, tokens=self.tokens
                )
                for name, k, reward in done
            ]
            record_results(connection, fence, results, self.tick())
            if finish and not in_flight:
                finish_evaluation(connection, fence, self.tick())

    @staticmethod
    def _outcome(reward: float | Reason):
        return Unmeasured(reward, "why") if isinstance(reward, Reason) else Scored(float(reward))

    def propose(
        self,
        text: str,
        *,
        status="proposed",
        summary="an edit",
        detail="",
        cost: float | None = 0.02,
        tokens: int | None = 500,
    ) -> str | None:
        self.iteration += 1
        candidate_id = self._store(text) if status in ("proposed", "duplicate") else None
        with self.ledger.write() as connection:
            start_proposal(connection, self.run_id, self.iteration, self.best_id, self.tick())
            if status != "started":
                record = ProposalRecord(
                    iteration=self.iteration,
                    parent_id=self.best_id,
                    status=status,
                    candidate_id=candidate_id,
                    summary=summary,
                    detail=detail,
                    cost_usd=cost,
                    tokens=tokens,
                    calls=1,
                    started_at=self.now,
                    finished_at=self.tick(),
                )
                finish_proposal(connection, self.run_id, record)
        return candidate_id

    def iterate(self, text: str, rewards: Rewards, **changes) -> Decision:
        """A proposal, its val evaluation and the gate's verdict."""
        candidate_id = self.propose(text, **changes)
        self.measure(rewards, candidate_id)
        settings = gate_settings(self.spec.gate)
        with self.ledger.write() as connection:
            sides = [self._val(connection, name) for name in (candidate_id, self.best_id)]
            verdict = judge(sides[0][1], sides[1][1], settings)
            record = VerdictRecord(
                iteration=self.iteration,
                candidate_id=candidate_id,
                incumbent_id=self.best_id,
                candidate_evaluation=sides[0][0].id,
                incumbent_evaluation=sides[1][0].id,
                settings=canonical_json(asdict(settings)),
                verdict=verdict,
                created_at=self.tick(),
            )
            insert_verdict(connection, self.run_id, record)
        if verdict.decision is Decision.ACCEPT:
            self.best_id = candidate_id
        return verdict.decision

    def _val(self, connection, candidate_id: str):
        trials = self.spec.evaluation.num_trials
        key = EvaluationKey(self.run_id, candidate_id, "val", trials, self.spec.base_seed())
        evaluation = find_evaluation(connection, key)
        return evaluation, reduce_trials(evaluation, self.refs["val"], read_trials(connection, evaluation.id))

    def open_attempt(self, override: str | None = None) -> seal.Ticket:
        trials = self.spec.seal_trials()
        request = seal.PlanRequest(
            best_id=self.best_id,
            seed_id=self.seed_id,
            num_trials=trials,
            base_seed=self.spec.base_seed(),
            ks=self.spec.evaluation.reported_ks(trials),
            adapter_files=(("adapter.py", digest("adapter")),),
            version=capevolve.__version__,
        )
        return seal.open_attempt(self.ledger, self.driver, request, now=self.tick(), override_reason=override)

    def finalize(self, best: Rewards, seed: Rewards | None = None, *, override: str | None = None):
        """Scores test and commits, as `capevolve.finalize` does."""
        ticket = self.open_attempt(override)
        arms = [("FINAL", self.best_id, best)]
        if self.best_id != self.seed_id:
            arms.append(("FINAL_seed", self.seed_id, seed))
        for tag, name, rewards in arms:
            self.measure(
                rewards,
                name,
                split="test",
                tag=tag,
                attempt_id=ticket.attempt_id,
                num_trials=self.spec.seal_trials(),
            )
        result = self._build(ticket)
        seal.commit(self.ledger, self.driver, ticket, result.to_json(), now=self.tick())
        return result

    def _build(self, ticket: seal.Ticket):
        with self.ledger.read() as connection:
            attempt = find_attempt(connection, ticket.attempt_id)
            splits = find_splits(connection, self.run_id)
            mine = [e for e in list_evaluations(connection, self.run_id) if e.key.attempt_id == attempt.id]
            trials = [read_trials(connection, e.id) for e in mine]
            measured = [reduce_trials(e, ticket.tasks, t) for e, t in zip(mine, trials, strict=True)]
            record = SealRecord(
                look=attempt.look,
                looks=seal.count_earlier_looks(connection, splits),
                attempts=attempt.number,
                interrupted_trials=sum(t.interrupted for rows in trials for t in rows),
                override_reason=attempt.override_reason,
                plan_digest=attempt.plan_digest,
                test_digest=splits.test_digest,
                chain_head=seal.read_head(connection, self.run_id),
            )
        return build_result(
            run_id=self.run_id,
            version=capevolve.__version__,
            best_id=self.best_id,
            seed_id=self.seed_id,
            best=measured[0],
            seed=measured[1] if len(measured) > 1 else None,
            ks=self.spec.evaluation.reported_ks(self.spec.seal_trials()),
            splits=splits,
            seal=record,
        )

    def end(self, status="finished", reason: str | None = "max_iterations reached (10)") -> None:
        """Notes how the run stands and gives the lease back."""
        with self.ledger.write() as connection:
            set_run_status(connection, self.run_id, status, reason, self.tick())
            release_lease(connection, self.driver, self.now)

    def facts(self, *, later: float = 1.0):
        return read_facts(self.ledger, self.run_id, now=self.now + later)

    def measure_seed(self) -> None:
        self.measure(self.per_task("val", [0, 0, 0, 1, 0, 0, 1, 0]))

    def improve(self) -> None:
        """A rejected and an accepted candidate."""
        self.measure_seed()
        self.iterate("worse", self.per_task("val", [0, 0, 0, 0, 0, 0, 1, 0]))
        self.iterate("better", self.per_task("val", [1, 1, 0, 1, 1, 0, 1, 1]))

    def conclude(self, **changes) -> None:
        self.finalize(self.per_task("test", BEST_TEST), self.per_task("test", SEED_TEST), **changes)
        self.end()

    def resume(self) -> None:
        with self.ledger.write() as connection:
            self.driver = acquire_lease(connection, self.run_id, self.tick())


@pytest.fixture(scope="session")
def story_type() -> type[Story]:
    """The builder itself, for stories that outlive a test."""
    return Story


@pytest.fixture
def tell(tmp_path) -> Callable[..., Story]:
    """Begins a story; the run's splits are frozen and a driver holds its lease."""
    told: list[Story] = []

    def begin(folder: str = "project", **changes) -> Story:
        root = tmp_path / folder
        root.mkdir(exist_ok=True)
        told.append(Story(root, **changes))
        return told[-1]

    yield begin
    for story in told:
        story.ledger.close()
