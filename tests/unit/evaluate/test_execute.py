"""One queue, claims before calls, results before anything builds on them; with a pool that obeys the test."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import event

from capevolve.adapters.records import Metric
from capevolve.budget import Allowance, Remaining
from capevolve.errors import AdapterError, FencedError, LedgerError, TamperError
from capevolve.evaluate import execute
from capevolve.ledger.rollouts import read_rollouts
from capevolve.ledger.trials import read_target_spend
from capevolve.model import Reason, Scored, Unmeasured

REAL_WAIT = execute._retry_wait


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    waits: list[tuple[float, int]] = []
    monkeypatch.setattr(execute, "_retry_wait", lambda first, attempt: waits.append((first, attempt)) or 0.0)
    return waits


def test_every_trial_is_asked_once_and_recorded_with_what_came_back(bench, answer):
    bench.num_trials = 2
    arm = bench.arm(
        lambda r, _: answer(
            r, Scored(r.seed / 2), feedback=r.task_id, cost_usd=0.25, tokens=3, duration_s=1.5
        )
    )
    bench.run(arm)
    assert sorted((r.task_id, r.trial, r.seed, r.task_digest) for r in arm.pool.asked) == [
        (task, k, k, f"sha256:{task}") for task in "abcd" for k in (0, 1)
    ]
    rows = bench.rows(arm)
    assert rows["b", 1].outcome == Scored(0.5)
    assert (rows["b", 1].cost_usd, rows["b", 1].tokens, rows["b", 1].duration_s) == (0.25, 3, 1.5)
    assert {row.calls for row in rows.values()} == {1}
    with bench.ledger.read() as connection:
        assert [r.feedback for r in read_rollouts(connection, arm.fence.evaluation_id)] == list("aabbccdd")


def test_a_claim_is_in_the_ledger_before_the_target_is_called(bench, answer):
    arm = bench.arm(lambda r, _: answer(r))

    def look(requests):
        rows = bench.rows(arm)
        for request in requests:
            assert rows[request.task_id, request.trial].outcome is None

    arm.pool.on_submit = look
    bench.run(arm)
    assert len(arm.pool.asked) == 4


@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_trials_are_in_flight_than_there_are_places(bench, answer, concurrency, prefetch):
    bench.concurrency, bench.prefetch, bench.num_trials = concurrency, prefetch, 3
    arm = bench.arm(lambda r, _: answer(r))
    bench.run(arm)
    assert arm.pool.most == concurrency


def test_two_arms_share_the_places_and_take_turns(bench, answer):
    bench.concurrency, bench.prefetch = 2, False
    order: list[str] = []
    one = bench.arm(lambda r, _: answer(r), "one")
    two = bench.arm(lambda r, _: answer(r), "two")
    for arm, name in ((one, "1"), (two, "2")):
        arm.pool.on_submit = lambda requests, name=name: order.extend(name for _ in requests)
    bench.run(one, two)
    assert len(order) == 8
    assert all(abs(order[:n].count("1") - order[:n].count("2")) <= 2 for n in range(9))
    assert one.pool.most + two.pool.most <= 4
    for arm in (one, two):
        assert all(row.outcome == Scored(1.0) for row in bench.rows(arm).values())


def test_an_infrastructure_failure_is_tried_again_and_every_call_is_counted(bench, answer, infra, no_waits):
    bench.retries, bench.tasks = 2, ("a", "b")
    arm = bench.arm(lambda r, tries: answer(r, infra if r.task_id == "a" and tries < 3 else None))
    bench.run(arm)
    rows = bench.rows(arm)
    assert (rows["a", 0].outcome, rows["a", 0].calls) == (Scored(1.0), 3)
    assert (rows["b", 0].outcome, rows["b", 0].calls) == (Scored(1.0), 1)
    assert [attempt for _, attempt in no_waits] == [1, 2]


def test_an_infrastructure_failure_that_stays_is_missing_data_not_zero(bench, answer, infra):
    bench.retries = 2
    arm = bench.arm(lambda r, _: answer(r, infra if r.task_id == "a" else Scored(0.0)))
    bench.run(arm)
    rows = bench.rows(arm)
    assert (rows["a", 0].outcome, rows["a", 0].calls) == (infra, 3)
    assert rows["b", 0].outcome == Scored(0.0)
    assert len(arm.pool.asked) == 6


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.SCORER_ERROR, Reason.INVALID_SCORE])
def test_what_a_second_call_would_not_mend_is_not_tried_again(bench, answer, reason):
    bench.retries = 2
    arm = bench.arm(lambda r, _: answer(r, Unmeasured(reason, "x")))
    bench.run(arm)
    assert len(arm.pool.asked) == 4
    assert {row.outcome for row in bench.rows(arm).values()} == {Unmeasured(reason, "x")}


def test_a_crash_is_tried_again_and_the_pools_own_second_start_counts_as_a_try(bench, answer):
    bench.retries, bench.tasks = 2, ("a",)
    arm = bench.arm(lambda r, _: answer(r, Unmeasured(Reason.CRASH, "SIGABRT"), starts=2))
    bench.run(arm)
    assert len(arm.pool.asked) == 2  # two starts, then two more, which makes more than 1 + 2 calls
    assert bench.rows(arm)["a", 0].calls == 4


def test_the_cost_of_every_try_is_in_the_ledger(bench, answer, infra):
    bench.retries, bench.tasks = 2, ("a", "b", "c")
    costs = {"a": [0.5, 0.25, 0.125], "b": [None, 0.25, None], "c": [None, None, None]}

    def charge(request, tries):
        cost = costs[request.task_id][tries - 1]
        tokens = None if cost is None else 10
        return answer(request, infra if tries < 3 else None, cost_usd=cost, tokens=tokens)

    arm = bench.arm(charge)
    bench.run(arm)
    rows = bench.rows(arm)
    assert [rows[task, 0].cost_usd for task in "abc"] == [0.875, 0.25, None]
    assert [rows[task, 0].tokens for task in "abc"] == [30, 10, None]
    with bench.ledger.read() as connection:
        assert read_target_spend(connection, "r1").cost_usd == 1.125
    assert bench.progress[-1].cost_usd == 1.125


def test_a_free_trial_costs_0_and_is_not_unknown(bench, answer):
    arm = bench.arm(lambda r, _: answer(r, cost_usd=0.0, tokens=0))
    bench.run(arm)
    assert {(row.cost_usd, row.tokens) for row in bench.rows(arm).values()} == {(0.0, 0)}


def test_a_count_of_tokens_that_no_database_holds_is_not_reported_and_loses_nothing(bench, answer):
    arm = bench.arm(lambda r, _: answer(r, tokens=10**30))
    bench.run(arm)
    assert {(row.outcome, row.tokens) for row in bench.rows(arm).values()} == {(Scored(1.0), None)}


def test_metrics_are_stored_beside_the_reward(bench, answer):
    arm = bench.arm(lambda r, _: answer(r, metrics=(Metric("f1", 0.5, primary=True, direction="higher"),)))
    bench.run(arm)
    with bench.ledger.read() as connection:
        found = next(iter(read_rollouts(connection, arm.fence.evaluation_id))).metrics
    assert found == '[{"direction":"higher","name":"f1","primary":true,"value":0.5}]'


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_a_cap_on_calls_is_never_passed_and_the_finished_work_is_kept(bench, answer, calls):
    bench.cap(calls=calls)
    arm = bench.arm(lambda r, _: answer(r))
    bench.run(arm)
    assert len(arm.pool.asked) == calls
    assert sum(row.outcome is not None for row in bench.rows(arm).values()) == calls
    assert len(bench.rows(arm)) == calls
    assert "cap on calls" in (bench.allowance.exhausted or "")


def test_a_cap_that_is_just_enough_is_not_reached(bench, answer):
    bench.cap(calls=4)
    arm = bench.arm(lambda r, _: answer(r))
    bench.run(arm)
    assert bench.allowance.exhausted is None


def test_retries_count_against_the_cap_on_calls(bench, answer, infra):
    bench.retries, bench.concurrency = 5, 1
    bench.cap(calls=4)
    arm = bench.arm(lambda r, tries: answer(r, infra if tries < 3 else None))
    bench.run(arm)
    assert [row.calls for row in bench.rows(arm).values()] == [3, 1]


def test_the_pools_own_second_starts_count_against_the_cap_on_calls(bench, answer):
    bench.concurrency = 1
    bench.cap(calls=4)
    arm = bench.arm(lambda r, _: answer(r, starts=2))
    bench.run(arm)
    assert [row.calls for row in bench.rows(arm).values()] == [2, 2]


def test_a_cap_on_money_stops_within_what_is_in_flight(bench, answer):
    bench.num_trials, bench.concurrency = 4, 2
    bench.cap(usd=1.0)
    arm = bench.arm(lambda r, _: answer(r, cost_usd=0.4))
    bench.run(arm)
    with bench.ledger.read() as connection:
        assert read_target_spend(connection, "r1").cost_usd <= 1.0 + 0.4


def test_a_cap_on_money_with_a_price_known_from_before_is_not_passed_at_all(bench, answer):
    bench.num_trials, bench.concurrency = 4, 8
    bench.cap(usd=1.0, dearest=0.4)
    arm = bench.arm(lambda r, _: answer(r, cost_usd=0.4))
    bench.run(arm)
    assert len(arm.pool.asked) == 2


def test_a_retry_that_no_cap_admits_leaves_the_trial_as_missing_data(bench, answer, infra):
    bench.retries, bench.tasks = 2, ("a",)
    bench.cap(calls=1)
    arm = bench.arm(lambda r, _: answer(r, infra))
    bench.run(arm)
    assert bench.rows(arm)["a", 0].outcome == infra


def test_many_quick_trials_share_commits(bench, answer, hook):
    bench.tasks, bench.concurrency = tuple(f"t{i}" for i in range(60)), 20
    commits = []
    hook(lambda name: commits.append(name) if name == "evaluate.before_commit" else None)

    def answer_all(pool):
        async def replies():
            taken, pool.waiting = pool.waiting, []
            return [answer(request) for request in taken]

        return replies

    arm = bench.arm(lambda r, _: answer(r))
    arm.pool.replies = answer_all(arm.pool)
    bench.run(arm)
    assert len(arm.pool.asked) == 60
    assert len(commits) == 4  # claims, twice results with claims, results


def test_progress_is_told_after_each_commit_and_counts_to_the_end(bench, answer, infra):
    arm = bench.arm(lambda r, _: answer(r, infra if r.task_id == "a" else Scored(0.5)))
    bench.run(arm)
    last = bench.progress[-1]
    assert (last.done, last.total, last.scored, last.missing, last.mean) == (4, 4, 3, 1, 0.5)
    assert [p.done for p in bench.progress] == sorted(p.done for p in bench.progress)


def test_results_that_came_before_the_adapter_failed_are_kept(bench, answer):
    def fail(request, _tries):
        if request.task_id == "c":
            raise AdapterError("task 'c' is not what the splits froze")
        return answer(request)

    bench.concurrency, bench.prefetch = 2, False
    one = bench.arm(lambda r, _: answer(r), "one")
    two = bench.arm(fail, "two")
    with pytest.raises(AdapterError):
        bench.run(one, two)
    answered = len(one.pool.asked) + len(two.pool.asked) - len(one.pool.waiting) - len(two.pool.waiting)
    rows = [*bench.rows(one).values(), *bench.rows(two).values()]
    assert sum(row.outcome is not None for row in rows) == answered - 1


def test_a_takeover_between_two_commits_stops_the_calls_and_refuses_the_results(bench, answer, hook):
    seen = []

    def cut(name):
        seen.append(name)
        if name == "evaluate.before_commit" and seen.count(name) == 2:
            bench.take_over()

    hook(cut)
    bench.concurrency = 1
    arm = bench.arm(lambda r, _: answer(r))
    with pytest.raises(FencedError):
        bench.run(arm)
    assert len(arm.pool.asked) == 1
    assert [row.outcome for row in bench.rows(arm).values()] == [None]


def test_a_later_session_of_the_same_driver_refuses_the_results_of_the_first(bench, answer, hook):
    seen = []

    def cut(name):
        seen.append(name)
        if name == "evaluate.before_commit" and seen.count(name) == 2:
            bench.open_again(arm)

    hook(cut)
    bench.concurrency = 1
    arm = bench.arm(lambda r, _: answer(r))
    with pytest.raises(FencedError, match="later pass"):
        bench.run(arm)
    assert [row.outcome for row in bench.rows(arm).values()] == [None]


def test_nothing_measured_with_an_edited_candidate_is_recorded(bench, answer):
    state = {"edited": False}

    def check():
        if state["edited"]:
            raise TamperError("The target changed the candidate.")

    def edit(request, _tries):
        state["edited"] = request.task_id == "b"
        return answer(request)

    bench.check_copy, bench.concurrency = check, 1
    arm = bench.arm(edit)
    with pytest.raises(TamperError):
        bench.run(arm)
    assert {task: row.outcome for (task, _), row in bench.rows(arm).items()} == {"a": Scored(1.0), "b": None}


def test_time_that_is_up_lets_what_is_in_flight_finish_and_begins_nothing_more(bench, answer):
    clock = {"now": 0.0}
    bench.concurrency, bench.num_trials = 2, 4
    bench.allowance = Allowance(Remaining(deadline=3.0), lambda: clock["now"])

    def tick(request, _tries):
        clock["now"] += 1.0
        return answer(request)

    arm = bench.arm(tick)
    bench.run(arm)
    assert len(arm.pool.asked) == 2 + 2  # two at the start, one more after each second before the third
    assert all(row.outcome == Scored(1.0) for row in bench.rows(arm).values())
    assert bench.allowance.exhausted == "the cap on time is reached"


def test_a_disk_that_fills_up_ends_the_evaluation_by_name_and_keeps_what_was_recorded(bench, answer):
    event.listen(bench.ledger._engine, "connect", lambda c, _: c.execute("PRAGMA max_page_count = 1"))
    bench.ledger.close()  # connections opened from here on cannot grow the file
    bench.concurrency = 1
    noise = random.Random(1).randbytes(400_000).hex()  # nothing that compresses well
    arm = bench.arm(lambda r, _: answer(r, payload=f'"{noise if r.task_id == "c" else "x"}"'))
    with pytest.raises(LedgerError, match="disk is full"):
        bench.run(arm)
    assert {task: row.outcome for (task, _), row in bench.rows(arm).items()} == {
        "a": Scored(1.0),
        "b": Scored(1.0),
        "c": None,
    }
    assert [request.task_id for request in arm.pool.asked] == ["a", "b", "c"]


@pytest.mark.parametrize(("attempt", "least"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (20, 60.0)])
def test_the_wait_before_a_retry_doubles_with_some_jitter_up_to_a_minute(attempt, least):
    waits = [REAL_WAIT(0.5, attempt) for _ in range(50)]
    assert all(least <= wait <= least + 0.5 for wait in waits)
    assert len(set(waits)) > 1
