"""Stratified splits: every stratum spread alike, totals exact, groups whole."""

import dataclasses
from collections import Counter
from typing import Any

import pytest

from capevolve.errors import SplitError
from capevolve.model import SPLITS
from capevolve.splits import PerSplit, SplitPlan, SplitSettings, TaskRow, make_splits
from capevolve.splits.partition import fill
from capevolve.splits.strata import fill_evenly, share_out


def rows(*sizes: int) -> list[TaskRow]:
    """Tasks in as many strata, s0 the first."""
    strata = [f"s{stratum}" for stratum, size in enumerate(sizes) for _ in range(size)]
    return [TaskRow(f"t{i:03}", f"c{i}", stratum=stratum) for i, stratum in enumerate(strata)]


def table(plan: SplitPlan, tasks: list[TaskRow]) -> dict[str, dict[str | None, int]]:
    """How many tasks of each stratum each split has."""
    stratum = {task.id: task.stratum for task in tasks}
    return {split: Counter(stratum[ref.id] for ref in getattr(plan, split)) for split in SPLITS}


def split(tasks: list[TaskRow], **settings: Any) -> SplitPlan:
    return make_splits(tasks, SplitSettings(stratify_key="level", **settings))


def sizes(plan: SplitPlan) -> tuple[int, int, int]:
    return len(plan.train), len(plan.val), len(plan.test)


class TestShares:
    @pytest.mark.parametrize(
        ("strata", "targets", "shares"),
        [
            ([8, 4], [6, 3, 3], [[4, 2, 2], [2, 1, 1]]),
            ([2, 2, 2, 2], [2, 2, 4], [[0, 1, 1], [0, 1, 1], [1, 0, 1], [1, 0, 1]]),
            ([1, 1, 1], [1, 1, 1], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]),
            # The first stratum's share of the last column is a whole 1, and stays so.
            ([2, 5, 5], [2, 2, 2, 6], [[1, 0, 0, 1], [0, 1, 1, 3], [1, 1, 1, 2]]),
            ([7, 1], [0, 0, 8], [[0, 0, 7], [0, 0, 1]]),
            ([], [0, 0], []),
        ],
    )
    def test_they_are_the_largest_remainders_made_to_add_up(
        self, strata: list[int], targets: list[int], shares: list[list[int]]
    ):
        assert share_out(strata, targets) == shares

    def test_a_table_whose_rows_all_want_the_same_column_is_settled(self):
        shares = share_out([1] * 3000, [750, 750, 1500])
        assert [sum(column) for column in zip(*shares, strict=True)] == [750, 750, 1500]
        assert {sum(row) for row in shares} == {1}


