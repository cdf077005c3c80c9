"""However a pool ends, nothing that it started is alive afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from capevolve.adapters.listing import list_tasks
from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import AdapterRef
from capevolve.model import Scored

_DAEMON = """
import subprocess
class Adapter(Plain):
    def run_target(self, task, ctx, *, seed):
        subprocess.Popen(["sleep", "631"], start_new_session=True)
        {after}
        return Rollout(task.id)
"""


def test_daemons_left_behind_by_a_trial_are_dead_after_a_normal_close(project, living) -> None:
    replies = project.run(_DAEMON.format(after="pass"), range(2), slots=2)
    assert len(replies) == 2
    assert living() == []


def test_the_facts_come_without_a_trial(project) -> None:
    (project.root / "scorer.py").write_text("x = 1\n")
    (project.root / ".venv").mkdir()
    (project.root / ".venv" / "lib_in_venv.py").write_text("x = 1\n")
    ref = project.adapter(
        """
        import scorer
        sys.path.append(".venv")
        import lib_in_venv
        class Adapter(Plain):
            async def run_target(self, task, ctx, *, seed): ...
        """
    )

    async def read():
        async with project.pool(ref) as pool:
            return await pool.facts()

    facts = asyncio.run(read())
    assert (facts.class_name, facts.is_async, facts.file) == ("Adapter", True, "adapter.py")
    assert [path for path, _ in facts.files] == ["adapter.py", "scorer.py"]
    again = asyncio.run(read())
    assert again == facts
    (project.root / "scorer.py").write_text("x = 2\n")
    assert asyncio.run(read()).digest != facts.digest


@pytest.mark.parametrize("options", [{"slots": 2}, {"slots": 4, "trials_per_host": 4}])
def test_an_exception_in_the_block_leaves_nothing_alive(project, living, options) -> None:
    ref = project.adapter(_DAEMON.format(after="open(task.id, 'w').close(); time.sleep(600)"))

    async def story() -> None:
        async with project.pool(ref, **options) as pool:
            pool.submit(project.ask([0, 1]))
            while not (project.root / "t0").exists() or not (project.root / "t1").exists():
                await asyncio.sleep(0.01)
            raise RuntimeError("the driver's own")

    with pytest.raises(RuntimeError, match="own"):
        asyncio.run(story())
    assert living() == []


def test_a_cancelled_evaluation_leaves_nothing_alive(project, living) -> None:
    ref = project.adapter(_DAEMON.format(after="open(task.id, 'w').close(); time.sleep(600)"))

    async def story() -> None:
        evaluation = asyncio.create_task(project.collect(ref, project.ask([0, 1]), slots=2))
        while not (project.root / "t0").exists():
            await asyncio.sleep(0.01)
        evaluation.cancel()
        with pytest.raises(asyncio.CancelledError):
            await evaluation
        assert living() == []

    asyncio.run(story())


def test_cancelling_even_the_close_leaves_nothing_alive(project, living) -> None:
    """`live` never ends, so that the close waits; the second cancel comes in the middle of it."""
    ref = project.adapter(
        """
        class Adapter(Plain):
            def live(self, candidate_dir):
                yield candidate_dir
                open("leaving", "w").close()
                time.sleep(600)
        """
    )

    async def story() -> None:
        evaluation = asyncio.create_task(project.collect(ref, project.ask([0]), grace_s=600))
        while not (project.root / "leaving").exists():
            await asyncio.sleep(0.01)
        evaluation.cancel()
        with pytest.raises(asyncio.CancelledError):
            await evaluation
        assert living() == []

    asyncio.run(story())


def test_a_live_that_does_not_end_is_killed_after_the_grace(project) -> None:
    begun = time.monotonic()
    project.run(
        """
        class Adapter(Plain):
            def live(self, candidate_dir):
                yield candidate_dir
                time.sleep(600)
        """,
        grace_s=0.1,
    )
    assert time.monotonic() - begun < 5


def test_leaving_while_hosts_are_starting_leaves_nothing_alive(project, living) -> None:
    ref = project.adapter("time.sleep(600)")

    async def story(pause: float) -> None:
        async with project.pool(ref, slots=3) as pool:
            pool.submit(project.ask([0, 1, 2]))
            await asyncio.sleep(pause)

    for pause in (0.0, 0.001, 0.02, 0.2):
        asyncio.run(story(pause))
        assert living() == []


def test_hosts_are_started_only_for_the_work_there_is(project) -> None:
    ref = project.adapter("open(f'host-{os.getpid()}', 'w').close()\nclass Adapter(Plain): pass")
    project.run(ref, [0], slots=8)
    assert len(list(project.root.glob("host-*"))) == 1


def test_the_cheap_part_of_a_start_is_cheap(project) -> None:
    """A host that imports asyncio, pydantic or Prefect before it must would be slow to start."""
    ref = project.adapter(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                heavy = {"asyncio", "pydantic", "prefect", "sqlalchemy", "numpy", "psutil", "traceback"}
                return Rollout(task.id, sorted(heavy & set(sys.modules)))
        """
    )
    assert json.loads(project.run(ref)[0].payload)["output"] == []


