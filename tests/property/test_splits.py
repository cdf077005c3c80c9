import dataclasses
import json
import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from capevolve.adapters.catalog import describe_task
from capevolve.adapters.records import ListedTask
from capevolve.errors import SplitError
from capevolve.model import SPLITS, Task
from capevolve.splits import PerSplit, SplitPlan, SplitSettings, TaskRow, check_task_ids, make_splits
from capevolve.splits.content import normalise_text, read_input
from capevolve.splits.near import find_near, list_words
from capevolve.splits.strata import share_out
from capevolve.start import describe_splits, list_rows, plan_splits, read_marks

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


# --- strata ---------------------------------------------------------------------------------------


@st.composite
def stratified_rows(draw: st.DrawFn, groups: int = 0) -> list[TaskRow]:
    names = draw(st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=6, unique=True))
    tasks = draw(task_rows(groups=groups))
    rows = [dataclasses.replace(task, stratum=draw(st.sampled_from(names))) for task in tasks]
    assume(any(row.stratum is not None for row in rows))
    return rows


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    sizes = draw(st.lists(st.integers(0, 12), max_size=8))
    cuts = sorted(draw(st.lists(st.integers(0, sum(sizes)), min_size=3, max_size=3)))
    ends = [0, *cuts, sum(sizes)]
    return sizes, [after - before for before, after in pairwise(ends)]


@on_any_machine
@given(tables())
def test_shares_add_up_both_ways_and_are_less_than_one_from_the_ideal(table: tuple[list[int], list[int]]):
    sizes, targets = table
    shares = share_out(sizes, targets)
    assert [sum(row) for row in shares] == sizes
    assert [sum(row[c] for row in shares) for c in range(4)] == targets
    for size, row in zip(sizes, shares, strict=True):
        assert all(
            abs(Fraction(size * t, sum(sizes) or 1) - x) < 1 for t, x in zip(targets, row, strict=True)
        )


@on_any_machine
@given(stratified_rows(), seeds, st.none() | ratios(), st.data())
def test_every_stratum_is_less_than_one_task_from_its_share_and_totals_are_exact(
    tasks: list[TaskRow], seed: int, asked: PerSplit[float] | None, data: st.DataObject
):
    how = SplitSettings(seed=seed, ratios=asked)
    if asked is None:
        val = data.draw(st.integers(2, len(tasks) - 2))
        test = data.draw(st.integers(1, len(tasks) - val - 1))
        counts = PerSplit(data.draw(st.integers(1, len(tasks) - val - test)), val, test)
        how = SplitSettings(seed=seed, counts=counts)
    plain = split_or_skip(tasks, how)
    plan = make_splits(tasks, dataclasses.replace(how, stratify_key="level"))
    strata = Counter(task.stratum for task in tasks)
    stratum = {task.id: task.stratum for task in tasks}
    for split, names in parts(plan).items():
        assert len(names) == len(parts(plain)[split])
        found = Counter(stratum[name] for name in names)
        for name, size in strata.items():
            assert abs(found[name] - Fraction(size * len(names), len(tasks))) < 1
    assert sorted(ref.id for _, ref in plan.places()) == sorted(stratum)


@on_any_machine
@given(stratified_rows(groups=12), seeds, st.randoms(use_true_random=False))
def test_strata_with_groups_tear_no_group_and_ignore_the_order(
    tasks: list[TaskRow], seed: int, shuffler: random.Random
):
    how = SplitSettings(seed=seed, stratify_key="level")
    plan = split_or_skip(tasks, how)
    group = {task.id: task.group for task in tasks if task.group is not None}
    homes = {(group[name], split) for split, names in parts(plan).items() for name in names & group.keys()}
    assert len(homes) == len({name for name, _ in homes})
    assert sorted(ref.id for _, ref in plan.places()) == sorted(task.id for task in tasks)
    shuffled = list(tasks)
    shuffler.shuffle(shuffled)
    assert make_splits(shuffled, how) == plan


# --- metadata, as adapters may write it -----------------------------------------------------------

hostile_values = st.sampled_from(
    [None, 1, "1", 1.0, True, "true", False, 0, "", " ", "null", [], [1, "a"], {}, {"a": None}, {"b": [1]},
     "\U0001f600", "x" * 300, "y\u0301", "ý", "a\nb", -1.5, 10**30, "t1"]
)  # fmt: skip


@st.composite
def listed_tasks(draw: st.DrawFn) -> list[ListedTask]:
    n = draw(st.integers(6, 24))
    inputs = (
        st.sampled_from(["Who?", "who? ", "a b c d e f g h i j", "A b c d e f g h i j k", None, 7])
        | st.integers()
    )
    tasks = []
    for i in range(n):
        metadata = {key: draw(hostile_values) for key in ("level", "family") if draw(st.booleans())}
        tasks.append(describe_task(Task(f"task-{i}-id", draw(inputs), i, metadata)))
    return tasks


split_settings = st.builds(
    SplitSettings,
    seed=seeds,
    group_key=st.none() | st.just("family"),
    stratify_key=st.none() | st.just("level"),
    allow_no_holdout=st.booleans(),
    allow_small=st.booleans(),
    on_duplicate_content=st.sampled_from(["refuse", "group"]),
    near_duplicates=st.sampled_from(["warn", "refuse", "ignore"]),
)


