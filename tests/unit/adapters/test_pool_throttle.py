"""Hosts that are held back: nothing begins, nothing is lost, and what waits is not with a host."""

from __future__ import annotations

import asyncio
import time

from capevolve.adapters.records import Refusal, TrialRequest
from capevolve.model import Scored

LIMITED = """
    from capevolve import RateLimitedError

    def note(task):
        with open("calls", "a") as file:
            file.write(f"{task.input}\\n")

    class Adapter(Plain):
        def run_target(self, task, ctx, *, seed):
            note(task)
            if task.input == 3:
                raise RateLimitedError("slow down", retry_after_s=0.2)
            return Rollout(task.id)
"""


def read_calls(project):
    path = project.root / "calls"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def read_until(pool, count):
    replies = {}
    async with asyncio.timeout(30):
        while len(replies) < count:
            replies |= {reply.key: reply for reply in await pool.replies()}
    return replies


def check_held(project, source, **options):
    async def go():
        async with project.pool(project.adapter(source), heed=True, **options) as pool:
            pool.submit(project.ask(range(12)))
            first = await read_until(pool, 4)
            assert first[3].refusal == Refusal(True, 0.2)
            await asyncio.sleep(0.4)
            assert read_calls(project) == [0, 1, 2, 3], "a host went on after it was refused"
            assert not pool.busy()
            pool.throttle(None)
            rest = await read_until(pool, 8)
            assert all(reply.outcome == Scored(1.0) for reply in rest.values())
            assert sorted(read_calls(project)) == list(range(12))

    asyncio.run(go())


def test_after_a_rate_limit_answer_nothing_begins_until_it_is_allowed(project):
    check_held(project, LIMITED)


def test_the_same_on_an_event_loop(project):
    check_held(project, LIMITED.replace("def run_target", "async def run_target"))


def test_what_waits_in_the_other_hosts_is_called_back(project):
    source = LIMITED.replace("return Rollout", "time.sleep(0.01); return Rollout")
    head = project.head.replace("range(12)", "range(60)")
    requests = [TrialRequest(n, f"t{n}", project.digest_of(n), 0, n) for n in range(4, 60)]

    async def go():
        async with project.pool(project.adapter(source, head=head), heed=True, slots=2) as pool:
            pool.submit(requests[:16])
            await read_until(pool, 16)  # both hosts run, and are known to be quick
            pool.submit([TrialRequest(3, "t3", project.digest_of(3), 0, 3), *requests[16:]])
            replies = {}
            while 3 not in replies:
                replies |= {reply.key: reply for reply in await pool.replies()}
            calls = len(read_calls(project))
            await asyncio.sleep(0.3)
            assert len(read_calls(project)) <= calls + 3, "one under way, and what began before it heard"
            pool.throttle(None)
            await read_until(pool, 41 - len(replies))

    asyncio.run(go())


def test_a_pool_that_does_not_heed_goes_on_by_itself(project):
    replies = project.run(LIMITED, range(6))
    assert [n for n, reply in replies.items() if reply.rate_limited] == [3]


def test_a_lower_limit_holds_for_what_was_submitted_before(project):
    source = """
        import threading

        class Adapter(Plain):
            now = most = 0
            def run_target(self, task, ctx, *, seed):
                with open("calls", "a") as file:
                    file.write(f"+ {time.time()}\\n")
                time.sleep(0.12)
                with open("calls", "a") as file:
                    file.write(f"- {time.time()}\\n")
                return Rollout(task.id)
    """

    async def go():
        async with project.pool(project.adapter(source), slots=3) as pool:
            pool.throttle(1)
            pool.submit(project.ask(range(3)))
            await read_until(pool, 3)

    asyncio.run(go())
    marks = [line.split()[0] for line in (project.root / "calls").read_text().splitlines()]
    assert marks == ["+", "-"] * 3


def test_hosts_that_still_start_take_nothing_at_once_and_a_dead_one_is_replaced(project):
    source = """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 1:
                    os._exit(3)
                return Rollout(task.id)
    """

    async def go():
        async with project.pool(project.adapter(source)) as pool:
            assert pool.ready(1) == 0

            async def wait_ready():
                begun = time.monotonic()
                while not pool.ready(1):
                    assert time.monotonic() - begun < 20.0
                    await asyncio.sleep(0.02)

            await wait_ready()
            pool.submit(project.ask([1]))
            assert pool.ready(1) == 0
            await read_until(pool, 1)
            await wait_ready()
            pool.submit(project.ask([0]))
            assert (await read_until(pool, 1))[0].outcome == Scored(1.0)

    asyncio.run(go())
