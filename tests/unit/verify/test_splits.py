"""Splits that rest on more than ids: strata, copies and near duplicates are verified from what is frozen."""

from __future__ import annotations

import json

import pytest

from capevolve.canonical import canonical_json, digest_bytes

ADAPTER = """
import hashlib
from capevolve import Adapter as Base, Rollout, Score, Task

STORY = " ".join(f"word{i}" for i in range(40))

class Adapter(Base):
    def tasks(self, split):
        return [
            Task(id=f"t{i:02d}", input=f"{STORY} {i // 2 if i < 4 else i}" + " " * (i % 2), target=i,
                 metadata={"level": ["easy", 1, None][i % 3], "kind": None if i < 3 else f"k{i}"})
            for i in range(24)
        ]

    def run_target(self, task, ctx, *, seed):
        return Rollout(task_id=task.id, output=int((ctx / "prompt.md").read_text()))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=rollout.output / 100)
"""
SPEC = {
    "splits": {
        "counts": {"train": 10, "val": 6, "test": 6},
        "group_key": "kind",
        "stratify_key": "level",
        "on_duplicate_content": "group",
        "seed": 3,
    },
    "search": {"max_iterations": 1},
}


@pytest.fixture
def marked(copy_of):
    """A finished run with strata, copies, near duplicates and ungrouped tasks."""
    return copy_of("marked", SPEC, {"adapter.py": ADAPTER})


@pytest.fixture
def sealed(copy_of):
    """The same, its test split still sealed."""
    return copy_of("marked-sealed", SPEC, {"adapter.py": ADAPTER}, to_the_end=False)


def payload(run):
    return json.loads(run.value("SELECT payload FROM split_sets"))


def test_it_is_drawn_again_from_what_is_frozen(marked, sealed):
    kept = payload(marked)
    assert set(kept["marks"]) == {"stratum_names", "strata", "copies", "near"}
    assert kept["marks"]["stratum_names"] == ["1", "easy"]
    assert len(kept["marks"]["copies"]) == 2
    assert sum("nearly repeat" in warning for warning in kept["warnings"]) == 3
    assert sum("without 'kind'" in warning for warning in kept["warnings"]) == 1
    assert marked.verify().committed
    assert not sealed.verify().committed


@pytest.mark.parametrize(
    "edit",
    [
        lambda kept: kept["marks"]["strata"].__setitem__(-1, 1 - (kept["marks"]["strata"][-1] or 0)),
        lambda kept: kept["marks"]["stratum_names"].__setitem__(0, "2"),
        lambda kept: kept["marks"].pop("strata"),
        lambda kept: kept["marks"].pop("copies"),
        lambda kept: kept["marks"]["copies"].append([0, 1]),
        lambda kept: kept["marks"].pop("near"),
        lambda kept: kept["marks"]["near"]["pairs"].pop(),
        lambda kept: kept["marks"]["near"]["found"][0].__setitem__(2, 1),
        lambda kept: kept["marks"]["near"].__setitem__("cut", True),
        lambda kept: kept["marks"].__setitem__("more", 1),
        lambda kept: kept.pop("marks"),
        lambda kept: kept["warnings"].pop(),
        lambda kept: kept["warnings"].append("All is well."),
    ],
)
@pytest.mark.parametrize("state", ["marked", "sealed"])
def test_an_edited_mark_or_warning_is_named(request, state, edit):
    run = request.getfixturevalue(state)
    run.edit_json("split_sets", "payload", "run_id = 'r1'", edit)
    said = run.refused("table split_")
    if state == "sealed":
        assert not any(
            name in said for (name,) in run.rows("SELECT task_id FROM split_tasks WHERE split = 'test'")
        )


