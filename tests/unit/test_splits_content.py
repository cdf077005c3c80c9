"""What is the same input, and what becomes of it across splits."""

import sys
from typing import Any

import pytest

from capevolve.canonical import digest
from capevolve.errors import SplitError
from capevolve.splits import PerSplit, SplitPlan, SplitSettings, TaskRow, make_splits
from capevolve.splits.content import normalise_text, read_input


def row(name: str, given: Any, target: Any = None) -> TaskRow:
    content = read_input(given)
    return TaskRow(name, digest([given, target]), input_digest=content.digest, text=content.text)


def rows(*inputs: Any, n: int = 12) -> list[TaskRow]:
    """Tasks with these inputs, and others up to n."""
    given = [*inputs, *(f"something else, number {i}" for i in range(n - len(inputs)))]
    return [row(f"t{i:02}", value, i) for i, value in enumerate(given)]


PINNED = PerSplit(("t00", "t02", "t03"), ("t04", "t05"), ("t01", "t06"))


def splits_of(plan: SplitPlan, *names: str) -> set[str]:
    return {split for split in ("train", "val", "test") for ref in getattr(plan, split) if ref.id in names}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Capital of France?", "  capital OF\n\tfrance? "),
        ("STRASSE", "straße"),
        ("ﬁne", "FINE"),
        ("caf\u00e9", "CAFE\u0301"),
        ("a\u00a0b\u2003c", "A b c"),
        ("\u2460", "1"),
        ("call \u2121", "call tel"),
        ({"q": "Two  words", "k": [1, "X"]}, {"k": [1, "x "], "q": "two words"}),
    ],
)
def test_case_and_white_space_and_compatibility_forms_are_no_difference(one: Any, other: Any):
    assert read_input(one).digest == read_input(other).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2 + 2", "2 - 2"),
        ("a b", "ab"),
        (1, "1"),
        (1, True),
        ("true", True),
        ("null", None),
        ([1, 2], [[1], 2]),
        ([["a"], "b"], [["a", "b"]]),
        (["a", "b"], {"a": "b"}),
        ([["a"]], {"a": None}),
        ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}),
        ({"A": "x"}, {"a": "x"}),
    ],
)
def test_words_signs_types_shapes_and_keys_are_a_difference(one: Any, other: Any):
    assert read_input(one).digest != read_input(other).digest


@pytest.mark.parametrize("empty", [None, "", "  \n", [], {}, {"a": None, "b": ["", {}]}])
def test_an_input_that_says_nothing_is_compared_with_none(empty: Any):
    assert read_input(empty).digest is None
    assert read_input(empty).text == ""


@pytest.mark.parametrize("something", [0, False, 0.0, "?", "\U0001f600", [None, 0]])
def test_zero_and_false_and_signs_say_something(something: Any):
    assert read_input(something).digest is not None


def test_inputs_nested_deeper_than_calls_are_read():
    deep: Any = "end"
    for _ in range(3 * sys.getrecursionlimit()):
        deep = [deep]
    assert read_input(deep).text == "end"


def test_text_is_normalised_once_for_all():
    for text in ("İstanbul", "ΌΣΟΣ", "ǰ", "\u0345\u0391", "ŉ", "ﷺ", "  a \x1c b  "):
        assert normalise_text(normalise_text(text)) == normalise_text(text)


class TestAcrossSplits:
    def test_the_same_input_in_two_splits_is_refused_although_its_target_differs(self):
        with pytest.raises(SplitError) as caught:
            make_splits(rows("Who?  ", "who?"), SplitSettings(ids=PINNED))
        assert "The same input (but for case and white space) is in more than one split" in str(caught.value)
        assert "'t00' (train) and 't01' (test)" in str(caught.value)
        assert "Task.input" in str(caught.value.fix)

    def test_where_splits_are_drawn_the_refusal_keeps_the_test_task_to_itself(self):
        seen = set()
        for seed in range(20):
            tasks = rows("Who?", "WHO?", n=40)
            try:
                make_splits(tasks, SplitSettings(seed=seed))
            except SplitError as error:
                seen.add(
                    next(w for w in ("(train) and a test", "(val) and a test", "(val)") if w in str(error))
                )
                assert "(test)" not in str(error)
        assert {"(train) and a test", "(val) and a test"} <= seen

    @pytest.mark.parametrize("seed", range(20))
    def test_grouping_keeps_the_same_input_in_one_split(self, seed: int):
        how = SplitSettings(seed=seed, on_duplicate_content="group")
        plan = make_splits(rows("Who?", "WHO?", " who?", n=40), how)
        assert len(splits_of(plan, "t00", "t01", "t02")) == 1
        assert plan.holdout and plan.val_holdout

    def test_allowed_it_costs_the_holdout(self):
        plan = make_splits(rows("Who?", "who?"), SplitSettings(ids=PINNED, allow_no_holdout=True))
        assert (plan.holdout, plan.val_holdout) == (False, True)

    def test_in_one_split_it_counts_twice_and_says_so(self):
        pinned = PerSplit(("t02", "t03"), ("t04", "t05"), ("t00", "t01", "t06"))
        plan = make_splits(rows("Who?", "who?"), SplitSettings(ids=pinned))
        assert any(w.startswith("test has 1 task with the content of another one") for w in plan.warnings)

    def test_empty_inputs_are_not_the_same(self):
        plan = make_splits(rows(*[None] * 6, "", {}), SplitSettings())
        assert plan.holdout
        assert plan.marks is None

    def test_an_input_that_all_tasks_share_tells_nothing(self):
        """An instruction: what makes the tasks differ is elsewhere."""
        plan = make_splits([row(f"t{i}", "Do it.", i) for i in range(12)], SplitSettings())
        assert plan.holdout
        assert plan.marks is None

    def test_without_equal_inputs_the_plan_is_the_one_it_was(self):
        bare = [TaskRow(task.id, task.digest) for task in rows(n=30)]
        one, other = make_splits(rows(n=30), SplitSettings(seed=4)), make_splits(bare, SplitSettings(seed=4))
        assert one == other

    def test_what_was_compared_is_marked_by_position(self):
        plan = make_splits(rows("Who?", "x", "who? "), SplitSettings(on_duplicate_content="group"))
        assert plan.marks is not None
        [copies] = plan.marks.copies
        assert [plan.places()[place][1].id for place in copies] == ["t00", "t02"]
