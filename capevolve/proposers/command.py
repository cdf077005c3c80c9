"""The `command` proposer: any program, run in a scratch copy of the candidate with a brief beside it.

The program's working directory is the copy; whatever files it leaves there are the proposal. It finds

* `CAPEVOLVE_BRIEF`: the brief, a JSON file outside the copy;
* `CAPEVOLVE_PROPOSAL`: where it may write `{"summary": ..., "cost_usd": ..., "tokens": ...}`;
* `CAPEVOLVE_CANDIDATE`, `CAPEVOLVE_PROJECT`, `CAPEVOLVE_ITERATION`, `CAPEVOLVE_SEED`.

What it prints is kept as a tail for people; nothing is read from it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capevolve.adapters.guard import HOST_VARIABLE
from capevolve.adapters.processes import kill_tree, sweep
from capevolve.errors import UserError
from capevolve.proposers.brief import Brief
from capevolve.proposers.draft import Draft

TAIL_BYTES = 4096


class ProposalNote(BaseModel):
    """What the program may write to `CAPEVOLVE_PROPOSAL`. Unknown keys are ignored."""

    model_config = ConfigDict(frozen=True)

    summary: str = ""
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=0)


@dataclass(frozen=True, slots=True)
class CommandProposer:
    """Runs a program.

    Attributes:
        argv: The program and its arguments; `python` is the running interpreter and `{project}` in an
            argument the project's folder.
        env: Added to the environment.
    """

    argv: tuple[str, ...]
    project: Path
    timeout_s: float
    env: Mapping[str, str]

    @property
    def needs_evidence(self) -> bool:
        """True: the brief holds the incumbent's train trials."""
        return True

    def check(self) -> None:
        """Finds the program.

        Raises:
            UserError: It cannot be found.
        """
        resolve_argv(self.argv, self.project)

    async def edit(self, folder: Path, brief: Brief, *, seed: int) -> Draft:
        """Runs the program in `folder`; a failure costs this iteration, never the run."""
        beside = folder.parent
        brief_path, note_path = beside / "brief.json", beside / "proposal.json"
        brief_path.write_text(brief.to_json(), encoding="utf-8")
        environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.env,
            HOST_VARIABLE: uuid.uuid4().hex,
            "CAPEVOLVE_BRIEF": str(brief_path),
            "CAPEVOLVE_PROPOSAL": str(note_path),
            "CAPEVOLVE_CANDIDATE": str(folder),
            "CAPEVOLVE_PROJECT": str(self.project),
            "CAPEVOLVE_ITERATION": str(brief.iteration),
            "CAPEVOLVE_SEED": str(seed),
        }
        log = beside / "output.log"
        failure = await self._run(folder, environment, log)
        output = _tail(log)
        note, problem = _read_note(note_path)
        return Draft(
            summary=note.summary,
            failure=failure or problem,
            cost_usd=note.cost_usd,
            tokens=note.tokens,
            output=output,
        )

    async def _run(self, folder: Path, environment: Mapping[str, str], log: Path) -> str | None:
        with log.open("wb") as sink:
            process = await asyncio.create_subprocess_exec(
                *resolve_argv(self.argv, self.project),
                cwd=folder,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        marker = environment[HOST_VARIABLE]
        try:
            code = await asyncio.wait_for(process.wait(), self.timeout_s)
        except (TimeoutError, asyncio.CancelledError) as error:
            kill_tree(process.pid, marker)
            if isinstance(error, asyncio.CancelledError):
                raise
            return f"the program did not end within {self.timeout_s:g} s"
        await asyncio.to_thread(sweep, marker)  # a program left in the background could edit the result
        return None if code == 0 else f"the program ended with exit code {code}"


def resolve_argv(argv: tuple[str, ...], project: Path) -> list[str]:
    """The command line with `python` and `{project}` filled in.

    Raises:
        UserError: The program cannot be found.
    """
    words = [word.replace("{project}", str(project)) for word in argv]
    if words[0] in ("python", "python3"):
        words[0] = sys.executable
    found = shutil.which(words[0]) or shutil.which(words[0], path=str(project))
    if found is None and not (project / words[0]).is_file():
        raise UserError(
            f"The proposer's program {words[0]!r} cannot be found.",
            where="capevolve.yaml, proposer.command",
            fix="Install it, or give its path relative to the project.",
        )
    return [found or str(project / words[0]), *words[1:]]


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return file.read().decode("utf-8", "replace").strip()


def _read_note(path: Path) -> tuple[ProposalNote, str | None]:
    if not path.exists():
        return ProposalNote(), None
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        return ProposalNote.model_validate(value), None
    except (ValueError, ValidationError) as error:
        return ProposalNote(), f"the program's proposal note is malformed: {str(error).splitlines()[0]}"
