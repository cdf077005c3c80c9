"""A trial that takes its process along is a crash by name; the others get their results."""

from __future__ import annotations

import asyncio
import json

import pytest

from capevolve.errors import AdapterError, OutsideError
from capevolve.model import Reason, Scored, Unmeasured

_ENDS = {
    "os._exit(1)": "exited with code 1",
    "os._exit(0)": "exited with code 0",
    "os.abort()": "killed by SIGABRT",
    "ctypes.string_at(0)": "killed by SIGSEGV",
    "os.kill(os.getpid(), 9)": "killed by SIGKILL",
    "os.killpg(os.getpgrp(), 15)": "killed by SIGTERM",
}


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_crashes_are_named_and_cost_nobody_else_anything(project, kind: str) -> None:
    acts = "\n".join(
        f"                    if task.input == {2 * place + 1}: {act}" for place, act in enumerate(_ENDS)
    )
    replies = project.run(
        f"""
        import ctypes
        class Adapter(Plain):
            {kind} run_target(self, task, ctx, *, seed):
                if task.input % 2:
                    print("the last words of", task.id, flush=True)
{acts}
                return Rollout(task.id)
        """,
        range(12),
    )
    for place, end in enumerate(_ENDS.values()):
        reply = replies[2 * place + 1]
        assert isinstance(reply.outcome, Unmeasured)
        assert reply.outcome.reason is Reason.CRASH
        assert reply.outcome.detail.startswith(f"{end}: the last words of t{2 * place + 1}")
        assert "the last words" in json.loads(reply.payload)["host_output"]
        assert replies[2 * place].outcome == Scored(1.0)
    assert {reply.starts for reply in replies.values()} == {1}


def test_a_native_crash_shows_where(project) -> None:
    reply = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                self.call_native_code()
            def call_native_code(self):
                os.close(2)
                os.abort()
        """
    )[0]
    assert "in call_native_code" in json.loads(reply.payload)["host_output"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_when_several_trials_shared_a_dead_host_only_the_culprit_pays(project, kind: str) -> None:
    """Trials 0, 1 and 2 run together when 1 ends the process; nothing tells which of them did it."""
    pause = "await asyncio.sleep(0.005)" if kind == "async def" else "time.sleep(0.005)"
    replies = project.run(
        f"""
        import asyncio
        class Adapter(Plain):
            {kind} run_target(self, task, ctx, *, seed):
                with open(f"calls-{{task.input}}", "a") as file: file.write(".")
                if task.input < 3:
                    while not all(os.path.exists(f"calls-{{n}}") and os.path.getsize(f"calls-{{n}}") for n in range(3)):
                        {pause}
                if task.input == 1:
                    os._exit(3)
                while task.input < 3 and os.path.getsize(f"calls-{{task.input}}") == 1:
                    {pause}  # still running when the host dies
                return Rollout(task.id)
        """,
        range(9),
        slots=3,
        trials_per_host=3,
        prefetch=False,
    )
    assert replies[1].outcome == Unmeasured(Reason.CRASH, "exited with code 3")
    assert [replies[n].outcome for n in (0, *range(2, 9))] == [Scored(1.0)] * 8
    assert [replies[n].starts for n in range(9)] == [2, 2, 2, 1, 1, 1, 1, 1, 1]
    calls = [len((project.root / f"calls-{n}").read_text()) for n in range(9)]
    assert calls == [2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_requests_queued_in_a_host_that_dies_are_run_once_elsewhere(project) -> None:
    """With no-op trials many requests wait in the host; the count of calls proves none is lost or doubled."""
    ref = project.adapter(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                with open("calls", "a") as file: file.write(f"{seed}\\n")
                if task.input == 11:
                    os._exit(1)
                return Rollout(task.id)
        """
    )

    async def story() -> dict:
        async with project.pool(ref, slots=1) as pool:
            await project.drain(pool, project.ask(range(11)))  # learns that trials are short
            assert pool.free() > 12
            return await project.drain(pool, project.ask([0, 1, 11, *range(2, 11)]))

    replies = asyncio.run(story())
    assert replies[11].outcome.reason is Reason.CRASH
    assert sum(reply.outcome == Scored(1.0) for reply in replies.values()) == 11
    assert len((project.root / "calls").read_text().split()) == 11 + 12


def test_grandchildren_of_a_crashed_host_are_dead_before_the_reply(project, living) -> None:
    ref = project.adapter(
        """
        import subprocess
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                subprocess.Popen(["sleep", "621"])
                subprocess.Popen(["sleep", "622"], start_new_session=True)
                os._exit(1)
        """
    )

    async def story() -> list:
        async with project.pool(ref) as pool:
            pool.submit(project.ask([0]))
            await pool.replies()
            return [process.cmdline() for process in living() if "sleep" in process.name()]

    assert asyncio.run(story()) == []


