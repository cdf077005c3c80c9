"""What user code does to its process stays there: prints, descriptors, cwd, generators, names of modules."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from capevolve.adapters.hostprocess import TAIL_BYTES
from capevolve.model import Reason, Scored


def _outputs(replies):
    return [json.loads(replies[n].payload)["output"] for n in sorted(replies)]


def test_garbage_on_stdout_is_never_taken_for_a_result(project) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                print('{"reward": 1}', flush=True)
                os.write(1, b'\\x00\\x00\\x00\\x02[]["progress",[],[]]\\n')
                os.write(2, b"\\xff\\xfe")
                return Rollout(task.id)
            def score(self, task, rollout):
                print('{"reward": 1, "task_id": "t0"}')
                return Score(task.id, 0.25)
        """,
        range(6),
        slots=2,
    )
    assert {reply.outcome for reply in replies.values()} == {Scored(0.25)}


def test_closing_the_standard_streams_costs_the_next_trial_nothing(project) -> None:
    replies = project.run(
        """
        ACTS = [
            lambda: os.close(1),
            lambda: os.close(2),
            lambda: sys.stdout.close(),
            lambda: os.closerange(0, 256),
            lambda: setattr(sys, "stdout", None),
            lambda: os.dup2(os.open(os.devnull, os.O_RDONLY), 1),
            lambda: os._exit(1),
        ]
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                print("hello from", task.id, flush=True)
                sys.stderr.write("hello\\n")
                ACTS[task.input]()
                return Rollout(task.id)
        """,
        range(7),
        prefetch=False,
    )
    assert {replies[n].outcome for n in range(6)} == {Scored(1.0)}
    assert "hello from t6" in replies[6].outcome.detail  # what is printed still arrives


def test_five_megabytes_of_noise_keep_memory_flat_and_the_tail_is_kept(project) -> None:
    ref = project.adapter(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                for _ in range(80):
                    os.write(2, b"noise\\n" * 11_000)
                os.write(2, b"the last words\\n")
                os._exit(1)
        """
    )
    reply = project.run(ref)[0]
    tail = json.loads(reply.payload)["host_output"]
    assert tail.endswith("the last words\n")
    mark, _, kept = tail.partition("\n")
    assert mark == f"[truncated: {80 * 66_000 + 15 - TAIL_BYTES} bytes before this]"
    assert len(kept) <= TAIL_BYTES


@pytest.mark.parametrize("options", [{"slots": 1}, {"slots": 4, "trials_per_host": 4}])
def test_a_changed_working_directory_stays_in_its_trial(project, options) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                before = os.getcwd()
                os.chdir("/")
                time.sleep(0.05)  # the others start meanwhile
                return Rollout(task.id, [before, os.getcwd()])
        """,
        range(8),
        **options,
    )
    assert _outputs(replies) == [[str(project.root), "/"]] * 8


def test_a_working_directory_that_was_deleted_costs_only_its_own_trial(project) -> None:
    replies = project.run(
        """
        import tempfile
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                place = tempfile.mkdtemp()
                os.chdir(place)
                os.rmdir(place)
                return Rollout(task.id)
        """,
        range(3),
    )
    assert {reply.outcome for reply in replies.values()} == {Scored(1.0)}


def test_reseeding_the_global_generators_decides_nothing_about_the_next_trial(project) -> None:
    replies = project.run(
        """
        import random
        import numpy
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                drawn = [random.random(), float(numpy.random.random())]
                random.seed(0)
                numpy.random.seed(0)
                return Rollout(task.id, drawn)
        """,
        range(6),
    )
    draws = _outputs(replies)
    assert len({first for first, _ in draws}) == 6
    assert len({second for _, second in draws}) == 6


