"""Near duplicates across splits: found, not found, told without the ids of test."""

import re
import time

import pytest

from capevolve.canonical import digest
from capevolve.errors import SplitError
from capevolve.splits import PerSplit, SplitPlan, SplitSettings, TaskRow, make_splits, near
from capevolve.splits.apart import add_near
from capevolve.splits.content import read_input
from capevolve.splits.near import find_near, list_words
from capevolve.splits.plan import NearDuplicates

STORY = (
    "A customer writes that the parcel which was promised for Tuesday has not arrived, that nobody answers "
    "the telephone, and that the money should be sent back to the card it came from before the end of the "
    "week; she adds her order number and asks for a polite answer in two sentences without any excuses."
)
CHINESE = "客户写信说周二承诺的包裹没有到达也没有人接电话所以她要求在本周结束之前把钱退回到原来的银行卡里并附上订单号码"


def row(name: str, given: object) -> TaskRow:
    content = read_input(given)
    return TaskRow(name, digest([name, given]), input_digest=content.digest, text=content.text)


def plan_of(train: object, test: object, **settings: object) -> SplitPlan:
    """Splits with `train` as task t0 and `test` as secret9."""
    others = ["t1", "v0", "v1", "secret8"]
    tasks = [row("t0", train), row("secret9", test), *(row(name, f"other {name}") for name in others)]
    pinned = PerSplit(("t0", "t1"), ("v0", "v1"), ("secret8", "secret9"))
    return make_splits(tasks, SplitSettings(ids=pinned, **settings))  # type: ignore[arg-type]


def near_warnings(plan: SplitPlan) -> list[str]:
    return [warning for warning in plan.warnings if "nearly" in warning]


