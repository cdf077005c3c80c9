"""Real hosts for small adapters written to a temporary project."""

from __future__ import annotations

import asyncio
import contextlib
import os
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import AdapterRef, TrialReply, TrialRequest
from capevolve.canonical import digest

_MARK = "CAPEVOLVE_TEST_MARK"

HEAD = """
import os, sys, time
from capevolve import Adapter as Base, AgentFailure, Rollout, Score, Task

class Plain(Base):
    def tasks(self, split):
        return [Task(id=f"t{i}", input=i) for i in range(12)]
    def run_target(self, task, ctx, *, seed):
        return Rollout(task.id, output=task.input)
    def score(self, task, rollout):
        return Score(task.id, reward=1.0)

"""


def write_adapter(root: Path, source: str, place: str = "adapter.py", head: str = HEAD) -> AdapterRef:
    """Writes an adapter whose class usually derives from `Plain`."""
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + textwrap.dedent(source))
    return AdapterRef(root, place)


def digest_of(number: int) -> str:
    return digest({"input": number, "target": None, "metadata": {}})


def ask(numbers: Sequence[int], *, seed: int = 7) -> list[TrialRequest]:
    """Requests for the tasks t0..t11 of `Plain`, keyed by their number."""
    return [TrialRequest(n, f"t{n}", digest_of(n), 0, seed + n) for n in numbers]


class Project:
    """A temporary project, what can be run in it, and the helpers of the tests."""

    head = HEAD
    ask = staticmethod(lambda numbers: ask(numbers))
    digest_of = staticmethod(lambda number: digest_of(number))
    drain = staticmethod(lambda pool, requests: drain(pool, requests))
    wait_for = staticmethod(lambda condition: wait_for(condition))

    def __init__(self, root: Path) -> None:
        self.root = root
        self.candidate = root / ".capevolve" / "candidate"
        self.candidate.mkdir(parents=True)

    def adapter(self, source: str, place: str = "adapter.py", head: str = HEAD) -> AdapterRef:
        return write_adapter(self.root, source, place, head)

    def pool(self, ref: AdapterRef, **options: object) -> HostPool:
        settings: dict[str, object] = {"slots": 1, "timeout_s": 20.0, "grace_s": 1.0, **options}
        return HostPool(ref, self.candidate, **settings)  # type: ignore[arg-type]

    def run(
        self, source: str | AdapterRef, numbers: Sequence[int] = (0,), **options: object
    ) -> dict[int, TrialReply]:
        """Runs one trial of each numbered task, and returns the replies by number."""
        ref = source if isinstance(source, AdapterRef) else self.adapter(source)
        return asyncio.run(self.collect(ref, ask(numbers), **options))

    async def collect(
        self, ref: AdapterRef, requests: Sequence[TrialRequest], **options: object
    ) -> dict[int, TrialReply]:
        async with self.pool(ref, **options) as pool:
            return await drain(pool, requests)


async def drain(pool: HostPool, requests: Sequence[TrialRequest]) -> dict[int, TrialReply]:
    """Submits all requests at once and waits for all replies; a second reply to one is an error."""
    pool.submit(requests)
    replies: dict[int, TrialReply] = {}
    while len(replies) < len(requests):
        async with asyncio.timeout(30):
            for reply in await pool.replies():
                assert reply.key not in replies
                replies[reply.key] = reply
    return replies


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    root.mkdir()
    return Project(root)


@pytest.fixture(autouse=True)
def living(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[psutil.Process]]]:
    """Returns the living processes that a test started, and checks in the end that there are none."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(_MARK, mark)

    def find() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                marked = process.environ().get(_MARK) == mark
                if marked and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                    found.append(process)
        return found

    yield find
    left = find()
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    assert left == []


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Waits until a condition holds; fails after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
