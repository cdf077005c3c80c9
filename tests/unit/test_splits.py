import dataclasses
import os
import subprocess
import sys
from typing import Any

import pytest

from capevolve.errors import SplitError
from capevolve.model import TaskRef
from capevolve.splits import PerSplit, SplitPlan, SplitSettings, TaskRow, check_task_ids, make_splits
from capevolve.splits.partition import fill

PINNED = (
    ["t0", "t1", "t11", "t2", "t8", "t9"],
    ["t10", "t5", "t6"],
    ["t3", "t4", "t7"],
)
PINNED_DIGEST = "sha256:91f7b67eb0926843c1c596b4e82afb0ff21688ed28a8c8a5886b09fd566479f6"


def rows(n: int, **groups: str) -> list[TaskRow]:
    return [TaskRow(f"t{i}", f"content {i}", group=groups.get(f"t{i}")) for i in range(n)]


def sizes(plan: SplitPlan) -> tuple[int, int, int]:
    return len(plan.train), len(plan.val), len(plan.test)


def ids(refs: tuple[TaskRef, ...]) -> list[str]:
    return [ref.id for ref in refs]


def pin(train: str, val: str, test: str) -> PerSplit[tuple[str, ...]]:
    return PerSplit(tuple(train.split()), tuple(val.split()), tuple(test.split()))


def refusal(tasks: list[TaskRow], **settings: Any) -> str:
    with pytest.raises(SplitError) as caught:
        make_splits(tasks, SplitSettings(**settings))
    return str(caught.value)