def test_a_fork_that_lives_on_does_not_hide_the_crash_of_its_host(project) -> None:
    replies = project.run(
        """
        import multiprocessing
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 1:
                    multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
                    os._exit(1)
                return Rollout(task.id)
        """,
        range(3),
    )
    assert replies[1].outcome.reason is Reason.CRASH
    assert (replies[0].outcome, replies[2].outcome) == (Scored(1.0), Scored(1.0))


def test_a_trial_that_closes_the_channel_is_a_crash(project) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 1:
                    os.closerange(3, 5000)
                    time.sleep(600)
                return Rollout(task.id)
        """,
        range(3),
    )
    assert replies[1].outcome.reason is Reason.CRASH
    assert (replies[0].outcome, replies[2].outcome) == (Scored(1.0), Scored(1.0))


def test_a_trial_that_writes_garbage_into_the_channel_is_a_crash(project) -> None:
    replies = project.run(
        """
        import socket
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 1:
                    for fd in range(3, 1024):
                        try: socket.socket(fileno=os.dup(fd)).sendall(b"garbage, not a frame")
                        except OSError: pass
                    time.sleep(600)
                return Rollout(task.id)
        """,
        range(3),
    )
    assert replies[1].outcome.reason is Reason.CRASH
    assert (replies[0].outcome, replies[2].outcome) == (Scored(1.0), Scored(1.0))


_BROKEN = {
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
    "def broken(:": "SyntaxError",
    "sys.exit('not today')": "SystemExit: not today",
    "class Adapter(Base): pass": "TypeError: Can't instantiate abstract class Adapter",
    "class Adapter:\n    def tasks(self, split): return []": "has no run_target, score",
    "class Adapter(Plain):\n    def run_target(self, task, ctx): pass": "run_target takes no seed",
    "class One(Plain): pass\nclass Two(Plain): pass": "(classes with run_target: One, Plain, Two)",
    "class Adapter(Plain):\n    def live(self, d): raise OSError('no gpu')": "OSError: no gpu",
    "class Adapter(Plain):\n    def tasks(self, split): raise OSError('no file')": "OSError: no file",
}


@pytest.mark.parametrize("source", _BROKEN)
def test_an_adapter_that_cannot_be_used_says_why_and_where(project, source: str) -> None:
    ref = project.adapter(source)
    with pytest.raises(AdapterError) as caught:
        asyncio.run(project.collect(ref, project.ask([0, 1]), slots=2))
    assert _BROKEN[source] in caught.value.what
    assert "capevolve/adapters/" not in caught.value.what
    assert str(project.root / "adapter.py") in str(caught.value.where)
    assert caught.value.fix


def test_an_adapter_file_that_does_not_exist_is_named(project) -> None:
    ref = project.adapter("class Adapter(Plain): pass")
    for target in ("missing.py", "missing.module:Cls"):
        with pytest.raises(AdapterError, match="there is no"):
            asyncio.run(project.collect(type(ref)(ref.root, target), project.ask([0])))


def test_a_host_that_dies_at_its_start_is_tried_three_times(project) -> None:
    ref = project.adapter(
        """
        with open("starts", "a") as file: file.write(".")
        print("out of memory", flush=True)
        os._exit(137)
        """
    )
    with pytest.raises(OutsideError, match="exited with code 137") as caught:
        asyncio.run(project.collect(ref, project.ask([0])))
    assert "out of memory" in caught.value.what
    assert (project.root / "starts").read_text() == "..."


def test_a_host_that_dies_at_its_first_start_only_does_no_harm(project) -> None:
    replies = project.run(
        """
        if not os.path.exists("tried"):
            open("tried", "w").close()
            os._exit(1)
        class Adapter(Plain): pass
        """
    )
    assert replies[0].outcome == Scored(1.0)


def test_an_adapter_that_never_gets_ready_is_ended_and_shows_where_it_hung(project) -> None:
    ref = project.adapter(
        """
        def connect():
            time.sleep(600)
        connect()
        """
    )
    with pytest.raises(AdapterError, match=r"was not ready within 0\.4 s") as caught:
        asyncio.run(project.collect(ref, project.ask([0]), start_timeout_s=0.4))
    assert "in connect" in caught.value.what


def test_an_interpreter_that_does_not_exist_is_an_outside_error(project) -> None:
    ref = project.adapter("class Adapter(Plain): pass")
    with pytest.raises(OutsideError, match="no process can be started"):
        asyncio.run(project.collect(ref, project.ask([0]), python="/no/such/python"))


def test_an_adapter_edited_while_the_evaluation_runs_stops_it(project) -> None:
    ref = project.adapter(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                os._exit(1)
        """
    )

    async def story() -> None:
        async with project.pool(ref) as pool:
            pool.submit(project.ask([0]))
            assert (await pool.replies())[0].outcome.reason is Reason.CRASH
            with open(project.root / "adapter.py", "a") as file:
                file.write("\n# changed\n")
            pool.submit(project.ask([1]))
            with pytest.raises(AdapterError, match="changed while the evaluation ran"):
                await pool.replies()

    asyncio.run(story())
