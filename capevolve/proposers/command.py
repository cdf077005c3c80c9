"""The `command` proposer: any program, run in a scratch copy of the candidate with a brief beside it.

The program's working directory is the copy; whatever files it leaves there are the proposal. It finds

* `CAPEVOLVE_BRIEF`: the brief, a JSON file outside the copy;
* `CAPEVOLVE_PROPOSAL`: where it may write `{"summary": ..., "cost_usd": ..., "tokens": ...}`;
* `CAPEVOLVE_CANDIDATE`, `CAPEVOLVE_PROJECT`, `CAPEVOLVE_ITERATION`, `CAPEVOLVE_SEED`.

What it prints is kept as a tail for people; nothing is read from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
import tempfile
import uuid
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capevolve.adapters.guard import HOST_VARIABLE
from capevolve.adapters.lookup import find_program
from capevolve.adapters.processes import dismiss_guard, kill_tree, start_guard, sweep
from capevolve.errors import UserError
from capevolve.proposers.brief import Brief
from capevolve.proposers.draft import Draft

TAIL_BYTES = 3000
"""So much of the end of what it printed is kept; fits the detail of a proposal."""

MAX_NOTE_BYTES = 1_000_000

_ROUNDS = 5


class ProposalNote(BaseModel):
    """What the program may write to `CAPEVOLVE_PROPOSAL`. Unknown keys are ignored."""

    model_config = ConfigDict(frozen=True)

    summary: str = ""
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=0, lt=2**63)


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
        """Runs the program in `folder`; a failure costs this iteration, never the run.

        Raises:
            UserError: The program cannot be started.
        """
        argv = resolve_argv(self.argv, self.project)
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
        with tempfile.TemporaryFile() as log:
            failure = await self._run(argv, folder, environment, log)
            output = _tail(log)
        note, problem = _read_note(note_path)
        return Draft(
            summary=note.summary,
            failure=failure or problem,
            cost_usd=note.cost_usd,
            tokens=note.tokens,
            output=output,
        )

    async def _run(
        self, argv: list[str], folder: Path, environment: Mapping[str, str], log: BinaryIO
    ) -> str | None:
        """Runs the program to its end, and with it ends all that it started; returns what went wrong."""
        marker = environment[HOST_VARIABLE]
        guard = start_guard(marker)  # a driver that is killed takes the program along
        try:
            process = await _start(argv, folder, environment, log)
            try:
                code = await asyncio.wait_for(process.wait(), self.timeout_s)
            except BaseException as error:
                kill_tree(process.pid, marker)
                await process.wait()
                if isinstance(error, TimeoutError):
                    return f"the program did not end within {self.timeout_s:g} s"
                raise
            # A program left in the background could edit the result.
            await asyncio.to_thread(_end_leftovers, process.pid, marker)
            return _describe_end(code)
        finally:
            dismiss_guard(*guard)


async def _start(argv: list[str], folder: Path, environment: Mapping[str, str], log: BinaryIO) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env=environment,
            stdin=DEVNULL,
            stdout=log,
            stderr=STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(
            f"The proposer's program {argv[0]!r} cannot be started: {error.strerror}.",
            where="capevolve.yaml, proposer.command",
            fix="Run it by hand in the project's folder.",
        ) from error


def _describe_end(code: int) -> str | None:
    if code >= 0:
        return f"the program ended with exit code {code}" if code else None
    with contextlib.suppress(ValueError):
        return f"the program was killed by {signal.Signals(-code).name}"
    return f"the program was killed by signal {-code}"


def _end_leftovers(leader: int, marker: str) -> None:
    """Kills what a program left behind: in its session, or with its marker in the environment."""
    for _ in range(_ROUNDS):
        found = [process for process in psutil.process_iter() if _is_of_session(process, leader)]
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not found:
            break
        psutil.wait_procs(found, timeout=0.5)
    sweep(marker)


def _is_of_session(process: psutil.Process, leader: int) -> bool:
    with contextlib.suppress(OSError, psutil.Error):
        return os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE
    return False


def resolve_argv(argv: tuple[str, ...], project: Path) -> list[str]:
    """The command line with `python` and `{project}` filled in.

    Raises:
        UserError: The program cannot be found, or may not be run.
    """
    name, *arguments = (word.replace("{project}", str(project)) for word in argv)
    if name in ("python", "python3"):
        found: str | None = sys.executable
    else:
        found = find_program(name, project)
    if found is None:
        raise UserError(
            f"The proposer's program {name!r} cannot be found, or may not be run.",
            where="capevolve.yaml, proposer.command",
            fix="Install it, or give its path relative to the project; a file must be executable.",
        )
    return [found, *arguments]


def _tail(log: BinaryIO) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - TAIL_BYTES))
    return log.read().decode("utf-8", "replace").strip()


def _read_note(path: Path) -> tuple[ProposalNote, str | None]:
    """What the program noted, or what is wrong with the note."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ProposalNote(), "the program's proposal note is not a file"
            data = file.read(MAX_NOTE_BYTES + 1)
    except FileNotFoundError:
        return ProposalNote(), None
    except OSError as error:
        return ProposalNote(), f"the program's proposal note cannot be read: {error.strerror}"
    if len(data) > MAX_NOTE_BYTES:
        return ProposalNote(), f"the program's proposal note is longer than {MAX_NOTE_BYTES} bytes"
    try:
        return ProposalNote.model_validate_json(data), None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return ProposalNote(), f"the program's proposal note is malformed: {place} {first['msg']}"