class TestSizes:
    @pytest.mark.parametrize(
        ("n", "shown", "fix"),
        [
            (0, "0/0/0", "Add 4 tasks and set splits.counts to {train: 1, val: 2, test: 1}; or add 6 tasks"),
            (1, "1/0/0", "Add 3 tasks and set splits.counts to {train: 1, val: 2, test: 1}; or add 5 tasks"),
            (2, "1/1/0", "Add 2 tasks and set splits.counts to {train: 1, val: 2, test: 1}; or add 4 tasks"),
            (3, "1/1/1", "Add 1 task and set splits.counts to {train: 1, val: 2, test: 1}; or add 3 tasks"),
            (4, "2/1/1", "Set splits.counts to {train: 1, val: 2, test: 1}; or add 2 tasks"),
            (5, "3/1/1", "Set splits.counts to {train: 2, val: 2, test: 1}; or add 1 task and"),
        ],
    )
    def test_too_few_tasks_are_refused_with_sizes_and_the_smallest_fix(self, n: int, shown: str, fix: str):
        message = refusal(rows(n))
        assert f"train/val/test = {shown}" in message
        assert fix in message

    @pytest.mark.parametrize("n", range(6))
    def test_the_fixes_that_are_offered_work(self, n: int):
        enough = 6
        assert f"add {enough - n} task" in refusal(rows(n))
        make_splits(rows(enough), SplitSettings())
        more = max(n, 4)
        plan = make_splits(rows(more), SplitSettings(counts=PerSplit(more - 3, 2, 1)))
        assert sizes(plan) == (more - 3, 2, 1)

    @pytest.mark.parametrize(
        ("n", "expected"), [(6, (3, 2, 1)), (7, (3, 2, 2)), (8, (4, 2, 2)), (40, (20, 10, 10))]
    )
    def test_sizes_follow_the_largest_remainders(self, n: int, expected: tuple[int, int, int]):
        assert sizes(make_splits(rows(n), SplitSettings())) == expected

    def test_a_tie_in_the_decimals_as_written_is_a_tie(self):
        # 4.5 and 3.5: in binary 0.35 is a little less, and train would win the seat that val is owed.
        plan = make_splits(rows(10), SplitSettings(ratios=PerSplit(0.45, 0.35, 0.2)))
        assert sizes(plan) == (4, 4, 2)

    def test_a_ratio_that_rounds_to_no_task_is_refused(self):
        message = refusal(rows(10), ratios=PerSplit(0.01, 0.5, 0.49))
        assert "train would get no task" in message
        assert "train/val/test = 0/5/5" in message

    def test_a_ratio_of_zero_is_not_refused_for_train(self):
        plan = make_splits(rows(10), SplitSettings(ratios=PerSplit(0.0, 0.5, 0.5)))
        assert sizes(plan) == (0, 5, 5)
        assert any("train is empty" in warning for warning in plan.warnings)

    def test_an_empty_test_split_is_refused_even_when_small_is_allowed(self):
        assert "test is empty" in refusal(rows(10), ratios=PerSplit(0.5, 0.5, 0.0), allow_small=True)
        assert "test is empty" in refusal(rows(10), counts=PerSplit(5, 5, 0), allow_small=True)
        assert "test is empty" in refusal(rows(10), ids=pin("t0 t1", "t2 t3", ""), allow_small=True)

    @pytest.mark.parametrize("val", [0, 1])
    def test_fewer_than_two_val_tasks_are_refused_unless_allowed(self, val: int):
        counts = PerSplit(5, val, 3)
        assert f"val has {val} task" in refusal(rows(10), counts=counts)
        plan = make_splits(rows(10), SplitSettings(counts=counts, allow_small=True))
        assert any(w.startswith("val ") for w in plan.warnings)

    def test_allow_small_does_not_excuse_an_unpinned_three_way_split_of_three(self):
        assert "at least 4 tasks" in refusal(rows(3), counts=PerSplit(1, 1, 1), allow_small=True)
        plan = make_splits(rows(3), SplitSettings(ids=pin("t0", "t1", "t2"), allow_small=True))
        assert sizes(plan) == (1, 1, 1)
        assert "at least 4 tasks" in refusal(rows(3), ids=pin("t0", "t1", "t2"))

    @pytest.mark.parametrize(("val", "warned"), [(2, True), (4, True), (5, False)])
    def test_two_to_four_val_tasks_are_of_low_confidence(self, val: int, warned: bool):
        plan = make_splits(rows(30), SplitSettings(counts=PerSplit(10, val, 10)))
        assert any("low confidence" in w for w in plan.warnings) is warned

    @pytest.mark.parametrize(("test", "warned"), [(1, True), (7, True), (8, False)])
    def test_fewer_than_eight_test_tasks_are_indicative(self, test: int, warned: bool):
        plan = make_splits(rows(30), SplitSettings(counts=PerSplit(10, 5, test)))
        assert any("indicative" in w for w in plan.warnings) is warned

    def test_a_large_clean_split_has_no_warning(self):
        assert make_splits(rows(40), SplitSettings()).warnings == ()

    def test_counts_beyond_the_tasks_are_refused_by_how_much(self):
        message = refusal(rows(10), counts=PerSplit(8, 4, 3))
        assert "15 tasks" in message
        assert "Ask for 5 fewer, or add 5 tasks." in message

    def test_counts_below_the_tasks_leave_the_rest_unused_and_say_so(self):
        plan = make_splits(rows(20), SplitSettings(counts=PerSplit(4, 5, 8)))
        assert len(plan.unused) == 3
        used = {*ids(plan.train), *ids(plan.val), *ids(plan.test)}
        assert used.isdisjoint(ids(plan.unused))
        assert any("3 tasks in no split" in warning for warning in plan.warnings)

    @pytest.mark.parametrize(
        "settings",
        [
            {"ratios": PerSplit(0.5, 0.2, 0.2)},
            {"ratios": PerSplit(1.5, -0.25, -0.25)},
            {"ratios": PerSplit(float("nan"), 0.5, 0.5)},
            {"counts": PerSplit(-1, 5, 5)},
            {"ratios": PerSplit(0.5, 0.25, 0.25), "counts": PerSplit(5, 3, 2)},
        ],
    )
    def test_settings_without_a_meaning_are_refused(self, settings: dict[str, Any]):
        refusal(rows(20), **settings)


