import dataclasses
import random
from fractions import Fraction

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from capevolve.errors import SplitError
from capevolve.model import SPLITS
from capevolve.splits import PerSplit, SplitPlan, SplitSettings, TaskRow, check_task_ids, make_splits

# Printable text of any script: hostile characters have their own test below.
task_ids = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Mn", "Mc"), max_codepoint=0x1F9FF),
    min_size=1,
    max_size=8,
).filter(
    lambda text: (
        text.strip() and not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    )
)

# A busy machine is slow, and refused splits are skipped: neither is a fault of the code.
on_any_machine = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def usable(ids: list[str]) -> bool:
    try:
        check_task_ids(ids)
    except SplitError:
        return False
    return True


id_lists = st.lists(task_ids, min_size=6, max_size=40, unique=True).filter(usable)
seeds = st.integers(0, 2**31 - 1)


@st.composite
def task_rows(draw: st.DrawFn, contents: int = 10**6, groups: int = 0) -> list[TaskRow]:
    ids = draw(id_lists)
    content = st.integers(0, contents).map(lambda i: f"content {i}")
    group = st.none() | st.integers(0, groups).map(str) if groups else st.none()
    digests = draw(st.lists(content, min_size=len(ids), max_size=len(ids), unique=contents > 1000))
    return [TaskRow(name, digest, group=draw(group)) for name, digest in zip(ids, digests, strict=True)]


@st.composite
def ratios(draw: st.DrawFn) -> PerSplit[float]:
    train = draw(st.integers(1, 98))
    val = draw(st.integers(1, 99 - train))
    return PerSplit(train / 100, val / 100, (100 - train - val) / 100)


def parts(plan: SplitPlan) -> dict[str, set[str]]:
    return {split: {ref.id for ref in getattr(plan, split)} for split in SPLITS}


def split_or_skip(tasks: list[TaskRow], how: SplitSettings) -> SplitPlan:
    try:
        return make_splits(tasks, how)
    except SplitError:
        assume(False)
        raise


@on_any_machine
@given(task_rows(), seeds)
def test_splits_are_a_partition_of_the_tasks(tasks: list[TaskRow], seed: int):
    plan = make_splits(tasks, SplitSettings(seed=seed))
    listed = [ref for split in SPLITS for ref in getattr(plan, split)]
    assert sorted(ref.id for ref in listed) == sorted(task.id for task in tasks)
    assert {ref.id: ref.digest for ref in listed} == {task.id: task.digest for task in tasks}
    assert plan.unused == ()
    assert plan.holdout
    assert plan.val_holdout


@on_any_machine
@given(task_rows(groups=8), seeds, st.randoms(use_true_random=False))
def test_a_permutation_of_the_tasks_changes_nothing(tasks: list[TaskRow], seed: int, shuffler: random.Random):
    how = SplitSettings(seed=seed, on_duplicate_content="group")
    plan = split_or_skip(tasks, how)
    shuffled = list(tasks)
    shuffler.shuffle(shuffled)
    again = make_splits(shuffled, how)
    assert again == plan
    assert (again.digest, again.test_digest, again.test_ids_digest) == (
        plan.digest,
        plan.test_digest,
        plan.test_ids_digest,
    )


@on_any_machine
@given(task_rows(), seeds, ratios())
def test_sizes_are_within_one_of_the_ratios(tasks: list[TaskRow], seed: int, asked: PerSplit[float]):
    plan = split_or_skip(tasks, SplitSettings(seed=seed, ratios=asked))
    for split, ratio in asked.by_split().items():
        assert abs(len(getattr(plan, split)) - Fraction(str(ratio)) * len(tasks)) < 1


@on_any_machine
@given(task_rows(), seeds, st.data())
def test_counts_are_met_exactly(tasks: list[TaskRow], seed: int, data: st.DataObject):
    val = data.draw(st.integers(2, len(tasks) - 2))
    test = data.draw(st.integers(1, len(tasks) - val - 1))
    train = data.draw(st.integers(1, len(tasks) - val - test))
    plan = make_splits(tasks, SplitSettings(seed=seed, counts=PerSplit(train, val, test)))
    assert (len(plan.train), len(plan.val), len(plan.test)) == (train, val, test)
    assert len(plan.unused) == len(tasks) - train - val - test


