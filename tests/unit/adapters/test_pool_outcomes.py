"""What the pool replies for adapters of every kind, with real hosts."""

from __future__ import annotations

import asyncio
import json
import textwrap

import pytest

from capevolve.adapters.records import TrialRequest
from capevolve.errors import AdapterError
from capevolve.model import Reason, Scored, Unmeasured


def test_each_trial_gets_its_own_reply_with_its_seed_and_the_candidate(project) -> None:
    (project.candidate / "prompt.md").write_text("CANARY")
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                prompt = (ctx / "prompt.md").read_text()
                return Rollout(task.id, [task.input, seed, prompt], tokens=task.input)
            def score(self, task, rollout):
                return Score(task.id, task.input / 10, f"feedback {task.id}")
        """,
        range(10),
        slots=3,
    )
    assert sorted(replies) == list(range(10))
    for number, reply in replies.items():
        assert reply.outcome == Scored(number / 10)
        assert json.loads(reply.payload)["output"] == [number, 7 + number, "CANARY"]
        assert (reply.feedback, reply.tokens, reply.starts) == (f"feedback t{number}", number, 1)


def test_failures_of_one_trial_leave_the_others_alone(project) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 1:
                    raise ValueError("no network")
                if task.input == 2:
                    raise AgentFailure("gave up")
                if task.input == 3:
                    sys.exit(0)
                return Rollout(task.id)
            def score(self, task, rollout):
                if task.input == 4:
                    raise KeyError("gold")
                return Score(task.id, float("nan") if task.input == 5 else 1.0)
        """,
        range(7),
    )
    assert replies[0].outcome == replies[6].outcome == Scored(1.0)
    assert replies[1].outcome == Unmeasured(Reason.INFRA, "ValueError: no network")
    assert (replies[2].outcome, replies[2].feedback) == (Scored(0.0), "gave up")
    assert replies[3].outcome.reason is Reason.INFRA
    assert "SystemExit: 0" in replies[3].outcome.detail
    assert replies[4].outcome == Unmeasured(Reason.SCORER_ERROR, "KeyError: 'gold'")
    assert replies[5].outcome.reason is Reason.INVALID_SCORE


_ASYNC_PARTS = {
    "all async": ("async ", "async ", "async ", "await asyncio.sleep(0.01)"),
    "async target, plain score": ("", "async ", "", "await asyncio.sleep(0.01)"),
    "plain target, async score": ("", "", "async ", "pass"),
    "async tasks only": ("async ", "", "", "pass"),
}


@pytest.mark.parametrize("kind", _ASYNC_PARTS)
def test_async_and_plain_methods_mix(project, kind: str) -> None:
    tasks, target, score, pause = _ASYNC_PARTS[kind]
    replies = project.run(
        f"""
        import asyncio
        class Adapter(Plain):
            {tasks}def tasks(self, split):
                return Plain.tasks(self, split)
            {target}def run_target(self, task, ctx, *, seed):
                {pause}
                return Rollout(task.id, task.input)
            {score}def score(self, task, rollout):
                return Score(task.id, rollout.output / 10)
        """,
        range(6),
        slots=4,
    )
    assert [replies[n].outcome for n in range(6)] == [Scored(n / 10) for n in range(6)]


