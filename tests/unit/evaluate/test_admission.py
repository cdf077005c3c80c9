"""What an executor does while calls are rationed, and what an evaluation inherits from those before it."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from capevolve.adapters.records import Refusal
from capevolve.budget import Allowance, Remaining
from capevolve.errors import OutsideError
from capevolve.evaluate import execute
from capevolve.evaluate.admission import MAX_CHANGES, Admission
from capevolve.evaluate.congestion import Congestion
from capevolve.evaluate.course import EVENT, Start, describe_course, read_course, read_start
from capevolve.evaluate.rates import Rates
from capevolve.ledger.events import read_events
from capevolve.ledger.usage import UNUSED, read_recent_use
from capevolve.model import Reason, Scored, Unmeasured

LIMITED = Refusal(True)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(execute, "_retry_wait", lambda first, attempt: 0.0)


def refuse(answer, request, infra, refusal=LIMITED):
    return answer(request, infra, refusal=refusal)


def read_log(bench):
    with bench.ledger.read() as connection:
        return read_course(connection, "r1"), read_events(connection, "r1", EVENT)


def test_rate_limit_answers_do_not_use_retries_up(bench, answer, infra):
    bench.tasks, bench.retries = ("a",), 1
    arm = bench.arm(
        lambda r, tries: refuse(answer, r, infra) if tries < 6 else answer(r, infra if tries < 7 else None)
    )
    bench.run(arm)
    row = bench.rows(arm)["a", 0]
    assert (row.outcome, row.calls) == (Scored(1.0), 7)


def test_their_own_bound_ends_in_missing_data_with_the_reason_and_every_call_counts(bench, answer, infra):
    bench.tasks, bench.rate_limit_retries = ("a", "b"), 3
    arm = bench.arm(
        lambda r, _: (
            answer(r, infra, refusal=LIMITED, cost_usd=0.5, tokens=2) if r.task_id == "a" else answer(r)
        )
    )
    bench.run(arm)
    row = bench.rows(arm)["a", 0]
    detail = f"{infra.detail} (calls that were rate limited: 4)"
    assert (row.outcome, row.calls) == (Unmeasured(Reason.INFRA, detail), 4)
    assert (row.cost_usd, row.tokens) == (2.0, 8)
    assert bench.rows(arm)["b", 0].outcome == Scored(1.0)


def test_rate_limit_retries_count_against_the_cap_on_calls(bench, answer, infra):
    bench.tasks = ("a",)
    bench.cap(calls=3)
    arm = bench.arm(lambda r, _: refuse(answer, r, infra))
    bench.run(arm)
    assert len(arm.pool.asked) == 3


def test_what_would_be_refused_again_is_not_tried_again(bench, answer, infra):
    bench.retries = 5
    arm = bench.arm(lambda r, _: refuse(answer, r, infra, Refusal(False)))
    bench.run(arm)
    assert len(arm.pool.asked) == 4
    assert {row.outcome for row in bench.rows(arm).values()} == {infra}
    assert read_log(bench) == (None, ())


def test_nothing_begins_and_nothing_is_claimed_before_the_wait_is_over(bench, answer, infra):
    bench.clock, bench.concurrency = time.time, 1
    begun: list[float] = []
    bench.admission = Admission(Congestion(1, lambda n: 0.0))

    def note(requests):
        begun.append(time.time())
        known = bench.rows(arm)
        assert len(known) == len({request.task_id for request in arm.pool.asked + list(requests)})

    arm = bench.arm(
        lambda r, _: refuse(answer, r, infra, Refusal(True, 0.3)) if len(begun) == 2 else answer(r)
    )
    arm.pool.on_submit = note
    bench.run(arm)
    assert len(begun) == 5
    assert begun[2] - begun[1] >= 0.3
    assert all(row.outcome == Scored(1.0) for row in bench.rows(arm).values())
    assert arm.pool.limits == [0, None]


def test_the_hosts_are_told_the_limit_until_it_has_recovered(bench, answer, infra):
    now = [100.0]

    def tick(request, _tries):
        now[0] += 1.0
        return refuse(answer, request, infra) if now[0] == 103.0 else answer(request)

    bench.clock, bench.concurrency, bench.num_trials = (lambda: now[0]), 4, 5
    bench.admission = Admission(Congestion(4, lambda n: 0.5))
    arm = bench.arm(tick)
    bench.run(arm)
    assert arm.pool.limits == [0, 2, 3, None]
    course, events = read_log(bench)
    assert (course.times, course.lowest, course.top) == (1, 2, 4)
    assert [(event.at, event.payload["was"], event.payload["now"]) for event in events] == [
        (103.0, 4, 2), (105.0, 2, 3), (108.0, 3, 4),
    ]  # fmt: skip


def test_a_burst_that_was_refused_comes_back_within_the_lower_limit(bench, answer, infra):
    now = [100.0]
    under_way: list[int] = []

    def tick(request, tries):
        now[0] += 0.25
        return answer(request, infra, refusal=LIMITED, duration_s=9.0) if tries == 1 else answer(request)

    bench.clock, bench.concurrency = (lambda: now[0]), 4
    bench.admission = Admission(Congestion(4, lambda n: 0.5))
    arm = bench.arm(tick)
    arm.pool.on_submit = lambda requests: under_way.append(len(arm.pool.waiting) + len(requests))
    bench.run(arm)
    assert under_way[0] == 4
    assert max(under_way[1:]) == 2
    assert all(row.outcome == Scored(1.0) for row in bench.rows(arm).values())


def test_hosts_that_stopped_by_themselves_are_always_told_to_go_on(bench, answer, infra):
    now = [100.0]

    def tick(request, _tries):
        now[0] += 1.0
        return refuse(answer, request, infra) if now[0] in (101.0, 102.0) else answer(request)

    bench.clock, bench.num_trials = (lambda: now[0]), 2
    arm = bench.arm(tick)
    bench.run(arm)
    assert arm.pool.limits == [1, 1, None], "the second refusal left the limit as it was"


def test_calls_begin_at_the_rate_whatever_the_places(bench, answer):
    now = [0.0]
    begun: list[float] = []

    def tick(request, _tries):
        now[0] += 0.25
        return answer(request)

    bench.clock, bench.concurrency, bench.num_trials = (lambda: now[0]), 8, 3
    bench.admission = Admission(Congestion(8, lambda n: 0.0), rates=Rates(60, None, now=0.0))
    arm = bench.arm(tick)
    arm.pool.on_submit = lambda requests: begun.extend(now[0] for _ in requests)
    monkey = asyncio.sleep

    async def skip(seconds):
        now[0] += seconds
        await monkey(0)

    asyncio.sleep = skip  # time passes at once where nothing is under way
    try:
        bench.run(arm)
    finally:
        asyncio.sleep = monkey
    assert len(begun) == 12
    assert all(b - a >= 1.0 - 1e-6 for a, b in itertools.pairwise(begun))


def test_two_arms_share_the_rate_and_neither_waits_for_hosts_of_the_other(bench, answer, monkeypatch):
    bench.clock, bench.prefetch = time.monotonic, False
    bench.admission = Admission(Congestion(2, lambda n: 0.0), rates=Rates(3_000, None, now=time.monotonic()))
    one, two = bench.arm(lambda r, _: answer(r), "one"), bench.arm(lambda r, _: answer(r), "two")
    one.todo.clear()
    looks: list[int] = []
    starts = time.monotonic() + 0.3
    monkeypatch.setattr(
        two.pool, "ready", lambda wanted: looks.append(1) or (wanted if time.monotonic() > starts else 0)
    )
    bench.run(one, two)
    assert (len(one.pool.asked), len(two.pool.asked)) == (0, 4)
    assert len(looks) < 100, "it looks again now and then, and does not spin"


@pytest.mark.parametrize("fails", [False, True])
def test_every_call_takes_a_slot_of_the_deployments_limit_before_it_begins(bench, answer, infra, fails):
    given: list[int] = []

    async def admit(calls):
        await asyncio.sleep(0.01)
        if fails:
            raise OutsideError("The limit is gone.")
        given.append(calls)

    bench.admission = Admission(Congestion(2, lambda n: 0.0), admit=admit)
    bench.retries = 1
    arm = bench.arm(lambda r, tries: answer(r, infra if r.task_id == "a" and tries == 1 else None))
    arm.pool.on_submit = lambda requests: check(len(arm.pool.asked) + len(requests))

    def check(asked):
        assert asked <= sum(given)

    if fails:
        with pytest.raises(OutsideError):
            bench.run(arm)
        assert (arm.pool.asked, bench.rows(arm)) == ([], {})
    else:
        bench.run(arm)
        assert len(arm.pool.asked) == sum(given) == 5


def test_a_wait_that_outlasts_the_cap_on_time_ends_and_leaves_the_trial_to_the_next_driver(
    bench, answer, infra
):
    bench.clock, bench.concurrency = time.time, 1
    bench.admission = Admission(Congestion(1, lambda n: 0.0))
    bench.allowance = Allowance(Remaining(deadline=time.time() + 0.2), time.time)
    arm = bench.arm(
        lambda r, _: refuse(answer, r, infra, Refusal(True, 3600.0)) if r.task_id == "b" else answer(r)
    )
    begun = time.monotonic()
    bench.run(arm)
    assert time.monotonic() - begun < 5.0
    assert {task: row.outcome for (task, _), row in bench.rows(arm).items()} == {"a": Scored(1.0), "b": None}
    assert bench.allowance.exhausted == "the cap on time is reached"
    with bench.ledger.read() as connection:
        start = read_start(connection, "r1", time.time())
    assert start.limit == 1
    assert start.held_until > time.time() + 3000


def test_changes_beyond_the_recorded_ones_are_one_event(bench, answer):
    admission = Admission(Congestion(4, lambda n: 0.0))
    for second in range(1, MAX_CHANGES + 11):
        admission.refuse(float(second), float(second), 0.5 if second == MAX_CHANGES + 5 else None)
    bench.admission, bench.clock = admission, lambda: 1_000.0
    bench.run(bench.arm(lambda r, _: answer(r)))
    course, events = read_log(bench)
    assert len(events) == MAX_CHANGES + 1
    assert (course.times, course.lowest, course.longest_s) == (MAX_CHANGES + 10, 1, 0.5)


def test_the_course_in_words(bench, answer, infra):
    assert read_log(bench)[0] is None
    refused = []
    bench.tasks = ("a",)
    arm = bench.arm(lambda r, n: refused.append(n) or (refuse(answer, r, infra) if n == 1 else answer(r)))
    bench.run(arm)
    course, _ = read_log(bench)
    assert describe_course(course) == "The target was rate limited once: concurrency fell to 1 of 2."


def test_what_was_learnt_lately_is_where_the_next_evaluation_starts(bench, answer, infra):
    bench.clock = lambda: 1_000.0
    bench.admission = Admission(Congestion(8, lambda n: 0.0))
    bench.concurrency, bench.tasks, bench.rate_limit_retries = 8, ("a",), 0
    bench.run(bench.arm(lambda r, _: refuse(answer, r, infra, Refusal(True, 0.0))))
    with bench.ledger.read() as connection:
        assert read_start(connection, "r1", 1_100.0) == Start(4, 1_000.0)
        assert read_start(connection, "r1", 2_000.0).limit is None
        assert read_start(connection, "r2", 1_100.0) == Start()


def test_what_the_run_used_is_read_from_its_trials(bench, answer):
    with bench.ledger.read() as connection:
        assert read_recent_use(connection, "r1", 0.0) == UNUSED
    bench.clock, bench.tasks = (lambda: 50.0), ("a", "b", "c")
    bench.run(bench.arm(lambda r, _: answer(r, tokens={"a": 10, "b": 30, "c": None}[r.task_id])))
    with bench.ledger.read() as connection:
        use = read_recent_use(connection, "r1", 0.0)
        assert (use.last_at, sorted(use.tokens), use.mean_tokens) == (50.0, [(50.0, 10), (50.0, 30)], 20.0)
        assert read_recent_use(connection, "r1", 51.0).tokens == ()
        assert read_recent_use(connection, "r2", 0.0) == UNUSED
