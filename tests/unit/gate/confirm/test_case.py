"""How measurements join, and which tasks a candidate races on."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from capevolve.errors import UserError
from capevolve.gate.confirm.case import join_measurements, plan_stages, split_peek, split_race
from capevolve.gate.confirm.profile import FEWEST_TO_PART, ConfirmProfile
from capevolve.gate.confirm.seeds import AA, stage_seed
from capevolve.model import Reason, Unmeasured

IDS = ("t0", "t1", "t2", "t3")
PROFILE = ConfirmProfile()
LOST = Reason.INFRA


def names(n: int) -> tuple[str, ...]:
    return tuple(f"t{i:03d}" for i in range(n))


# --- joining --------------------------------------------------------------------------------------


def test_trials_of_a_task_are_joined_in_the_order_of_the_measurements(measure):
    first = measure({"t0": [0.1, 0.2], "t1": [0.3]}, num_trials=2)
    second = measure({"t1": [0.5, 0.4], "t0": [0.0]}, num_trials=2)
    joined = join_measurements([first, second], IDS)
    assert [(task.task_id, task.rewards) for task in joined.tasks] == [
        ("t0", (0.1, 0.2, 0.0)),
        ("t1", (0.3, 0.5, 0.4)),
    ]


def test_the_tasks_stand_in_the_order_asked_for_and_one_not_measured_is_left_out(measure):
    raced = measure({"t3": [1.0], "t0": [0.0]}, subset=True)
    screened = measure({"t2": [0.5]}, subset=True)
    joined = join_measurements([raced, screened], IDS)
    assert [task.task_id for task in joined.tasks] == ["t0", "t2", "t3"]
    assert join_measurements([raced], ["t3"]).tasks == raced.tasks[:1]
    assert join_measurements([raced], ["t9"]).tasks == ()


def test_trials_without_a_reward_stay_trials_without_a_reward(measure):
    first = measure({"t0": [LOST, 1.0], "t1": [LOST]})
    second = measure({"t0": [0.0, Reason.TIMEOUT], "t1": [Reason.CRASH]})
    t0, t1 = join_measurements([first, second], IDS).tasks
    assert t0.rewards == (1.0, 0.0)
    assert t0.unmeasured == (Unmeasured(LOST), Unmeasured(Reason.TIMEOUT))
    assert (t1.rewards, t1.unmeasured) == ((), (Unmeasured(LOST), Unmeasured(Reason.CRASH)))


def test_what_is_joined_is_of_the_first_and_no_longer_a_subset(measure):
    first = measure({"t0": [1.0]}, evaluation_id="7", subset=True, base_seed=5)
    joined = join_measurements([first, measure({"t1": [1.0]}, evaluation_id="8", subset=True)], IDS)
    assert (joined.evaluation_id, joined.base_seed, joined.subset) == ("7", 5, False)
    assert (joined.candidate_id, joined.split) == ("c1", "val")


def test_the_cluster_of_a_task_survives(measure):
    rows = {"t0": [1.0], "t1": [0.0]}
    joined = join_measurements([measure(rows, {"t0": "a"}), measure(rows, {"t0": "a"})], IDS)
    assert [task.cluster for task in joined.tasks] == ["a", None]


def test_trials_of_looks_over_the_same_tasks_add_up(measure):
    rows = {i: [1.0] * 3 for i in IDS}
    looks = [measure(rows, num_trials=3), measure(rows, num_trials=3), measure(rows, num_trials=6)]
    assert join_measurements(looks, IDS).num_trials == 12


def test_race_and_screen_on_different_tasks_are_one_trial_per_task(measure):
    raced = measure({"t0": [1.0], "t2": [0.0]}, subset=True)
    screened = measure({"t1": [LOST], "t3": [0.0]}, subset=True)
    assert join_measurements([raced, screened], IDS).num_trials == 1


@pytest.mark.parametrize("change", [{"candidate_id": "c2"}, {"split": "train"}, {"split": "test"}])
def test_different_candidates_or_splits_are_never_joined(measure, change):
    first = measure({"t0": [1.0]})
    for pair in ([first, replace(first, **change)], [replace(first, **change), first]):
        with pytest.raises(UserError, match="one candidate on one split") as caught:
            join_measurements(pair, IDS)
        assert caught.value.where == "gate.confirm"


def test_joining_changes_nothing_of_what_is_joined(measure):
    first = measure({"t0": [1.0]})
    before = first.tasks
    join_measurements([first, measure({"t0": [0.0]})], IDS)
    assert first.tasks is before
    assert first.tasks[0].rewards == (1.0,)


# --- the race -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "size"), [(8, 4), (9, 5), (10, 5), (21, 11), (100, 50)])
def test_the_race_takes_its_share_of_the_tasks_rounded_up_and_the_screen_the_rest(n: int, size: int):
    ids = names(n)
    raced, rest = split_race(ids, PROFILE, 0, "c1")
    assert len(raced) == size == math.ceil(0.5 * n)
    assert sorted((*raced, *rest)) == list(ids)
    assert list(raced) == sorted(raced), "in split order"
    assert list(rest) == sorted(rest)


def test_the_peek_takes_a_part_of_its_own_and_the_first_look_the_rest(make_bench):
    bench = make_bench(n=21, profile=PROFILE)
    peek, first, second = plan_stages(bench.case())[2:5]
    assert [peek.stage, first.stage, second.stage] == ["peek", "look-1", "look-2"]
    assert (peek.task_ids, first.task_ids) == split_peek(bench.ids, PROFILE, 0, "c1")
    assert len(peek.task_ids) == 11
    assert sorted(peek.task_ids + first.task_ids) == list(bench.ids)
    assert set(peek.task_ids) != set(split_race(bench.ids, PROFILE, 0, "c1")[0])
    assert peek.num_trials == first.num_trials == 3
    assert peek.both
    assert second.task_ids is None
    assert len({peek.base_seed, first.base_seed, second.base_seed, 0}) == 4


@pytest.mark.parametrize(("n", "frac"), [(7, 0.5), (20, 1.0), (20, 0.99)])
def test_without_a_part_to_peek_at_the_first_look_takes_every_task(make_bench, n: int, frac: float):
    bench = make_bench(n=n, profile=replace(PROFILE, peek_frac=frac))
    looks = [ask for ask in plan_stages(bench.case()) if ask.both]
    assert [ask.stage for ask in looks] == ["look-1", "look-2", "look-3"]
    assert looks[0].task_ids is None


def test_a_share_that_leaves_the_screen_nothing_makes_no_race():
    for frac, n in ((1.0, 20), (0.99, 20), (0.95, 8)):
        assert split_race(names(n), replace(PROFILE, race_frac=frac), 0, "c1") == ((), None)
    raced, rest = split_race(names(20), replace(PROFILE, race_frac=0.95), 0, "c1")
    assert (len(raced), len(rest)) == (19, 1)


def test_few_tasks_are_not_raced():
    assert split_race(names(FEWEST_TO_PART - 1), PROFILE, 0, "c1") == ((), None)
    assert split_race((), PROFILE, 0, "c1") == ((), None)
    assert len(split_race(names(FEWEST_TO_PART), PROFILE, 0, "c1")[0]) == 4
    assert len(split_race(names(FEWEST_TO_PART), replace(PROFILE, race_frac=0.01), 0, "c1")[0]) == 1


def test_a_candidate_races_on_the_same_tasks_whenever_it_is_asked_and_in_whatever_order_they_stand():
    ids = names(30)
    raced, rest = split_race(ids, PROFILE, 3, "c1")
    assert split_race(ids, PROFILE, 3, "c1") == (raced, rest)
    again, others = split_race(ids[::-1], PROFILE, 3, "c1")
    assert again == raced[::-1]
    assert others == rest[::-1]


def test_another_candidate_and_another_run_race_on_other_tasks():
    ids = names(30)
    parts = {
        frozenset(split_race(ids, PROFILE, run_seed, subject)[0])
        for run_seed in range(10)
        for subject in ("c1", "c2", AA)
    }
    assert len(parts) == 30


def test_every_task_is_raced_as_often_as_another():
    ids = names(20)
    counts = dict.fromkeys(ids, 0)
    for number in range(400):
        for task_id in split_race(ids, PROFILE, 0, f"c{number}")[0]:
            counts[task_id] += 1
    assert min(counts.values()) > 150
    assert max(counts.values()) < 250


# --- the stages -----------------------------------------------------------------------------------


def test_the_plan_is_race_screen_and_looks_with_their_seeds(make_bench):
    bench = make_bench(n=10, k=3)
    case = replace(bench.case(), run_seed=4)
    plan = plan_stages(case)
    assert [(ask.stage, ask.num_trials, ask.both) for ask in plan] == [
        ("race", 1, False),
        ("screen", 1, False),
        ("look-1", 3, True),
        ("look-2", 3, True),
        ("look-3", 6, True),
    ]
    assert [ask.base_seed for ask in plan] == [stage_seed(4, "c1", ask.stage) for ask in plan]
    assert plan[0].base_seed == plan[1].base_seed == 4
    assert (plan[0].task_ids, plan[1].task_ids) == split_race(bench.ids, PROFILE, 4, "c1")
    assert {ask.task_ids for ask in plan[2:]} == {None}


def test_without_a_race_the_screen_takes_all_tasks(make_bench):
    plan = plan_stages(make_bench(n=5).case())
    assert [ask.stage for ask in plan] == ["screen", "look-1", "look-2", "look-3"]
    assert plan[0].task_ids is None


def test_a_plan_has_as_many_looks_as_the_profile(make_bench):
    profile = ConfirmProfile(peek_frac=1.0, looks=(2,), look_split=(1.0,), look_futility=())
    plan = plan_stages(make_bench(profile=profile, k=3).case())
    assert [(ask.stage, ask.num_trials) for ask in plan[2:]] == [("look-1", 6)]


def test_what_was_measured_so_far_does_not_change_the_plan(make_bench):
    bench = make_bench()
    case = bench.case()
    bench.judge({"race": 1.0, "screen": 1.0, "look-1": 1.0})
    assert tuple(bench.asks) == plan_stages(case)[:3]
