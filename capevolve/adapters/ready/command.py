"""The target `command`: a program that reads a task as JSON and prints its answer.

It runs in the project's directory with one line of JSON on its standard input, `{"id", "input", "metadata",
"seed"}`; never the task's target. In its environment it finds `CAPEVOLVE_CANDIDATE` (the candidate's
directory), `CAPEVOLVE_SEED`, `CAPEVOLVE_PROJECT`, and `CAPEVOLVE_USAGE`: a file to which it may write
`{"cost_usd": ..., "tokens": ...}`, and before it exits with 75 `{"retry_after_s": ...}`.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from capevolve.adapters.late import load_late
from capevolve.adapters.loader import is_users
from capevolve.adapters.lookup import find_program
from capevolve.adapters.records import Refusal
from capevolve.adapters.refusals import RefusedRollout, check_wait
from capevolve.errors import AdapterError
from capevolve.model import AgentFailure, Rollout, Task
from capevolve.spec.ready import CommandTargetSpec

AGENT_FAILED = 10
"""The exit code by which a program says that the agent failed: the trial scores 0."""

RATE_LIMITED = 75
"""The exit code (EX_TEMPFAIL) by which a program says that its provider asks to be called less often."""

TRUNCATED = "\n[truncated by capevolve]"
"""The end of an answer that was too long. Without digits: a scorer may look for the last number."""

_SHOWN = 2_000
_SHORTEST_SECRET = 6
_PLACE = re.compile(r"\{(candidate|project)\}")


class CommandTarget:
    """Runs the program once per trial.

    Raises:
        AdapterError: The program cannot be found, or may not be run.
    """

    is_async = True

    def __init__(self, root: Path, spec: CommandTargetSpec) -> None:
        self._root = root
        self._argv = spec.argv()
        self._env = dict(spec.env)
        self._program = load_late("capevolve.adapters.ready.program")  # asyncio is slow to import
        self._find(self._argv[0], candidate_dir=None)

    def sources(self) -> list[Path]:
        """Returns the user's files that the command names: its program, scripts and modules."""
        words = [
            word.replace("{project}", str(self._root)) for word in self._argv if "{candidate}" not in word
        ]
        places = [self._root / word for word in words]
        for flag, name in pairwise(words):
            if flag == "-m":
                folder = self._root.joinpath(*name.split("."))
                places += [folder.with_suffix(".py"), folder / "__main__.py", folder / "__init__.py"]
        found = {place.resolve() for place in places if place.is_file()}
        return sorted(place for place in found if is_users(place, self._root.resolve()))

    async def run(self, task: Task, candidate_dir: Path, seed: int) -> Rollout:
        """Runs the program on a task.

        An exit code of 0 makes standard output the answer, 10 is a failure of the agent, and any other is one
        of the infrastructure; 75 asks to be called again later.

        Raises:
            AgentFailure: The exit code is 10.
        """
        line = {"id": task.id, "input": task.input, "metadata": task.metadata, "seed": seed}
        usage = Path(tempfile.gettempdir()) / f"capevolve-usage-{uuid.uuid4().hex}"
        env = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            **self._env,
            "CAPEVOLVE_CANDIDATE": str(candidate_dir),
            "CAPEVOLVE_PROJECT": str(self._root),
            "CAPEVOLVE_SEED": str(seed),
            "CAPEVOLVE_USAGE": str(usage),
        }
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        argv = self._fill(candidate_dir)
        try:
            ended = await self._program.run_program(argv, cwd=self._root, env=env, data=data)
            return self._conclude(task, ended, read_usage(usage))
        finally:
            usage.unlink(missing_ok=True)

    def _conclude(self, task: Task, ended: Any, usage: Usage) -> Rollout:
        errors = self._hide_secrets(ended.errors.strip()[-_SHOWN:])
        if ended.errors_size > self._program.TAIL or len(ended.errors.strip()) > _SHOWN:
            errors = f"[truncated by capevolve: the end of {ended.errors_size} bytes]\n{errors}"
        if ended.code == AGENT_FAILED:
            raise AgentFailure(errors or f"the command exited with code {AGENT_FAILED}")
        error = refusal = None
        if ended.code == RATE_LIMITED:
            refusal = Refusal(True, usage.retry_after_s)
        if ended.code != 0:
            words = f"the command {self._program.describe_code(ended.code)}"
            error = f"{words}: {errors}" if errors else words
        output, metadata = ended.output.strip(), {}
        if ended.size > self._program.MAX_OUTPUT:
            output, metadata = output + TRUNCATED, {"output_bytes": ended.size}
        if usage.fault:
            metadata["usage_note"] = usage.fault
        return RefusedRollout(
            task.id,
            output=output,
            cost_usd=usage.cost_usd,
            tokens=usage.tokens,
            error=error,
            metadata=metadata,
            refusal=refusal,
        )

    def _fill(self, candidate_dir: Path) -> list[str]:
        folders = {"candidate": str(candidate_dir), "project": str(self._root)}
        words = [_PLACE.sub(lambda match: folders[match.group(1)], word) for word in self._argv[1:]]
        return [self._find(self._argv[0], candidate_dir), *words]

    def _find(self, name: str, candidate_dir: Path | None) -> str:
        python = self._program.python_of(name)
        if python is not None:
            return str(python)
        if "{candidate}" in name:
            return name.replace("{candidate}", str(candidate_dir))
        name = name.replace("{project}", str(self._root))
        found = find_program(name, self._root)
        if found is None:
            raise AdapterError(
                f"the program {name!r} cannot be found, or may not be run",
                where="capevolve.yaml, target.command",
                fix="install it, or give its path relative to the project; a file must be executable",
            )
        return found

    def _hide_secrets(self, text: str) -> str:
        for name, value in self._env.items():
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, f"[{name}]")
        return text


@dataclass(frozen=True, slots=True)
class Usage:
    """What a program noted of its own cost; whether the figures are usable is decided with all others.

    Attributes:
        fault: What is wrong with the note.
        retry_after_s: What the program's provider asks to wait, in seconds.
    """

    cost_usd: Any = None
    tokens: Any = None
    fault: str | None = None
    retry_after_s: float | None = None


def read_usage(path: Path) -> Usage:
    """Returns what a program noted; nothing when it noted nothing."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Usage()
    except OSError as error:
        return Usage(fault=f"cannot be read: {error.strerror}")
    except (ValueError, RecursionError):
        return Usage(fault="is not JSON")
    if not isinstance(value, dict):
        return Usage(fault="is not a JSON object")
    wait = check_wait(value.get("retry_after_s"))
    return Usage(value.get("cost_usd"), value.get("tokens"), retry_after_s=wait)