def test_a_plain_method_may_return_an_awaitable(project) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                async def work():
                    return Rollout(task.id, "awaited")
                return work()
        """
    )
    assert json.loads(replies[0].payload)["output"] == "awaited"


def test_an_async_host_runs_its_trials_at_the_same_time(project) -> None:
    replies = project.run(
        """
        import asyncio
        inside = []
        class Adapter(Plain):
            async def run_target(self, task, ctx, *, seed):
                inside.append(task.id)
                while len(inside) < 6:  # only together do they get on
                    await asyncio.sleep(0.001)
                return Rollout(task.id)
        """,
        range(6),
        slots=6,
        trials_per_host=6,
    )
    assert {reply.outcome for reply in replies.values()} == {Scored(1.0)}


def test_a_threaded_host_runs_its_trials_at_the_same_time(project) -> None:
    replies = project.run(
        """
        import threading
        barrier = threading.Barrier(4, timeout=10)
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                barrier.wait()
                return Rollout(task.id)
        """,
        range(8),
        slots=4,
        trials_per_host=4,
    )
    assert {reply.outcome for reply in replies.values()} == {Scored(1.0)}


def test_a_slow_plain_score_does_not_hold_up_the_event_loop(project) -> None:
    replies = project.run(
        """
        import threading
        barrier = threading.Barrier(4, timeout=10)
        class Adapter(Plain):
            async def run_target(self, task, ctx, *, seed):
                return Rollout(task.id)
            def score(self, task, rollout):
                if task.input == 0:
                    time.sleep(0.1)
                else:
                    barrier.wait()  # passes only if four scores run at once
                return Score(task.id, 1.0)
        """,
        range(5),
        slots=4,
        trials_per_host=4,
        prefetch=False,
    )
    assert {reply.outcome for reply in replies.values()} == {Scored(1.0)}


def test_a_cap_evolve_adapter_that_inherits_nothing_works(project) -> None:
    (project.candidate / "prompt.md").write_text("CANARY")
    replies = project.run(
        project.adapter(
            """
            from dataclasses import dataclass, field
            @dataclass
            class Task:
                id: str
                input: object = None
                target: object = None
                metadata: dict = field(default_factory=dict)
            @dataclass
            class Rollout:
                task_id: str
                output: object = None
            @dataclass
            class Score:
                task_id: str
                reward: float
            class AgentFailure(Exception): pass
            class Adapter:
                applied = None
                def tasks(self, split): return [Task(f"t{i}", i) for i in range(3)]
                def run_target(self, task, ctx, *, seed=0):
                    if task.input == 1: raise AgentFailure("x")
                    return Rollout(task.id, [str(ctx), (self.applied / "prompt.md").read_text()])
                def score(self, task, rollout): return Score(task.id, 0.5)
                def apply(self, candidate_dir, edits=None): self.applied = candidate_dir
            """,
            head="",
        ),
        range(3),
    )
    assert json.loads(replies[0].payload)["output"] == [str(project.candidate), "CANARY"]
    assert [replies[n].outcome for n in range(3)] == [Scored(0.5), Scored(0.0), Scored(0.5)]


_LIVES = {
    "context manager": """
    from contextlib import contextmanager
    class Adapter(Plain):
        @contextmanager
        def live(self, candidate_dir):
            log("enter"); yield "ctx"; log("leave")
    """,
    "generator": """
    class Adapter(Plain):
        def live(self, candidate_dir):
            log("enter"); yield "ctx"; log("leave")
    """,
    "async context manager": """
    from contextlib import asynccontextmanager
    class Adapter(Plain):
        @asynccontextmanager
        async def live(self, candidate_dir):
            log("enter"); yield "ctx"; log("leave")
    """,
    "async generator": """
    class Adapter(Plain):
        async def live(self, candidate_dir):
            log("enter"); yield "ctx"; log("leave")
    """,
    "plain value": """
    class Adapter(Plain):
        def live(self, candidate_dir):
            log("enter"); return "ctx"
    """,
}


@pytest.mark.parametrize(
    ("kind", "target"),
    [*((kind, "def") for kind in _LIVES), ("context manager", "async def"), ("async generator", "async def")],
)
def test_live_is_entered_once_and_left_in_every_form(project, kind: str, target: str) -> None:
    source = f"""
    {target} run_target(self, task, ctx, *, seed):
        log("trial")
        return Rollout(task.id, ctx)
    Plain.run_target = run_target
    def log(word):
        with open("log", "a") as file: print(word, file=file)
    """
    ref = project.adapter(source)
    with (project.root / "adapter.py").open("a") as file:
        file.write(textwrap.dedent(_LIVES[kind]))
    replies = project.run(ref, range(2))
    assert json.loads(replies[0].payload)["output"] == "ctx"
    ends = [] if kind == "plain value" else ["leave"]
    assert (project.root / "log").read_text().split() == ["enter", "trial", "trial", *ends]


def test_a_task_that_changed_or_is_gone_stops_everything_by_name(project) -> None:
    ref = project.adapter("class Adapter(Plain): pass")
    for request, words in [
        (
            TrialRequest(1, "t1", project.digest_of(99), 0, 0),
            "task 't1' changed since the splits were frozen",
        ),
        (TrialRequest(1, "t99", project.digest_of(99), 0, 0), "task 't99' is gone"),
    ]:
        with pytest.raises(AdapterError, match=words):
            asyncio.run(project.collect(ref, [request]))


def test_a_changed_task_does_not_lose_the_trial_that_is_running(project) -> None:
    ref = project.adapter(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open("running", "w").close()
                while not os.path.exists("go"): time.sleep(0.005)
                return Rollout(task.id)
        """
    )

    async def story() -> None:
        async with project.pool(ref, slots=2) as pool:
            pool.submit(project.ask([0]))
            while not (project.root / "running").exists():
                await asyncio.sleep(0.01)
            pool.submit([TrialRequest(5, "t5", "sha256:other", 0, 0)])
            waiting = asyncio.create_task(pool.replies())
            await asyncio.sleep(0.5)  # long enough for the second host to have failed
            (project.root / "go").touch()
            assert [reply.key for reply in await waiting] == [0]
            with pytest.raises(AdapterError, match="changed"):
                await pool.replies()

    asyncio.run(story())


def test_a_key_in_flight_is_not_taken_twice(project) -> None:
    ref = project.adapter("class Adapter(Plain): pass")

    async def story() -> None:
        async with project.pool(ref) as pool:
            assert await pool.replies() == []
            pool.submit(project.ask([0]))
            with pytest.raises(ValueError, match="in flight"):
                pool.submit(project.ask([0]))
            with pytest.raises(ValueError, match="in flight"):
                pool.submit(project.ask([1, 1]))
            assert len(await pool.replies()) == 1
            pool.submit(project.ask([0]))
            assert len(await pool.replies()) == 1

    asyncio.run(story())


def test_with_prefetch_off_exactly_the_slots_are_in_flight_and_with_it_more(project) -> None:
    ref = project.adapter("class Adapter(Plain): pass")

    async def story(prefetch: bool) -> tuple[int, int]:
        async with project.pool(ref, slots=2, prefetch=prefetch) as pool:
            before = pool.free()
            await project.drain(pool, project.ask(range(12)))
            return before, pool.free()

    assert asyncio.run(story(False)) == (2, 2)
    before, after = asyncio.run(story(True))
    assert (before, after > 20) == (2, True)


def test_huge_payloads_pass_and_are_cut(project) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                return Rollout(task.id, "x" * 3_000_000)
        """,
        range(3),
    )
    for reply in replies.values():
        assert reply.outcome == Scored(1.0)
        assert len(reply.payload) <= 1_000_000
        assert json.loads(reply.payload)["output"]["length"] == 3_000_002