class TestStrata:
    @pytest.mark.parametrize("seed", range(10))
    def test_a_rare_stratum_is_in_every_split(self, seed: int):
        tasks = rows(92, 8)
        found = table(split(tasks, seed=seed), tasks)
        assert [found[name]["s1"] for name in SPLITS] == [4, 2, 2]

    def test_without_strata_a_rare_one_is_missed_by_some_seed(self):
        tasks = rows(92, 8)
        found = [table(make_splits(tasks, SplitSettings(seed=seed)), tasks) for seed in range(10)]
        assert any(part["test"]["s1"] != 2 for part in found)

    @pytest.mark.parametrize("counts", [None, PerSplit(20, 11, 7)])
    def test_the_totals_are_those_without_strata(self, counts: PerSplit[int] | None):
        tasks = rows(13, 9, 7, 5, 3, 2, 1, 1)
        plain = make_splits(tasks, SplitSettings(counts=counts))
        assert sizes(split(tasks, counts=counts)) == sizes(plain)

    def test_counts_below_the_tasks_leave_each_stratum_its_share_unused(self):
        tasks = rows(40, 20)
        plan = split(tasks, counts=PerSplit(15, 9, 6))
        assert table(plan, tasks) == {
            "train": {"s0": 10, "s1": 5},
            "val": {"s0": 6, "s1": 3},
            "test": {"s0": 4, "s1": 2},
        }
        assert len(plan.unused) == 30

    def test_the_seed_decides_who_of_a_stratum_goes_where(self):
        tests = {tuple(ref.id for ref in split(rows(30, 30), seed=seed).test) for seed in range(5)}
        assert len(tests) == 5

    def test_the_assignment_is_pinned_for_ever(self):
        # A ledger of today is verified by a capevolve of tomorrow: these ids must never change.
        plan = split(rows(6, 4, 3), seed=7)
        assert [[ref.id for ref in getattr(plan, name)] for name in SPLITS] == PINNED
        grouped = [
            TaskRow(f"t{i:03}", f"c{i}", stratum=f"s{i % 3}", group=f"g{i // 2}" if i < 16 else None)
            for i in range(30)
        ]
        plan = split(grouped, seed=7, group_key="family")
        assert [[ref.id for ref in getattr(plan, name)] for name in SPLITS] == PINNED_WITH_GROUPS

    def test_tasks_without_the_key_are_one_more_stratum(self):
        tasks = [dataclasses.replace(task, stratum=None) for task in rows(8)] + rows(20)[8:]
        plan = split(tasks)
        assert [table(plan, tasks)[name][None] for name in SPLITS] == [4, 2, 2]
        assert any(w.startswith("8 tasks without 'level'") for w in plan.warnings)

    def test_a_key_that_no_task_has_is_refused_with_the_keys_that_there_are(self):
        how = SplitSettings(stratify_key="levle")
        with pytest.raises(SplitError) as caught:
            make_splits([TaskRow(f"t{i}", f"c{i}") for i in range(9)], how, {"family", "level"})
        assert (
            "No task has 'levle' in its metadata; the keys there are 'level', 'family'" in caught.value.what
        )
        assert caught.value.where == "splits.stratify_key"

    def test_beside_pinned_ids_it_is_refused(self):
        with pytest.raises(SplitError, match="nothing to spread"):
            split(rows(8), ids=PerSplit(("t000",), ("t001", "t002"), ("t003",)))

    def test_the_strata_are_marked_by_position(self):
        tasks = rows(5, 4)
        plan = split(tasks)
        assert plan.marks is not None
        stratum = {task.id: task.stratum for task in tasks}
        told = [plan.marks.stratum_names[place] for place in plan.marks.strata if place is not None]
        assert told == [stratum[ref.id] for _, ref in plan.places()]
        assert make_splits(tasks, SplitSettings()).marks is None


class TestAbsence:
    def test_strata_that_val_or_test_lack_are_named(self):
        tasks = rows(30, 1, 1)
        plan = split(tasks)
        said = [w for w in plan.warnings if "has no task of" in w]
        where = {
            name: {split for split in SPLITS if table(plan, tasks)[split][name]} for name in ("s1", "s2")
        }
        for part in ("val", "test"):
            absent = [name for name in ("s1", "s2") if part not in where[name]]
            hidden = [name for name in absent if where[name] == {"test"}]
            [warning] = [
                w for w in said if w.startswith(f"{part} has no task of {len(absent)} of the 3 strata")
            ]
            assert {name for name in absent if repr(name) in warning} == set(absent) - set(hidden)

    def test_a_stratum_of_test_tasks_alone_is_not_named(self):
        tasks = [TaskRow(f"t{i:03}", f"c{i}", stratum=f"t{i:03}") for i in range(12)]
        plan = split(tasks)
        said = " ".join(w for w in plan.warnings if "has no task" in w)
        assert "val has no task of 9 of the 12 strata" in said
        assert not any(ref.id in said for ref in plan.test)

    def test_strata_that_are_everywhere_are_no_warning(self):
        assert split(rows(40, 40)).warnings == ()