_DRIVER = """
import asyncio, sys, time
from pathlib import Path
from capevolve.adapters.listing import list_tasks
from capevolve.adapters.pool import HostPool
from capevolve.adapters.records import AdapterRef
from capevolve.model import Scored
from capevolve.adapters.records import AdapterRef, TrialRequest
from capevolve.canonical import digest

async def main():
    root = Path(sys.argv[1])
    ref = AdapterRef(root, "adapter.py")
    async with HostPool(ref, root, slots=int(sys.argv[2]), timeout_s=600, grace_s=600) as pool:
        pool.submit([
            TrialRequest(n, f"t{n}", digest({"input": n, "target": None, "metadata": {}}), 0, n)
            for n in range(2)
        ])
        await pool.replies()

asyncio.run(main())
"""


@pytest.fixture
def driver(project):
    """Starts a script that runs a pool and waits until its two trials run."""
    processes = []

    def start(source: str, slots: int) -> subprocess.Popen:
        project.adapter(source)
        (project.root / "driver.py").write_text(_DRIVER)
        process = subprocess.Popen(
            [sys.executable, str(project.root / "driver.py"), str(project.root), str(slots)], cwd="/"
        )
        processes.append(process)
        project.wait_for(lambda: (project.root / "t0").exists() and (project.root / "t1").exists())
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


_HANGS = {
    "plain": ("def", "time.sleep(600)", 2),
    "holding the lock": ("def", "ctypes.PyDLL(None).sleep(600)", 2),
    "threads": ("def", "time.sleep(600)", 9),
    "async": ("async def", "await asyncio.sleep(600)", 2),
}


@pytest.mark.parametrize("kind", _HANGS)
def test_a_driver_killed_by_kill_9_takes_its_hosts_and_their_children_along(
    project, living, driver, kind: str
) -> None:
    define, hang, slots = _HANGS[kind]
    process = driver(
        f"""
        import asyncio, ctypes, subprocess
        class Adapter(Plain):
            {define} run_target(self, task, ctx, *, seed):
                subprocess.Popen(["sleep", "641"])
                subprocess.Popen(["sleep", "642"], start_new_session=True)
                open(task.id, "w").close()
                {hang}
        """,
        slots,
    )
    # A process that is just becoming `sleep` has no environment to be found by for a moment.
    project.wait_for(lambda: sum(found.name() == "sleep" for found in living()) == 4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    project.wait_for(lambda: not living())


def test_ctrl_c_reaches_the_driver_only_and_the_driver_cleans_up(project, living) -> None:
    project.adapter(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(task.id, "w").close()
                try:
                    time.sleep(600)
                except BaseException as error:
                    open("interrupted", "w").write(repr(error))
        """
    )
    (project.root / "driver.py").write_text(_DRIVER)
    process = subprocess.Popen(
        [sys.executable, str(project.root / "driver.py"), str(project.root), "2"],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    project.wait_for(lambda: (project.root / "t0").exists())
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    process.wait(10)
    assert living() == []
    assert not (project.root / "interrupted").exists()


def test_capevolve_is_found_in_a_host_where_it_is_not_installed(project) -> None:
    """As in a source tree: the interpreter of the host knows nothing of capevolve."""
    bare = project.root / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    ref = project.adapter(
        textwrap.dedent(
            """
            class Adapter(Plain):
                def run_target(self, task, ctx, *, seed):
                    from capevolve.model import SPLITS
                    import tasks  # the adapter's own, although the source tree has a folder of that name
                    return Rollout(task.id, [tasks.WHO, os.environ.get("PYTHONPATH")])
            """
        )
    )
    (project.root / "tasks.py").write_text("WHO = 'mine'\n")
    reply = project.run(ref, python=str(bare))[0]
    assert '"output": ["mine", ' in reply.payload


def test_an_interpreter_may_be_a_wrapper_that_stays_in_between(project) -> None:
    wrapper = project.root / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n{sys.executable} "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                time.sleep(600 if task.input == 1 else 0)
                return Rollout(task.id)
        """,
        range(3),
        python=str(wrapper),
        timeout_s=0.3,
        grace_s=0.1,
    )
    assert [reply.outcome == Scored(1.0) for _, reply in sorted(replies.items())] == [True, False, True]


def test_the_project_may_be_named_relative_to_the_working_directory(project, monkeypatch) -> None:
    project.adapter("class Adapter(Plain): pass")
    monkeypatch.chdir(project.root.parent)
    ref = AdapterRef(Path("project"), "adapter.py")
    assert len(asyncio.run(list_tasks(ref, timeout_s=20)).tasks) == 12
    assert project.run(ref)[0].outcome == Scored(1.0)


def test_slots_below_one_are_refused(project) -> None:
    ref = project.adapter("class Adapter(Plain): pass")
    with pytest.raises(ValueError, match="at least 1"):
        HostPool(ref, project.candidate, slots=0, timeout_s=1, grace_s=1)