def test_an_adapter_beside_modules_of_the_same_names_as_ours_and_the_librarys_works(project) -> None:
    for name in ("tasks", "utils", "queue", "model", "host", "wire", "types", "traceback"):
        (project.root / f"{name}.py").write_text(f"WHO = 'my {name}'\n")
    replies = project.run(
        """
        import tasks, utils, queue, model, host, wire, types, traceback
        import threading, concurrent.futures
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 1:
                    raise ValueError("shown with the real traceback module")
                with concurrent.futures.ThreadPoolExecutor(1) as pool:  # needs the real queue
                    pool.submit(int).result()
                names = [tasks.WHO, utils.WHO, queue.WHO, model.WHO, host.WHO, wire.WHO, types.WHO]
                return Rollout(task.id, names)
            async def score(self, task, rollout):  # needs the real asyncio
                return Score(task.id, 1.0)
        """,
        range(2),
    )
    assert replies[0].outcome == Scored(1.0)
    assert _outputs({0: replies[0]})[0] == [
        f"my {name}" for name in ("tasks", "utils", "queue", "model", "host", "wire", "types")
    ]
    assert "in run_target" in json.loads(replies[1].payload)["traceback"]


def test_an_adapter_in_a_subdirectory_finds_its_neighbours_and_the_root(project) -> None:
    (project.root / "agent.py").write_text("NAME = 'agent at the root'\n")
    (project.root / "adapters").mkdir()
    (project.root / "adapters" / "near.py").write_text("NAME = 'neighbour'\n")
    ref = project.adapter(
        """
        import agent, near
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                return Rollout(task.id, [agent.NAME, near.NAME, os.getcwd()])
        """,
        "adapters/adapter.py",
    )
    assert _outputs(project.run(ref)) == [["agent at the root", "neighbour", str(project.root)]]


def test_a_planted_pyc_is_never_run_instead_of_the_source(project) -> None:
    import importlib.util
    import marshal

    scorer = project.root / "scorer.py"
    scorer.write_text("REWARD = 0.25\n")
    code = compile("REWARD = 1.0\n", str(scorer), "exec")
    unchecked = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"\0" * 8 + marshal.dumps(code)
    cached = importlib.util.cache_from_source(str(scorer))
    os.makedirs(os.path.dirname(cached))
    with open(cached, "wb") as file:
        file.write(unchecked)
    replies = project.run(
        """
        import scorer
        class Adapter(Plain):
            def score(self, task, rollout):
                return Score(task.id, scorer.REWARD)
        """
    )
    assert replies[0].outcome == Scored(0.25)
    assert os.listdir(os.path.dirname(cached)) == [os.path.basename(cached)]  # and none is written


def test_hosts_are_not_shared_between_candidates(project) -> None:
    ref = project.adapter(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                sys.path.insert(0, str(ctx))
                import tool
                return Rollout(task.id, tool.NAME)
        """
    )
    for name in ("one", "two"):
        (project.candidate / "tool.py").write_text(f"NAME = '{name}'\n")
        assert _outputs(project.run(ref)) == [name]


def test_a_fork_that_runs_on_into_the_host_cannot_answer(project) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                pid = os.fork()
                if pid == 0:
                    return Rollout(task.id, "the fork")
                os.waitpid(pid, 0)
                return Rollout(task.id, "the host")
        """,
        range(3),
    )
    assert _outputs(replies) == ["the host"] * 3
    assert {reply.outcome for reply in replies.values()} == {Scored(1.0)}


def test_a_task_of_the_users_own_that_exits_does_not_end_an_async_host(project) -> None:
    replies = project.run(
        """
        import asyncio
        class Adapter(Plain):
            async def run_target(self, task, ctx, *, seed):
                async def inner():
                    sys.exit(3)
                if task.input == 1:
                    await asyncio.create_task(inner())
                await asyncio.sleep(0.05)
                return Rollout(task.id)
        """,
        range(4),
        slots=4,
        trials_per_host=4,
    )
    assert replies[1].outcome.reason is Reason.INFRA
    assert "SystemExit: 3" in replies[1].outcome.detail
    assert [replies[n].outcome for n in (0, 2, 3)] == [Scored(1.0)] * 3
    assert [replies[n].starts for n in (0, 2, 3)] == [1, 1, 1]


def test_the_environment_reaches_the_host_and_user_code_does_not_reach_the_driver(project) -> None:
    before = dict(os.environ)
    ref = project.adapter(
        """
        os.environ["LEAK"] = "x"
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                return Rollout(task.id, [os.environ["GIVEN"], sys.stdin.read()])
        """
    )
    assert _outputs(asyncio.run(project.collect(ref, project.ask([0]), env={"GIVEN": "yes"}))) == [
        ["yes", ""]
    ]
    assert dict(os.environ) == before