@on_any_machine
@given(task_rows(groups=12), seeds)
def test_no_group_is_in_two_splits(tasks: list[TaskRow], seed: int):
    plan = split_or_skip(tasks, SplitSettings(seed=seed))
    homes: dict[str, set[str]] = {}
    group_of = {task.id: task.group for task in tasks}
    for split, names in parts(plan).items():
        for name in names:
            if group_of[name] is not None:
                homes.setdefault(group_of[name], set()).add(split)
    assert all(len(splits) == 1 for splits in homes.values())
    assert sum(len(names) for names in parts(plan).values()) == len(tasks)


@on_any_machine
@given(task_rows(contents=15, groups=12), seeds, st.sampled_from(["refuse", "group"]))
def test_no_content_is_in_two_splits(tasks: list[TaskRow], seed: int, on_duplicate: str):
    plan = split_or_skip(tasks, SplitSettings(seed=seed, on_duplicate_content=on_duplicate))
    contents = [{ref.digest for ref in getattr(plan, split)} for split in SPLITS]
    assert sum(map(len, contents)) == len(set().union(*contents))
    assert plan.holdout
    assert plan.val_holdout


@on_any_machine
@given(task_rows(), st.data())
def test_pinned_splits_say_truly_whether_they_overlap(tasks: list[TaskRow], data: st.DataObject):
    subsets = st.lists(st.sampled_from([task.id for task in tasks]), unique=True, min_size=2)
    pinned = PerSplit(*(tuple(data.draw(subsets)) for _ in SPLITS))
    plan = make_splits(tasks, SplitSettings(ids=pinned, allow_no_holdout=True))
    train, val, test = (set(part) for part in pinned.by_split().values())
    assert plan.holdout is (not test & (train | val))
    assert plan.val_holdout is (not val & train)
    assert {ref.id for ref in plan.unused} == {task.id for task in tasks} - train - val - test


@on_any_machine
@given(task_rows(), seeds)
def test_new_ids_keep_the_test_digest_of_the_same_content(tasks: list[TaskRow], seed: int):
    plan = make_splits(tasks, SplitSettings(seed=seed))
    pinned = PerSplit(*(tuple(ref.id for ref in getattr(plan, split)) for split in SPLITS))
    again = make_splits(tasks, SplitSettings(seed=seed, ids=pinned))
    renamed = make_splits(
        [dataclasses.replace(task, id=f"new {task.id}") for task in tasks],
        SplitSettings(
            ids=PerSplit(*(tuple(f"new {n}" for n in part) for part in pinned.by_split().values()))
        ),
    )
    assert again.test_digest == renamed.test_digest == plan.test_digest
    assert again.test_ids_digest == plan.test_ids_digest != renamed.test_ids_digest


@on_any_machine
@given(st.lists(st.text(st.characters(), max_size=4) | st.integers() | st.none(), max_size=30))
def test_any_ids_are_split_or_refused_in_printable_words(ids: list[object]):
    try:
        check_task_ids(ids)
    except SplitError as error:
        assert str(error).replace("\n", "").isprintable()
    else:
        assert len(set(ids)) == len(ids)
        assert all(isinstance(name, str) and name.encode("utf-8").strip() for name in ids)


@on_any_machine
@given(st.integers(0, 8), seeds, st.booleans(), st.sampled_from(["ratios", "counts"]), st.data())
def test_tiny_sets_are_refused_or_have_every_split(
    n: int, seed: int, allow_small: bool, method: str, data: st.DataObject
):
    tasks = [TaskRow(f"t{i}", f"c{i}") for i in range(n)]
    asked: dict[str, PerSplit[float]] = {"ratios": data.draw(ratios())}
    if method == "counts":
        asked = {"counts": PerSplit(*(data.draw(st.integers(0, 4)) for _ in SPLITS))}
    try:
        plan = make_splits(tasks, SplitSettings(seed=seed, allow_small=allow_small, **asked))
    except SplitError as error:
        assert error.fix
        assert error.where
        return
    assert plan.test
    assert len(plan.val) >= 2 or allow_small
    assert plan.train or method == "counts"
