"""Limits of time, memory and size: who meets one pays for it, by name, and nobody else does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

import psutil
import pytest

from capevolve.adapters.payload import MAX_PAYLOAD
from capevolve.adapters.reply import WHILE_SCORING
from capevolve.errors import AdapterError
from capevolve.model import Reason, Scored, Unmeasured

_MEMORY = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps RLIMIT_AS")
_HUNG = """
import ctypes, signal, subprocess
class Adapter(Plain):
    def run_target(self, task, ctx, *, seed):
        if task.input == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen(["sleep", "611"])
            subprocess.Popen(["sleep", "612"], start_new_session=True)
            for _ in range(50):
                os.write(2, b"noise..." * 131_072)
            open("hangs", "w").close()
            while True:  # a signal ends the call
                ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock
        time.sleep(0.1)
        return Rollout(task.id, os.getpid())
"""


def test_a_hung_target_is_ended_in_its_limit_and_two_seconds_and_harms_nobody(project, living) -> None:
    limit, process = 1.0, psutil.Process(os.getpid())

    async def watch(memory: list[int]) -> None:
        while True:
            memory.append(process.memory_info().rss)
            await asyncio.sleep(0.02)

    async def run() -> tuple[dict, list[int], float]:
        memory: list[int] = []
        watching = asyncio.ensure_future(watch(memory))
        options = {"slots": 2, "timeout_s": limit, "grace_s": 0.3, "prefetch": False}
        async with project.pool(project.adapter(_HUNG), **options) as pool:
            begun = time.monotonic()
            await pool.facts()
            replies = await project.drain(pool, project.ask(range(2)))
            taken = time.monotonic() - begun
            left = [(p.cmdline(), p.status(), p.ppid()) for p in living() if "sleep" in p.cmdline()[0]]
            assert left == [], replies[0]
            pids: set[int] = set()
            while len(pids) < 2:  # until the slot of the hung trial is used again
                replies |= await project.drain(pool, project.ask(range(2, 4)))
                pids |= {json.loads(replies[n].payload)["output"] for n in (2, 3)}
        watching.cancel()
        return replies, memory, taken

    replies, memory, taken = asyncio.run(run())
    assert (project.root / "hangs").exists()
    assert replies[0].outcome.reason is Reason.TIMEOUT
    assert limit < replies[0].duration_s < limit + 2
    assert taken < limit + 2 + 3  # the hosts' start is on top
    assert {replies[n].outcome for n in range(1, 4)} == {Scored(1.0)}
    assert {reply.starts for reply in replies.values()} == {1}
    assert max(memory) - memory[0] < 20_000_000


_ACTS = """
    print('["progress", [], []]', flush=True); os.write(1, b"\\0\\0\\0\\5hello" * 100)
    os._exit(0)
    sys.exit(0)
    os.close(1); os.closerange(0, 3)
    os.chdir("/")
    random.seed(1); sys.stdout = None
"""


def test_no_misdeed_of_a_trial_reaches_the_next_one_in_the_same_slot(project) -> None:
    (project.root / "json.py").write_text("WHO = 'mine'\n")
    acts = [line.strip() for line in _ACTS.strip().splitlines()]
    branches = "\n".join(f"        if task.input == {2 * n}: {act}" for n, act in enumerate(acts))
    source = f"""
import random
import json
class Adapter(Plain):
    def run_target(self, task, ctx, *, seed):
        drawn = random.random()
{branches}
        print("still heard")
        where = [os.getcwd(), os.fstat(1).st_ino == os.fstat(2).st_ino, json.WHO, seed, drawn]
        return Rollout(task.id, where)
"""
    replies = project.run(source, range(12), prefetch=False)
    reasons = {n: replies[n].outcome.reason for n in range(12) if isinstance(replies[n].outcome, Unmeasured)}
    assert reasons == {2: Reason.CRASH, 4: Reason.INFRA, 6: Reason.INFRA}  # what each did to itself
    seen = [json.loads(replies[n].payload)["output"] for n in range(1, 12, 2)]
    assert [row[:4] for row in seen] == [[str(project.root), True, "mine", 7 + n] for n in range(1, 12, 2)]
    assert len({row[4] for row in seen}) == 6


_SLOW_SCORE = """
class Adapter(Plain):
    {kind} run_target(self, task, ctx, *, seed):
        time.sleep(60 if task.input == 1 else 0.05)
        return Rollout(task.id)
    def score(self, task, rollout):
        time.sleep({hang})
        return Score(task.id, 1.0)