NEAR = [
    (STORY, STORY.replace("Tuesday", "Friday")),
    (STORY, STORY.replace("polite", "short and polite")),
    (STORY, STORY + " Thank you."),
    (STORY, STORY.upper().replace(",", "").replace(" ", "  ")),
    ({"message": STORY}, {"body": STORY}),
    (STORY, {"message": STORY.split("; ")[0], "rest": STORY.split("; ")[1]}),
    (CHINESE, CHINESE.replace("周二", "周五")),
    ("What is 2+2?", "What is 2 + 2?"),
    ("Paris?", "Paris!"),
    ("one two three four five", "(one) two, three: four. Five"),
]
FAR = [
    (STORY, " ".join(reversed(STORY.split()))),
    (STORY, STORY[: len(STORY) // 2]),
    ("What is 7 + 2?", "What is 7 - 2?"),
    ("What is 12 + 7?", "What is 12 + 8?"),
    ("Capital of France?", "Capital of Spain?"),
    ("one two three four", "one two three four five"),
    (CHINESE, CHINESE[::-1]),
    (12, 13),
    ("?!", "!?"),
    ("", None),
]


@pytest.mark.parametrize(("one", "other"), NEAR)
def test_two_inputs_that_share_most_of_their_words_are_told(one: object, other: object):
    plan = plan_of(one, other)
    [warning] = near_warnings(plan)
    assert warning.startswith("1 of 2 test tasks nearly repeats the input of a train task")
    assert "'t0' (train) and a test task (position 5), " in warning
    assert plan.holdout


@pytest.mark.parametrize(("one", "other"), FAR)
def test_two_inputs_that_do_not_are_not(one: object, other: object):
    assert near_warnings(plan_of(one, other)) == []
    assert plan_of(one, other).marks is None


def test_four_in_five_is_enough_and_a_little_less_is_not():
    words = [f"w{i}" for i in range(13)]  # 9 shingles
    plan = plan_of(" ".join(words[:12]), " ".join(words[2:]))  # 8 and 7 of them, 6 in common: 6 / 9
    assert near_warnings(plan) == []
    words = [f"w{i}" for i in range(14)]  # 10 shingles, of which the other text has 8
    plan = plan_of(" ".join(words), " ".join(words[:12]))
    assert ", 0.80" in near_warnings(plan)[0]
    assert near_warnings(plan_of(" ".join(words), " ".join(words[:11]))) == []


def test_no_message_names_a_test_task():
    for settings in (
        {},
        {"near_duplicates": "refuse"},
        {"near_duplicates": "refuse", "allow_no_holdout": True},
    ):
        try:
            said = " ".join(plan_of(STORY, STORY + " Thanks.", **settings).warnings)
        except SplitError as error:
            said = str(error)
        assert "nearly repeats" in said
        assert "secret" not in said


def test_refused_they_are_an_error_that_says_what_to_do():
    with pytest.raises(SplitError) as caught:
        plan_of(STORY, STORY + " Thanks.", near_duplicates="refuse")
    assert caught.value.where == "splits.near_duplicates"
    assert "splits.near_duplicates: warn" in str(caught.value.fix)
    assert plan_of(STORY, "other", near_duplicates="refuse").marks is None


def test_without_a_holdout_asked_for_they_are_told_and_not_refused():
    plan = plan_of(STORY, STORY + " Thanks.", near_duplicates="refuse", allow_no_holdout=True)
    assert len(near_warnings(plan)) == 1


def test_ignored_they_are_not_looked_for():
    plan = plan_of(STORY, STORY + " Thanks.", near_duplicates="ignore")
    assert near_warnings(plan) == []
    assert plan.marks is None


def test_they_never_move_a_task():
    texts = [f"{STORY} Order number {i}." for i in range(40)]
    near_ones = [row(f"t{i:02}", text) for i, text in enumerate(texts)]
    others = [TaskRow(f"t{i:02}", f"c{i}") for i in range(40)]
    for handling in ("refuse", "group"):
        plan = make_splits(near_ones, SplitSettings(on_duplicate_content=handling))  # type: ignore[arg-type]
        bare = make_splits(others, SplitSettings())
        assert [ref.id for ref in plan.test] == [ref.id for ref in bare.test]
        assert len(near_warnings(plan)) == 3


def test_all_three_pairs_of_splits_are_looked_at_and_val_is_named():
    tasks = [
        row("a", STORY),
        row("b", STORY + " Thanks."),
        row("c", f"Now: {STORY}"),
        row("d", "other words"),
    ]
    plan = make_splits(tasks, SplitSettings(ids=PerSplit(("a",), ("b", "d"), ("c",))))
    said = near_warnings(plan)
    assert "'a' (train) and a test task (position 3), 0.9" in said[0]
    assert "'b' (val) and a test task (position 3), 0.9" in said[1]
    assert "1 of 2 val tasks nearly repeats the input of a train task" in said[2]
    assert "'a' (train) and 'b' (val), 0.9" in said[2]


def test_at_most_twenty_are_listed_and_the_rest_is_counted():
    tasks = [row(f"t{i:03}", f"{STORY} Order number {i}.") for i in range(400)]
    said = near_warnings(make_splits(tasks, SplitSettings()))
    listed = sum(len(re.findall(r"\d\.\d\d", warning)) for warning in said)
    assert 15 <= listed <= 20
    assert said[0].startswith("100 of 100 test tasks nearly repeat the input of a train task")
    assert said[0].endswith("and 94 more.")
    assert all(len(warning) < 1500 for warning in said)


def test_the_same_content_is_told_as_such_and_not_as_nearly_the_same():
    plan = plan_of(STORY, STORY.upper(), allow_no_holdout=True)
    assert near_warnings(plan) == []
    assert not plan.holdout


def test_a_long_input_counts_with_its_beginning_and_its_end():
    assert list_words("a b c d e f", 4) == ["a", "b", "e", "f"]
    assert list_words("a b c d", 4) == ["a", "b", "c", "d"]


def test_signs_count_and_punctuation_does_not():
    assert list_words("it's 7 + 2, \U0001f600 (x<=y) “ok”…", 99) == [
        "it",
        "s",
        "7",
        "+",
        "2",
        "\U0001f600",
        "x",
        "<",
        "=",
        "y",
        "ok",
    ]


def test_a_search_that_is_cut_short_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(near, "_COMPARED", 0)
    monkeypatch.setattr(near, "_COMPARED_EACH", 1)

    def words(letter: str, n: int) -> str:
        return " ".join(f"{letter}{i}" for i in range(n))

    # What the test task shares with thirty others is rare, and it is all they share.
    rare, most, other = words("a", 14), words("b", 90), words("c", 90)
    train = [row(f"t{i}", f"{rare} {other} d{i}") for i in range(30)]
    train += [row(f"u{i}", f"{most} e{i}") for i in range(40)] + [
        row(f"v{i}", other + f" f{i}") for i in range(9)
    ]
    parts = {"train": train, "val": [], "test": [row("s", f"{rare} {most}")]}
    found = find_near(parts)
    assert found is not None
    assert found.cut
    assert found.found == ()
    monkeypatch.undo()
    found = find_near(parts)
    assert found is not None
    assert not found.cut
    assert found.found == (("test", "train", 1),)


def test_a_search_cut_short_is_told_even_when_nothing_was_found():
    plan = make_splits([TaskRow(f"t{i}", f"c{i}") for i in range(8)], SplitSettings())
    told = add_near(plan, NearDuplicates(cut=True), SplitSettings(near_duplicates="refuse"))
    assert told.warnings[-1] == "The search for near duplicates was cut short: there may be more."


def test_twenty_thousand_templated_tasks_take_seconds():
    template = " ".join(f"word{i}" for i in range(95))
    tasks = [row(f"t{i}", f"{template} and the order number is {i}") for i in range(20_000)]
    started = time.process_time()
    plan = make_splits(tasks, SplitSettings())
    assert (
        time.process_time() - started < 30
    )  # 2 s where nothing else runs; comparing all pairs takes minutes
    assert len(near_warnings(plan)) == 3