class TestGroups:
    @pytest.mark.parametrize("seed", range(10))
    def test_groups_stay_whole_and_strata_even(self, seed: int):
        tasks = [dataclasses.replace(task, group=f"g{int(task.id[1:]) // 5}") for task in rows(*[100] * 4)]
        plan = split(tasks, seed=seed, group_key="family")
        assert sizes(plan) == (200, 100, 100)
        assert all(set(found.values()) == {found["s0"]} for found in table(plan, tasks).values())
        homes = [{int(ref.id[1:]) // 5 for ref in getattr(plan, name)} for name in SPLITS]
        assert sum(map(len, homes)) == len(set().union(*homes)) == 80

    def test_strata_of_one_group_each_are_spread_over_the_splits(self):
        tasks = [dataclasses.replace(task, group=task.stratum) for task in rows(*[10] * 12)]
        assert sizes(split(tasks, group_key="family")) == (60, 30, 30)

    @pytest.mark.parametrize("seed", range(5))
    def test_a_mixed_group_counts_as_its_majority_and_a_tie_as_the_first_by_name(self, seed: int):
        units = [[f"{unit}{i}" for i in range(3 if unit < "g" else 1)] for unit in "abcdefghijklmnopqrst"]
        levels = ["easy", "hard"]
        pure: dict[str, str | None] = {
            name: levels[place % 2] for place, unit in enumerate(units) for name in unit
        }
        mixed = {**pure, "a2": "hard", "b0": "easy", "c1": None, "d1": "medium"}
        targets = {"train": 16, "val": 8, "test": 8}
        assert fill_evenly(units, mixed, targets, seed) == fill_evenly(units, pure, targets, seed)
        tied = {**pure, "d0": "easy", "d1": "medium", "d2": "hard"}
        first = {**pure, **dict.fromkeys(["d0", "d1", "d2"], "easy")}
        assert fill_evenly(units, tied, targets, seed) == fill_evenly(units, first, targets, seed)

    def test_even_strata_come_before_plain_order(self):
        tasks = [dataclasses.replace(task, group=f"g{int(task.id[1:]) // 3}") for task in rows(60, 60, 30)]

        def unevenness(plan: SplitPlan) -> float:
            found = table(plan, tasks)
            shares = {"train": 0.5, "val": 0.25, "test": 0.25}
            wanted = {"s0": 60, "s1": 60, "s2": 30}
            return sum(abs(found[s][h] - shares[s] * n) for s in SPLITS for h, n in wanted.items())

        for seed in range(10):
            even = unevenness(split(tasks, seed=seed, group_key="family"))
            assert even <= 9
            assert even < unevenness(make_splits(tasks, SplitSettings(seed=seed)))

    @pytest.mark.parametrize("seed", range(10))
    def test_one_large_group_does_not_leave_a_split_empty(self, seed: int):
        tasks = [dataclasses.replace(task, group="large") for task in rows(30)] + rows(40)[30:]
        plan = split(tasks, seed=seed, group_key="family")
        assert min(sizes(plan)) >= 2

    def test_large_units_that_come_last_are_given_first_when_a_split_would_be_short(self):
        large = [f"l{i}" for i in range(36)]
        units = [["a", "b"], ["c", "d"], large]
        strata = dict.fromkeys(["a", "b", "c", "d", *large], "s")
        targets = {"train": 20, "val": 10, "test": 10}
        assert fill_evenly(units, strata, targets, seed=0) == fill(units, targets)

    @pytest.mark.parametrize("seed", range(10))
    @pytest.mark.parametrize("size", [3, 4, 5])
    def test_counts_with_groups_are_never_short_while_groups_are_unused(self, seed: int, size: int):
        tasks = [dataclasses.replace(task, group=f"g{int(task.id[1:]) // size}") for task in rows(20, 20)]
        plan = split(tasks, seed=seed, counts=PerSplit(10, 8, 7), group_key="family")
        assert plan.unused
        assert all(got >= asked for got, asked in zip(sizes(plan), (10, 8, 7), strict=True))

    def test_equal_content_stays_together_too(self):
        tasks = rows(30, 30)
        tasks[0] = dataclasses.replace(tasks[0], digest="same")
        tasks[45] = dataclasses.replace(tasks[45], digest="same")
        for seed in range(10):
            plan = split(tasks, seed=seed, on_duplicate_content="group")
            assert sum("same" in {ref.digest for ref in getattr(plan, name)} for name in SPLITS) == 1
            assert plan.holdout


PINNED = [
    ["t001", "t004", "t005", "t008", "t009", "t010", "t012"],
    ["t000", "t003", "t007"],
    ["t002", "t006", "t011"],
]
PINNED_WITH_GROUPS = [
    [
        "t000",
        "t001",
        "t002",
        "t003",
        "t004",
        "t005",
        "t006",
        "t007",
        "t017",
        "t018",
        "t020",
        "t021",
        "t023",
        "t025",
        "t026",
    ],
    ["t008", "t009", "t010", "t011", "t012", "t013", "t022", "t027"],
    ["t014", "t015", "t016", "t019", "t024", "t028", "t029"],
]