class TestDraw:
    def test_the_order_of_the_tasks_is_irrelevant(self):
        tasks = rows(30)
        plan = make_splits(tasks, SplitSettings(seed=3))
        assert make_splits(tasks[::-1], SplitSettings(seed=3)) == plan
        assert make_splits(tasks[::-1], SplitSettings(seed=3)).digest == plan.digest
        some = SplitSettings(counts=PerSplit(5, 5, 5))
        assert make_splits(tasks[::-1], some) == make_splits(tasks, some)

    def test_another_seed_is_another_split(self):
        plans = [make_splits(rows(30), SplitSettings(seed=seed)) for seed in range(5)]
        assert len({tuple(ids(plan.test)) for plan in plans}) == 5
        assert len({plan.digest for plan in plans}) == 5

    def test_content_does_not_decide_where_a_task_goes(self):
        changed = [dataclasses.replace(row, digest=f"other {row.id}") for row in rows(30)]
        before, after = make_splits(rows(30), SplitSettings()), make_splits(changed, SplitSettings())
        assert ids(before.test) == ids(after.test)
        assert before.digest != after.digest

    def test_the_assignment_is_pinned_for_ever(self):
        # A ledger of today is verified by a capevolve of tomorrow: these ids must never change.
        plan = make_splits(rows(12), SplitSettings(seed=7))
        assert (ids(plan.train), ids(plan.val), ids(plan.test)) == PINNED
        assert plan.digest == PINNED_DIGEST

    def test_hash_randomisation_changes_nothing(self):
        code = (
            "from capevolve.splits import SplitSettings, TaskRow, make_splits\n"
            "tasks = [TaskRow(f't{i}', f'c{i % 25}', group=f'g{i % 9}') for i in range(30)]\n"
            "print(make_splits(tasks, SplitSettings(seed=1, on_duplicate_content='group')).digest)"
        )
        digests = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("0", "1")
        }
        assert len(digests) == 1

    def test_each_split_is_ordered_by_id(self):
        plan = make_splits(rows(30), SplitSettings())
        for refs in (plan.train, plan.val, plan.test):
            assert ids(refs) == sorted(ids(refs))

    def test_clusters_are_carried_and_move_nothing(self):
        clustered = [dataclasses.replace(row, cluster="c") for row in rows(10)]
        plan = make_splits(clustered, SplitSettings())
        assert {ref.cluster for ref in plan.val} == {"c"}
        assert ids(plan.val) == ids(make_splits(rows(10), SplitSettings()).val)
        assert plan.digest != make_splits(rows(10), SplitSettings()).digest