@pytest.mark.parametrize(
    "marks",
    [
        {"strata": [0] * 99},
        {"strata": [7] * 24, "stratum_names": ["easy"]},
        {"strata": ["easy"] * 24},
        {"copies": [["a"]]},
        {"copies": 3},
        {"near": {"pairs": [{"first": 99, "second": 100, "similarity": 1}], "found": [["test", "train", 1]]}},
        {"near": {"pairs": [[0, 1, 0.9]], "found": []}},
        [],
        "all",
    ],
)
def test_marks_that_cannot_be_read_end_in_no_traceback(sealed, marks):
    sealed.edit_json("split_sets", "payload", "run_id = 'r1'", lambda kept: kept.__setitem__("marks", marks))
    sealed.refused("table split_")


def test_a_train_task_that_is_called_a_copy_of_another_is_compared_with_it(copy_of):
    ids = {"train": ["t00", "t01", "t05", "t06"], "val": ["t08", "t09"], "test": ["t10", "t11"]}
    adapter = ADAPTER.replace("{STORY} ", "Number ")
    run = copy_of("copies", {"splits": {"ids": ids}, "search": {"max_iterations": 1}}, {"adapter.py": adapter},
                  to_the_end=False)  # fmt: skip
    assert payload(run)["marks"]["copies"] == [[0, 1], [8, 9]]
    run.verify()

    def edit(kept):
        """As thorough as it gets: the warning that follows from the mark is edited too."""
        kept["marks"]["copies"][0] = [0, 1, 2]
        kept["warnings"] = [
            w.replace("train has 1 task with", "train has 2 tasks with") for w in kept["warnings"]
        ]

    run.edit_json("split_sets", "payload", "run_id = 'r1'", edit)
    run.refused("table split_tasks, run r1, position 2", "input, which marks call a copy")


def test_an_edited_stratum_of_a_train_task_is_told_from_its_content(sealed):
    (position,) = sealed.rows("SELECT position FROM split_tasks WHERE split = 'train'")[0]

    def edit(kept):
        # Renamed everywhere, so that the draw is the same and only the content knows better.
        kept["marks"]["stratum_names"] = ["1", "hard"]

    sealed.edit_json("split_sets", "payload", "run_id = 'r1'", edit)
    sealed.refused("table split_tasks, run r1, position", "stratum is")
    assert position == 0


def as_before(run):
    """Stores the spec as capevolve 0.1 did."""
    spec = json.loads(run.value("SELECT spec FROM runs"))
    spec["splits"]["group_by"] = spec["splits"].pop("group_key")
    del spec["splits"]["stratify_key"], spec["splits"]["near_duplicates"]
    text = canonical_json(spec)
    run.edit("UPDATE runs SET spec = ?, spec_digest = ?", text, digest_bytes(text.encode()))


def test_a_run_split_under_the_old_name_of_the_key_passes(finished, searched):
    for run in (finished, searched):
        as_before(run)
        assert "group_by" in run.value("SELECT spec FROM runs")
        assert "marks" not in payload(run)
        run.verify()


def test_a_warning_that_named_ungrouped_tasks_of_test_passes_in_its_old_words_only(copy_of):
    adapter = ADAPTER.replace('f"{STORY} {i // 2 if i < 4 else i}" + " " * (i % 2)', "i")
    splits = {"counts": {"train": 10, "val": 6, "test": 8}, "group_by": "kind"}
    spec = {"splits": splits, "search": {"max_iterations": 1}}
    run = copy_of("ungrouped", spec, {"adapter.py": adapter.replace("i < 3", "i % 2")}, to_the_end=False)
    as_before(run)
    now = payload(run)["warnings"][0]
    names = [f"t{i:02d}" for i in range(1, 10, 2)]
    old = f"12 tasks without 'kind' in the metadata, each a group of its own: {', '.join(map(repr, names))} and 7 more."
    assert now != old
    run.edit_json("split_sets", "payload", "run_id = 'r1'", lambda kept: kept["warnings"].__setitem__(0, old))
    run.verify()
    wrong = old.replace("'t03'", "'t05'")
    run.edit_json(
        "split_sets", "payload", "run_id = 'r1'", lambda kept: kept["warnings"].__setitem__(0, wrong)
    )
    run.refused("table split_sets", "payload: warnings.0")