"""


@pytest.mark.parametrize(
    ("hang", "options"),
    [(60, {}), (0.5, {"grace_s": 5.0}), (60, {"slots": 2, "trials_per_host": 2})],
    ids=["killed", "late", "in a thread"],
)
def test_a_limit_reached_in_the_scorer_says_so(project, hang, options) -> None:
    settings = {"timeout_s": 0.4, "grace_s": 0.1, **options}
    reply = project.run(_SLOW_SCORE.format(kind="def", hang=hang), **settings)[0]
    assert reply.outcome.reason is Reason.TIMEOUT
    assert WHILE_SCORING in reply.outcome.detail


@pytest.mark.parametrize("options", [{}, {"slots": 2, "trials_per_host": 2}], ids=["killed", "in a thread"])
def test_a_limit_reached_in_the_target_does_not_blame_the_scorer(project, options) -> None:
    reply = project.run(_SLOW_SCORE.format(kind="def", hang=0), [1], timeout_s=0.3, grace_s=0.1, **options)[1]
    assert reply.outcome.reason is Reason.TIMEOUT
    assert WHILE_SCORING not in reply.outcome.detail


@_MEMORY
def test_a_trial_over_the_memory_limit_is_named_and_the_next_one_runs(project) -> None:
    replies = project.run(
        """
        import subprocess
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 0:
                    bytearray(2_000_000_000)
                if task.input == 1:
                    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\\n")
                    os.abort()
                code = "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0])"
                shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
                return Rollout(task.id, int(shown.stdout))
            def score(self, task, rollout):
                if task.input == 2:
                    bytearray(2_000_000_000)
                return Score(task.id, 1.0)
        """,
        range(4),
        memory_mb=800,
    )
    found = [(replies[n].outcome.reason, replies[n].outcome.detail) for n in range(3)]
    assert found[0] == (Reason.INFRA, "over the memory limit of 800 MB: MemoryError")
    assert found[1][0] is Reason.CRASH
    assert found[1][1].startswith("over the memory limit of 800 MB: killed by SIGABRT")
    assert found[2] == (Reason.SCORER_ERROR, "over the memory limit of 800 MB: MemoryError")
    assert replies[3].outcome == Scored(1.0)
    assert json.loads(replies[3].payload)["output"] == 800 << 20


@_MEMORY
@pytest.mark.parametrize(
    ("line", "limit"),
    [("pass", 20), ("kept = bytearray(2_000_000_000)", 800), ("os.abort()", 800)],
    ids=["before anything is loaded", "while it is loaded", "when it dies of it"],
)
def test_a_memory_limit_too_small_to_load_the_adapter_says_so(project, line, limit) -> None:
    with pytest.raises(AdapterError, match=f"evaluation.memory_mb.* {limit}") as caught:
        project.run(f"{line}\nclass Adapter(Plain): pass\n", memory_mb=limit)
    assert "raise evaluation.memory_mb" in str(caught.value)


def test_without_a_memory_limit_nothing_is_said_of_one(project) -> None:
    reply = project.run("class Adapter(Plain):\n    def run_target(self, *a, seed): raise MemoryError\n")[0]
    assert reply.outcome == Unmeasured(Reason.INFRA, "MemoryError")


def test_the_size_of_what_is_kept_is_a_setting_and_the_cut_is_marked(project) -> None:
    source = """
    class Adapter(Plain):
        def run_target(self, task, ctx, *, seed):
            return Rollout(task.id, "short", trace=["x" * 5_000])
    """
    whole = json.loads(project.run(source)[0].payload)
    assert whole["trace"] == ["x" * 5_000]
    text = project.run(source, max_payload=2_000)[0].payload
    assert len(text) <= 2_000 < MAX_PAYLOAD
    cut = json.loads(text)
    assert cut["output"] == "short"
    assert (cut["trace"]["truncated"], cut["trace"]["length"]) == (True, 5_004)
    assert cut["trace"]["head"].startswith('["xxx')
