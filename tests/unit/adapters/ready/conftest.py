"""Ready adapters in real hosts."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from capevolve.adapters.listing import list_tasks
from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import AdapterRef, TaskListing, TrialReply, TrialRequest
from capevolve.spec import SPEC_NAME, ReadySpec

TASKS = [{"id": f"t{n}", "input": f"word {n}", "target": str(n), "family": "f"} for n in range(4)]


class Ready:
    """A project without an adapter: files, sections, and what hosts make of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.candidate = root / ".capevolve" / "candidate"
        self.candidate.mkdir(parents=True)
        self.write("tasks.jsonl", "".join(json.dumps(task) + "\n" for task in TASKS))

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def ref(self, target: dict[str, Any], scoring: Any = "exact", tasks: dict | None = None) -> AdapterRef:
        sections = {"tasks": tasks or {"file": "tasks.jsonl"}, "target": target, "scoring": scoring}
        return AdapterRef(self.root, SPEC_NAME, ReadySpec.model_validate(sections).model_dump_json())

    def command(self, source: str, *words: str, env: dict[str, str] | None = None, **more: Any) -> AdapterRef:
        """A command target whose program is this Python source."""
        self.write("agent.py", source)
        target = {"kind": "command", "command": ["python", "agent.py", *words], "env": env or {}}
        return self.ref(target, **more)

    def list(self, ref: AdapterRef, timeout_s: float = 20.0) -> TaskListing:
        return asyncio.run(list_tasks(ref, timeout_s=timeout_s))

    def run(self, ref: AdapterRef, numbers: Sequence[int] = (0,), **options: Any) -> dict[int, TrialReply]:
        """Runs one trial of each numbered task, with seed 7 + number."""
        return asyncio.run(self.collect(ref, numbers, **options))

    async def collect(self, ref: AdapterRef, numbers: Sequence[int], **options: Any) -> dict[int, TrialReply]:
        digests = {task.id: task.digest for task in (await list_tasks(ref, timeout_s=20.0)).tasks}
        settings = {"slots": 1, "timeout_s": 20.0, "grace_s": 1.0, **options}
        async with HostPool(ref, self.candidate, **settings) as pool:
            pool.submit([TrialRequest(n, f"t{n}", digests[f"t{n}"], 0, 7 + n) for n in numbers])
            replies: dict[int, TrialReply] = {}
            while len(replies) < len(numbers):
                async with asyncio.timeout(30):
                    replies |= {reply.key: reply for reply in await pool.replies()}
            return replies


@pytest.fixture
def ready(tmp_path: Path) -> Ready:
    return Ready(tmp_path)


@pytest.fixture
def server() -> Iterator[Any]:
    """A server like OpenAI's that misbehaves as the model's name says."""
    path = Path(__file__).with_name("fault_server.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    with module.FaultServer() as running:
        yield running
