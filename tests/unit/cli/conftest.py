"""The command line called in this process, as a shell would."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from capevolve.cli import main
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.start import start_run


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def capevolve(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs `capevolve WORDS...` and returns its exit code and what it said."""

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["capevolve", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capfd.readouterr()
        code = end.value.code
        return Said(code if isinstance(code, int) else 0, said.out, said.err)

    return call


@pytest.fixture
def baseline():
    """Starts a run of a project and evaluates its seed candidate on val."""

    def make(project, run_id="r1"):
        async def go(run):
            started = await start_run(run)
            await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"))

        with project.driven(run_id) as run:
            asyncio.run(go(run))

    return make
