"""A short way to write a confirmation down: its record, and evidence stage by stage; no peek unless asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from capevolve.gate import GateSettings
from capevolve.gate.confirm.case import Ask, Case, StageEvidence
from capevolve.gate.confirm.judge import advance
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.model import Measurement, Verdict

Respond = Callable[[Ask, str], dict[str, list[float]]]


@dataclass
class Bench:
    """Answers what a confirmation asks until it has a verdict, and keeps what was asked."""

    measure: Callable[..., Measurement]
    profile: ConfirmProfile = field(default_factory=lambda: ConfirmProfile(peek_frac=1.0))
    n: int = 20
    k: int = 3
    failures: int = 0
    subject: str = "c1"
    no_regression: bool = False
    base: float = 0.5
    asks: list[Ask] = field(default_factory=list)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(f"t{i:02d}" for i in range(self.n))

    @property
    def settings(self) -> GateSettings:
        return GateSettings(mode="confirm", confirm=self.profile, no_regression=self.no_regression)

    def rows(self, value, ids=None, k: int = 1) -> dict[str, list[float]]:
        """`value` is a reward, or a function of the task's number; .5 alternates between 0 and 1 by task."""
        of = value if callable(value) else (lambda number: number % 2 if value == 0.5 else value)
        return {task_id: [of(int(task_id[1:]))] * k for task_id in ids or self.ids}

    def case(self, record=None) -> Case:
        record = record or self.measure(self.rows(self.base, k=self.k), evaluation_id="1", num_trials=self.k)
        return Case(self.subject, 0, record, self.profile, self.k, self.failures)

    def judge(self, respond: dict[str, object], record=None) -> Verdict:
        """Runs the stages; `respond` maps a stage to the candidate's value, or to (candidate, incumbent)."""
        case = self.case(record)
        number = 1
        while isinstance(step := advance(case, self.settings), Ask):
            self.asks.append(step)
            answer = respond[step.stage]
            mine, theirs = answer if isinstance(answer, tuple) else (answer, self.base)
            number += 2
            evidence = StageEvidence(
                step.stage,
                self._answer(step, mine, str(number)),
                self._answer(step, theirs, str(number + 1)) if step.both else None,
            )
            case = replace(case, evidence=(*case.evidence, evidence))
        return step

    def _answer(self, ask: Ask, value, evaluation_id: str) -> Measurement:
        rows = value if isinstance(value, dict) else self.rows(value, ask.task_ids, ask.num_trials)
        return self.measure(
            rows, evaluation_id=evaluation_id, num_trials=ask.num_trials, subset=ask.task_ids is not None
        )


@pytest.fixture
def make_bench(measure) -> Callable[..., Bench]:
    return lambda **changes: Bench(measure, **changes)
