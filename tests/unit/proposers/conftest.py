"""A program as proposer, in a scratch folder of its own, and projects whose proposer is a program."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capevolve.ledger.evaluations import finish_evaluation, open_evaluation
from capevolve.ledger.proposals import ProposalRecord, read_proposals
from capevolve.ledger.runs import read_run, read_split
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Scored, Split
from capevolve.proposers.brief import Brief, BriefCandidate, BriefScore
from capevolve.proposers.command import CommandProposer
from capevolve.proposers.draft import Draft
from capevolve.proposers.proposal import make_proposal
from capevolve.runs import OpenRun
from capevolve.start import start_run


def make_brief(iteration: int = 1) -> Brief:
    return Brief(
        run="r1",
        iteration=iteration,
        remaining_iterations=2,
        last=False,
        candidate=BriefCandidate(id="c", files=["prompt.md"]),
        train=BriefScore(),
        tasks=[],
        history=[],
    )


@dataclass
class Desk:
    """Calls a program on a scratch copy with one file, `prompt.md`."""

    project: Path
    scratch: Path

    @property
    def folder(self) -> Path:
        return self.scratch / "candidate"

    def proposer(
        self, code: str, timeout_s: float = 20.0, env: dict[str, str] | None = None
    ) -> CommandProposer:
        path = self.project / "propose.py"
        path.write_text("import json, os, sys, time\n" + textwrap.dedent(code))
        return CommandProposer(("python", "{project}/propose.py"), self.project, timeout_s, env or {})

    def edit(self, code: str, **options: object) -> Draft:
        proposer = self.proposer(code, **options)  # type: ignore[arg-type]
        return asyncio.run(proposer.edit(self.folder, make_brief(), seed=7))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path / "project", tmp_path / "scratch")
    made.project.mkdir()
    made.folder.mkdir(parents=True)
    (made.folder / "prompt.md").write_text("hello\n")
    return made


@pytest.fixture
def brief():
    return make_brief


@pytest.fixture
def command():
    """The spec of a proposer that runs `propose.py` of the project."""
    return {"kind": "command", "command": ["python", "{project}/propose.py"], "timeout_s": 20}


@pytest.fixture
def python() -> str:
    return sys.executable


@dataclass
class Run:
    """A started run whose measurements are written without hosts, and its proposals."""

    project: Any
    run_id: str = "r1"

    def measure(
        self, run: OpenRun, split: Split, candidate_id: str | None = None, reward: float = 0.5
    ) -> None:
        with run.ledger.write() as connection:
            key = run.key(candidate_id or read_run(connection, run.id).seed_candidate, split)
            fence = open_evaluation(connection, run.driver, key, 0.0)
            ids = [task.ref.id for task in read_split(connection, run.id, split)]
            claim_trials(connection, fence, [Claim(task, 0, 0) for task in ids], 0.0)
            payload = json.dumps(
                {"output": f"{split} output", "trace": None, "tool_calls": [], "error": None}
            )
            results = [
                TrialResult(task, 0, Scored(reward), feedback=f"words on {task}", payload=payload)
                for task in ids
            ]
            record_results(connection, fence, results, 0.0)
            finish_evaluation(connection, fence, 0.0)

    def seed(self, run: OpenRun) -> str:
        with run.ledger.read() as connection:
            return read_run(connection, run.id).seed_candidate

    def propose(self, iteration: int = 1, parent: str | None = None) -> ProposalRecord:
        with self.project.driven(self.run_id) as run:
            return asyncio.run(make_proposal(run, iteration, parent or self.seed(run)))

    def records(self) -> tuple[ProposalRecord, ...]:
        with self.project.driven(self.run_id) as run, run.ledger.read() as connection:
            return read_proposals(connection, run.id)


@pytest.fixture
def make_run(make_project, command):
    """Makes a run with train evidence, whose proposer is the given program or script of edits."""

    def make(code: str | None = None, *, evidence: bool = True, **options: object) -> Run:
        spec = (
            {"proposer": command, **options.pop("spec", {})} if code is not None else options.pop("spec", {})
        )
        project = make_project(spec=spec, **options)
        if code is not None:
            project.write("propose.py", "import json, os, sys, time\n" + textwrap.dedent(code))
        made = Run(project)
        with project.driven() as run:
            asyncio.run(start_run(run))
            if evidence:
                made.measure(run, "train")
        return made

    return make