@on_any_machine
@given(listed_tasks(), split_settings)
def test_hostile_metadata_splits_or_is_refused_and_no_message_names_a_test_task(
    tasks: list[ListedTask], how: SplitSettings
):
    ignoring = dataclasses.replace(how, allow_no_holdout=True, near_duplicates="ignore")
    try:
        plan, said = plan_splits(tasks, how), ()
    except SplitError as error:
        said = (str(error),)
        try:
            plan = plan_splits(tasks, ignoring)  # the same draw, had it not been refused
        except SplitError:
            return  # nothing was drawn
    for message in (*said, *plan.warnings):
        assert not any(repr(ref.id) in message for ref in plan.test)
        assert message.replace("\n", "").isprintable()
    values = {task.id: task.metadata.get("family") for task in tasks}
    if how.group_key is not None:
        homes: dict[str, set[str]] = {}
        for split, names in parts(plan).items():
            for name in names:
                if values[name] is not None:
                    homes.setdefault(json.dumps(values[name], sort_keys=True), set()).add(split)
        assert all(len(home) == 1 for home in homes.values())


@on_any_machine
@given(listed_tasks(), split_settings)
def test_what_a_plan_rests_on_is_kept_and_read_back(tasks: list[ListedTask], how: SplitSettings):
    try:
        plan = plan_splits(tasks, how)
    except SplitError:
        assume(False)
        raise
    kept = describe_splits(plan, 0.0)
    assert ("marks" in json.loads(kept.payload)) is (plan.marks is not None)
    marks = read_marks(kept)
    assert plan.marks is None or marks == plan.marks
    rows = {row.id: row for row in list_rows(tasks, how.group_key, how.stratify_key)}
    for position, (_, ref) in enumerate(plan.places()):
        if marks.strata:
            place = marks.strata[position]
            assert rows[ref.id].stratum == (None if place is None else marks.stratum_names[place])
    for alike in marks.copies:
        assert len({rows[plan.places()[position][1].id].input_digest for position in alike}) == 1


# --- content --------------------------------------------------------------------------------------

texts = st.text(max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@on_any_machine
@given(st.lists(st.text(st.characters(max_codepoint=0x24F), min_size=1, max_size=5), min_size=1), st.data())
def test_white_space_and_case_never_tell_inputs_apart(words: list[str], data: st.DataObject):
    words = [word for word in words if word.split() == [word] and word.isascii()]
    spaces = st.text(st.sampled_from(" \t\n\u00a0\u2003\r"), min_size=1, max_size=3)
    turned = [word.swapcase() if data.draw(st.booleans()) else word for word in words]
    spaced = "".join(data.draw(spaces) + word for word in turned) + data.draw(spaces)
    assert read_input(spaced) == read_input(" ".join(words))


@on_any_machine
@given(texts)
def test_normalising_twice_is_normalising_once(text: str):
    assert normalise_text(normalise_text(text)) == normalise_text(text)


@on_any_machine
@given(json_values, json_values)
def test_inputs_are_the_same_when_they_are_and_only_then(one: object, other: object):
    def fold(value: object) -> str:
        if isinstance(value, str):
            return json.dumps(normalise_text(value))
        if isinstance(value, list):
            return f"[{','.join(map(fold, value))}]"
        if isinstance(value, dict):
            return f"{{{','.join(json.dumps(key) + ':' + fold(value[key]) for key in sorted(value))}}}"
        return json.dumps(value)

    if read_input(one).digest is not None and read_input(other).digest is not None:
        assert (read_input(one).digest == read_input(other).digest) is (fold(one) == fold(other))


@st.composite
def near_parts(draw: st.DrawFn) -> dict[str, list[TaskRow]]:
    words = st.sampled_from("abcdef")
    bases = draw(st.lists(st.lists(words, min_size=1, max_size=30), min_size=1, max_size=3))
    rows = []
    for i in range(draw(st.integers(0, 14))):
        text = list(draw(st.sampled_from(bases)))
        for _ in range(draw(st.integers(0, 2))):
            text.insert(draw(st.integers(0, len(text))), draw(words))
        content = read_input(" ".join(text))
        rows.append(TaskRow(f"t{i:02}", f"d{i}", input_digest=content.digest, text=content.text))
    a, b = sorted(draw(st.tuples(st.integers(0, len(rows)), st.integers(0, len(rows)))))
    return {"train": rows[:a], "val": rows[a:b], "test": rows[b:]}


@on_any_machine
@given(near_parts())
def test_near_duplicates_are_those_that_comparing_everything_finds(found_in: dict[str, list[TaskRow]]):
    def shingles(row: TaskRow) -> set[tuple[str, ...]]:
        words = list_words(row.text or "", 10**6)
        size = min(5, len(words))
        return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}

    def is_near(one: TaskRow, other: TaskRow) -> bool:
        both, either = shingles(one) & shingles(other), shingles(one) | shingles(other)
        return one.content != other.content and Fraction(len(both), len(either)) >= Fraction(4, 5)

    near = find_near(found_in)
    told = {} if near is None else {(split, other): n for split, other, n in near.found}
    for split, other in (("test", "train"), ("test", "val"), ("val", "train")):
        tasks = [one for one in found_in[split] if any(is_near(one, two) for two in found_in[other])]
        assert told.get((split, other), 0) == len(tasks)
