"""A program as proposer, in a scratch folder of its own, and projects whose proposer is a program."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from capevolve.proposers.brief import Brief, BriefCandidate, BriefScore
from capevolve.proposers.command import CommandProposer
from capevolve.proposers.draft import Draft


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

    def proposer(self, code: str, timeout_s: float = 20.0, env: dict[str, str] | None = None) -> CommandProposer:
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