class TestGroups:
    def test_a_group_stays_in_one_split(self):
        tasks = [TaskRow(f"t{i}", f"c{i}", group=f"family {i // 3}") for i in range(60)]
        for seed in range(20):
            plan = make_splits(tasks, SplitSettings(seed=seed, group_key="family"))
            homes = [{int(name[1:]) // 3 for name in ids(refs)} for refs in (plan.train, plan.val, plan.test)]
            assert sum(map(len, homes)) == len(set().union(*homes)) == 20
            assert plan.holdout

    def test_changed_sizes_are_told(self):
        tasks = [TaskRow(f"t{i}", f"c{i}", group=f"family {i // 7}") for i in range(42)]
        plan = make_splits(tasks, SplitSettings(group_key="family"))
        assert any("not train/val/test = 21/11/10" in w for w in plan.warnings)

    def test_the_seed_decides_among_groups_too(self):
        tasks = [TaskRow(f"t{i}", f"c{i}", group=f"family {i // 3}") for i in range(60)]
        tests = {tuple(ids(make_splits(tasks, SplitSettings(seed=seed)).test)) for seed in range(5)}
        assert len(tests) == 5

    def test_a_large_group_that_comes_last_does_not_leave_a_split_empty(self):
        large = [f"t{i}" for i in range(36)]
        parts = fill([["a", "b"], ["c", "d"], large], {"train": 20, "val": 10, "test": 10})
        assert parts == {"train": large, "val": ["a", "b"], "test": ["c", "d"]}

    @pytest.mark.parametrize("seed", range(20))
    def test_one_large_group_does_not_leave_a_split_empty(self, seed: int):
        tasks = [TaskRow(f"t{i}", f"c{i}", group="large" if i < 30 else None) for i in range(40)]
        plan = make_splits(tasks, SplitSettings(seed=seed, group_key="family"))
        assert min(sizes(plan)) >= 2

    def test_fewer_groups_than_splits_are_refused_with_sizes(self):
        tasks = [TaskRow(f"t{i}", f"c{i}", group=f"g{i % 2}") for i in range(40)]
        message = refusal(tasks, group_key="family")
        assert "would get no task" in message
        assert "train/val/test = 20/20/0" in message or "train/val/test = 20/0/20" in message
        assert "2 sets" in message

    def test_a_key_that_no_task_has_is_refused(self):
        assert "No task has 'famly' in its metadata" in refusal(rows(40), group_key="famly")

    def test_tasks_without_the_key_stand_alone_and_those_not_in_test_are_named(self):
        alone = make_splits(rows(40), SplitSettings())  # one task to a group splits like no group
        lacking = {*ids(alone.test)[:2], *ids(alone.train)[:2], *ids(alone.val)[:1]}
        tasks = [dataclasses.replace(row, group=None if row.id in lacking else row.id) for row in rows(40)]
        plan = make_splits(tasks, SplitSettings(group_key="family"))
        [warning] = [w for w in plan.warnings if "without 'family'" in w]
        hidden = lacking & set(ids(plan.test))
        assert len(hidden) == 2
        assert warning.startswith("5 tasks without")
        assert {name for name in lacking if repr(name) in warning} == lacking - hidden
        assert warning.endswith("and 2 more.")

    def test_a_key_that_only_test_tasks_lack_names_nobody(self):
        named = make_splits(rows(40), SplitSettings()).test[0].id
        tasks = [dataclasses.replace(row, group=None if row.id == named else row.id) for row in rows(40)]
        plan = make_splits(tasks, SplitSettings(group_key="family"))
        assert named in ids(plan.test)
        assert "1 task without 'family' in the metadata, each a group of its own." in plan.warnings

    def test_a_key_that_no_task_has_is_refused_with_the_keys_that_there_are(self):
        with pytest.raises(SplitError) as caught:
            make_splits(rows(8), SplitSettings(group_key="famly"), ["cluster", "family", "zone"])
        assert "the keys there are 'family', 'cluster', 'zone'" in caught.value.what
        assert caught.value.where == "splits.group_key"

    def test_counts_with_groups_leave_whole_groups_unused(self):
        tasks = [TaskRow(f"t{i}", f"c{i}", group=f"{i // 4}") for i in range(40)]
        plan = make_splits(tasks, SplitSettings(counts=PerSplit(8, 8, 8)))
        assert sizes(plan) == (8, 8, 8)
        unused = {int(name[1:]) // 4 for name in ids(plan.unused)}
        used = {int(ref.id[1:]) // 4 for refs in (plan.train, plan.val, plan.test) for ref in refs}
        assert unused.isdisjoint(used)

    def test_pinned_ids_may_not_tear_a_group_apart(self):
        message = refusal(rows(8, t0="g", t4="g"), ids=pin("t0 t1", "t2 t3", "t4 t5"))
        assert "one group" in message
        assert "'t0' (train) and 't4' (test)" in message
        pinned = pin("t0 t1", "t2 t3", "t4 t5")
        plan = make_splits(rows(8, t0="g", t4="g"), SplitSettings(ids=pinned, allow_no_holdout=True))
        assert "Tasks of one group are in more than one split." in plan.warnings


class TestPinnedIds:
    def test_pinned_ids_go_where_they_are_pinned_in_any_order(self):
        plan = make_splits(rows(6), SplitSettings(ids=pin("t1 t0", "t3 t2", "t5 t4")))
        assert (ids(plan.train), ids(plan.val), ids(plan.test)) == (["t0", "t1"], ["t2", "t3"], ["t4", "t5"])
        assert plan.method == "ids"
        assert plan.holdout
        assert plan.val_holdout
        assert plan == make_splits(rows(6), SplitSettings(ids=pin("t0 t1", "t2 t3", "t4 t5")))

    def test_unknown_ids_are_named_with_the_nearest(self):
        tasks = [TaskRow(name, name) for name in ("invoice-1", "receipt-2", "b", "c", "d")]
        message = refusal(tasks, ids=pin("invoice-l b", "c d", "zzz"))
        assert "'invoice-l' (pinned to train, nearest: 'invoice-1')" in message
        assert "'zzz' (pinned to test)" in message

    def test_many_unknown_ids_are_counted_not_listed(self):
        unknown = tuple(f"nobody {i}" for i in range(500))
        message = refusal(rows(2000), ids=PerSplit(unknown, ("t0", "t1"), ("t2",)))
        assert "and 495 more" in message
        assert len(message) < 1000

    def test_an_id_pinned_twice_in_a_split_is_refused(self):
        assert "pinned twice: 't0' in train" in refusal(rows(8), ids=pin("t0 t0", "t1 t2", "t3"))

    def test_tasks_that_are_not_pinned_are_unused(self):
        plan = make_splits(rows(8), SplitSettings(ids=pin("t0", "t1 t2", "t3")))
        assert ids(plan.unused) == ["t4", "t5", "t6", "t7"]

    def test_an_empty_pin_of_everything_is_refused(self):
        assert "test is empty" in refusal(rows(8), ids=pin("", "", ""))

    @pytest.mark.parametrize(
        ("pinned", "holdout", "val_holdout"),
        [
            (pin("t0 t1", "t1 t2", "t3 t4"), True, False),
            (pin("t0 t1", "t2 t3", "t3 t4"), False, True),
            (pin("t0 t1", "t2 t3", "t0 t4"), False, True),
            (pin("t0 t1", "t0 t1", "t0 t1"), False, False),
        ],
    )
    def test_overlap_is_refused_unless_allowed_and_then_on_record(
        self, pinned: PerSplit[tuple[str, ...]], holdout: bool, val_holdout: bool
    ):
        message = refusal(rows(8), ids=pinned)
        assert "The same task is in more than one split" in message
        assert "allow_no_holdout" in message
        plan = make_splits(rows(8), SplitSettings(ids=pinned, allow_no_holdout=True))
        assert (plan.holdout, plan.val_holdout) == (holdout, val_holdout)
        assert any("fit metric" in w for w in plan.warnings) is not holdout
        assert any("proposer has seen" in w for w in plan.warnings) is not val_holdout

    def test_allowing_no_holdout_does_not_deny_one_that_is_there(self):
        plan = make_splits(rows(40), SplitSettings(allow_no_holdout=True))
        assert plan.holdout
        assert plan.val_holdout


def copies(n: int) -> list[TaskRow]:
    """n tasks, of which the first two have the same content."""
    return [TaskRow(f"t{i}", f"content {max(i, 1)}") for i in range(n)]


class TestDuplicateContent:
    def test_equal_content_in_two_splits_is_refused(self):
        message = refusal(copies(8), ids=pin("t0 t2", "t3 t4", "t1 t5"))
        assert "The same content is in more than one split: 't0' (train) and 't1' (test)" in message
        assert "Pin them to one split" in message

    def test_drawn_splits_refuse_it_and_name_the_setting_that_helps(self):
        apart = 0
        for seed in range(20):
            try:
                plan = make_splits(copies(40), SplitSettings(seed=seed))
            except SplitError as error:
                assert "splits.on_duplicate_content: group" in str(error)
                assert ("a test task" in str(error)) is (str(error).count("(") == 1)
                apart += 1
            else:
                homes = [{"t0", "t1"} & set(ids(part)) for part in (plan.train, plan.val, plan.test)]
                assert {"t0", "t1"} in homes
                assert any("content of another one" in w for w in plan.warnings)
        assert 0 < apart < 20

    @pytest.mark.parametrize("seed", range(20))
    def test_grouping_keeps_equal_content_together(self, seed: int):
        plan = make_splits(copies(40), SplitSettings(seed=seed, on_duplicate_content="group"))
        assert plan.holdout
        assert plan.val_holdout
        homes = [{"t0", "t1"} & set(ids(part)) for part in (plan.train, plan.val, plan.test)]
        assert {"t0", "t1"} in homes

    def test_content_and_groups_bind_together(self):
        tasks = [TaskRow("a", "x", group="g"), TaskRow("b", "x"), TaskRow("c", "y", group="g")]
        tasks += [TaskRow("d", "y", group="h"), TaskRow("e", "z", group="h")]
        tasks += [TaskRow(f"t{i}", f"c{i}") for i in range(30)]
        plan = make_splits(tasks, SplitSettings(on_duplicate_content="group"))
        bound = set("abcde")
        assert any(bound <= set(ids(part)) for part in (plan.train, plan.val, plan.test))

    def test_grouping_cannot_move_pinned_ids(self):
        pinned = pin("t0 t2", "t3 t4", "t1 t5")
        assert "The same content" in refusal(copies(8), ids=pinned, on_duplicate_content="group")

    def test_allowed_duplicates_cost_the_holdout(self):
        pinned = pin("t0 t2", "t3 t4", "t1 t5")
        assert not make_splits(copies(8), SplitSettings(ids=pinned, allow_no_holdout=True)).holdout
        pinned = pin("t0 t2", "t1 t4", "t6 t5")
        plan = make_splits(copies(8), SplitSettings(ids=pinned, allow_no_holdout=True))
        assert (plan.holdout, plan.val_holdout) == (True, False)

    def test_a_duplicate_that_stays_unused_harms_nobody(self):
        plan = make_splits(copies(8), SplitSettings(ids=pin("t0 t2", "t3 t4", "t6 t5")))
        assert plan.holdout


class TestDigests:
    def test_the_test_digest_is_of_content_only(self):
        renamed = [dataclasses.replace(row, id=f"renamed {9 - int(row.id[1:])}") for row in rows(6)]
        old = make_splits(rows(6), SplitSettings(ids=pin("t0 t1", "t2 t3", "t4 t5")))
        new_ids = PerSplit(("renamed 9", "renamed 8"), ("renamed 7", "renamed 6"), ("renamed 5", "renamed 4"))
        new = make_splits(renamed, SplitSettings(ids=new_ids))
        assert new.test_digest == old.test_digest
        assert new.test_ids_digest != old.test_ids_digest
        assert new.digest != old.digest

    def test_the_test_digest_counts_copies(self):
        one = make_splits(copies(8), SplitSettings(ids=pin("t2 t3", "t4 t5", "t0")))
        two = make_splits(copies(8), SplitSettings(ids=pin("t2 t3", "t4 t5", "t0 t1")))
        assert one.test_digest != two.test_digest

    def test_train_and_val_do_not_enter_the_test_digests(self):
        one = make_splits(rows(8), SplitSettings(ids=pin("t2 t3", "t4 t5", "t0")))
        two = make_splits(rows(8), SplitSettings(ids=pin("t4 t5", "t2 t3", "t0")))
        assert (one.test_digest, one.test_ids_digest) == (two.test_digest, two.test_ids_digest)
        assert one.digest != two.digest

    @pytest.mark.parametrize(
        "change",
        [
            {"seed": 1},
            {"method": "counts"},
            {"holdout": False},
            {"val_holdout": False},
            {"unused": (TaskRef("x", "x"),)},
            {"train": (TaskRef("t0", "content 0", "a cluster"),)},
            {"val": ()},
            {"test": (TaskRef("t0", "other content"),)},
        ],
    )
    def test_the_digest_covers_everything_but_the_warnings(self, change: dict[str, Any]):
        plan = make_splits(rows(8), SplitSettings())
        assert dataclasses.replace(plan, **change).digest != plan.digest
        assert dataclasses.replace(plan, warnings=("other words",)).digest == plan.digest


class TestTaskIds:
    @pytest.mark.parametrize(
        "hostile",
        [
            ["a/b", "../x", "../../etc/passwd", "CON", "NUL.txt", "a__b__t0", "x" * 300, "x" * 1000],
            ["Foo", "foo", "FOO", " foo", "foo "],
            ["\U0001f600", "\U0001f468\u200d\U0001f469", "e\u0301", "\u0627", "ﬁ", "fi"],
            ["0", "00", "0.0", "None", "null", "*", "?", "'", '"', "\\", "%00", "$(rm -rf)"],
        ],
    )
    def test_unusual_ids_are_fine(self, hostile: list[str]):
        check_task_ids(hostile)
        tasks = [TaskRow(name, name) for name in hostile] + rows(12)
        plan = make_splits(tasks, SplitSettings())
        assert sum(sizes(plan)) == len(tasks)
        assert plan.digest

    @pytest.mark.parametrize(
        ("bad", "words"),
        [
            ("", "empty: ''"),
            ("   ", "empty: '   '"),
            (7, "not text: 7 (int)"),
            (True, "not text: True (bool)"),
            (None, "not text: None (NoneType)"),
            (b"x", "not text: b'x' (bytes)"),
            ("x" * 1001, "longer than 1000 characters: 'xxx"),
            ("a\x00b", "control characters: 'a\\x00b'"),
            ("a\nb", "control characters: 'a\\nb'"),
            ("a\x1b[31m", "control characters"),
            ("a\x7f", "control characters"),
            ("a\x85", "control characters"),
            ("a\u2028b", "control characters"),
            ("a\u202eb", "control characters"),
            ("a\ud800", "not encodable as UTF-8: 'a\\ud800'"),
        ],
    )
    def test_unusable_ids_are_refused_by_name(self, bad: object, words: str):
        with pytest.raises(SplitError) as caught:
            check_task_ids(["fine", bad])
        message = str(caught.value)
        assert words in message
        assert "fine" not in message
        assert message.replace("\n", "").isprintable()

    def test_ids_used_twice_are_named_with_their_number(self):
        with pytest.raises(SplitError, match=r"used twice: 'a' \(3 times\), 'b' \(2 times\)"):
            check_task_ids(["a", "b", "a", "c", "b", "a"])

    def test_ids_that_differ_by_normalisation_only_are_named_apart(self):
        with pytest.raises(SplitError, match=r"'cafe\\u0301' = 'caf\\xe9'"):
            check_task_ids(["caf\u00e9", "cafe\u0301"])

    def test_all_offenders_are_reported_at_once(self):
        with pytest.raises(SplitError) as caught:
            check_task_ids(["", 3, "a", "a", "b\n", "x" * 2000])
        for words in ("empty", "not text", "used twice", "control characters", "longer than"):
            assert words in str(caught.value)

    def test_many_offenders_are_counted(self):
        with pytest.raises(SplitError, match="and 95 more"):
            check_task_ids(range(100))

    def test_splitting_checks_the_ids(self):
        assert "used twice" in refusal([*rows(10), *rows(1)])

    def test_no_ids_are_fine(self):
        check_task_ids([])
