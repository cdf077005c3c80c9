"""The start of a run: frozen once, in one transaction, without a call of the target."""

from __future__ import annotations

import asyncio
import json

import pytest

from capevolve.candidates import load_candidate
from capevolve.errors import AdapterError, FencedError, SplitError, UserError
from capevolve.ledger import schema
from capevolve.ledger.events import read_events
from capevolve.ledger.leases import acquire_lease
from capevolve.ledger.runs import find_run, find_splits, read_sealed_split, read_split
from capevolve.start import start_run


class PowerCutError(Exception):
    """Raised by a hook in the place of a crash."""


def _start(project, run_id="r1"):
    with project.driven(run_id) as run:
        return asyncio.run(start_run(run))


def _ids(project, run_id="r1"):
    with project.driven(run_id) as run, run.ledger.read() as connection:
        return {
            "train": [t.ref.id for t in read_split(connection, run_id, "train")],
            "val": [t.ref.id for t in read_split(connection, run_id, "val")],
            "test": [t.ref.id for t in read_sealed_split(connection, run_id)],
        }


def test_a_start_lists_freezes_and_keeps_the_seed_without_calling_the_target(make_project):
    project = make_project()
    started = _start(project)
    assert project.calls() == []
    assert [started.splits.size(name) for name in ("train", "val", "test")] == [4, 4, 4]
    assert started.splits.holdout
    assert started.record.status == "running"
    assert dict(started.record.adapter_files).keys() == {"adapter.py"}
    with project.driven() as run, run.ledger.read() as connection:
        candidate = load_candidate(connection, started.record.seed_candidate)
        [event] = read_events(connection, "r1", "started")
    assert [file.path for file in candidate.files] == ["prompt.md"]
    assert event.payload["sizes"] == {"train": 4, "val": 4, "test": 4}
    ids = _ids(project)
    assert sorted(name for names in ids.values() for name in names) == [f"t{i:02d}" for i in range(12)]


def test_started_again_it_reads_what_was_frozen_even_when_everything_changed_meanwhile(make_project):
    project = make_project()
    first, ids = _start(project), _ids(project)
    project.write("seed/prompt.md", "other\n")
    project.write("adapter.py", "raise RuntimeError('gone')\n")
    again = _start(project)
    assert again.record.seed_candidate == first.record.seed_candidate
    assert again.splits == first.splits
    assert _ids(project) == ids


@pytest.mark.parametrize("name", ["start.listed", "start.inserted"])
def test_cut_before_the_commit_nothing_is_there_and_the_next_start_does_it_all(make_project, hook, name):
    project = make_project()

    def cut(reached):
        if reached == name:
            raise PowerCutError(name)

    hook(cut)
    with pytest.raises(PowerCutError):
        _start(project)
    hook(lambda reached: None)
    with project.driven() as run, run.ledger.read() as connection:
        assert find_run(connection, "r1") is None
        assert find_splits(connection, "r1") is None
        assert read_events(connection, "r1", "started") == ()
    assert _start(project).splits.size("test") == 4


def test_cut_after_the_commit_the_run_is_started(make_project, hook):
    project = make_project()

    def cut(reached):
        if reached == "start.frozen":
            raise PowerCutError(reached)

    hook(cut)
    with pytest.raises(PowerCutError):
        _start(project)
    hook(lambda reached: None)
    ids = _ids(project)
    _start(project)
    assert _ids(project) == ids


def test_a_run_taken_over_while_its_tasks_were_listed_freezes_nothing(make_project, hook):
    project = make_project()
    with project.driven() as run:

        def take_over(reached):
            if reached == "start.listed":
                with run.ledger.write() as connection:
                    connection.execute(schema.leases.update().values(heartbeat_at=0.0))
                    acquire_lease(connection, run.id, run.clock())

        hook(take_over)
        with pytest.raises(FencedError):
            asyncio.run(start_run(run))
        with run.ledger.read() as connection:
            assert find_run(connection, "r1") is None


@pytest.mark.both_ledgers
def test_started_twice_at_once_by_one_driver_it_is_frozen_once(make_project, backend):
    project = make_project()
    with project.driven() as run:

        async def go():
            return await asyncio.gather(start_run(run), start_run(run))

        one, two = asyncio.run(go())
        assert one == two
        with run.ledger.read() as connection:
            assert len(read_events(connection, "r1", "started")) == 1


def test_two_runs_of_one_project_split_alike_and_a_seed_splits_otherwise(make_project):
    project = make_project()
    _start(project, "r1")
    _start(project, "r2")
    assert _ids(project, "r1") == _ids(project, "r2")
    other = make_project(spec={"splits": {"counts": {"train": 4, "val": 4, "test": 4}, "seed": 1}})
    _start(other)
    assert _ids(other) != _ids(project)


def test_the_order_in_which_the_adapter_lists_its_tasks_means_nothing(make_project):
    one = make_project()
    source = (one.root / "adapter.py").read_text()
    two = make_project(source.replace("for i in range(N)]", "for i in reversed(range(N))]"))
    first, second = _start(one), _start(two)
    assert first.splits.digest == second.splits.digest
    assert _ids(one) == _ids(two)


def test_only_train_content_is_kept_and_unused_tasks_are_known_by_name_only(make_project):
    project = make_project(spec={"splits": {"counts": {"train": 2, "val": 2, "test": 2}}})
    started = _start(project)
    assert dict(started.splits.sizes) == {"train": 2, "val": 2, "test": 2, "unused": 6}
    with project.driven() as run, run.ledger.read() as connection:
        rows = connection.execute(schema.split_tasks.select()).all()
    assert {row.split for row in rows if row.content is not None} == {"train"}
    assert all(json.loads(row.content)["target"] == "MARK" for row in rows if row.content)
    _assert_same(project)


def _assert_same(project):
    """Looking again at what was started tells the same sizes as starting it did."""
    with project.driven() as run, run.ledger.read() as connection:
        splits = find_splits(connection, "r1")
    assert splits is not None
    assert dict(splits.sizes)["unused"] == 6


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda p: p.write("adapter.py", "import nonsense_that_is_not_there\n"), AdapterError, "nonsense"),
        (lambda p: p.write("adapter.py", "x = (\n"), AdapterError, "SyntaxError"),
        (lambda p: (p.root / "adapter.py").unlink(), UserError, r"adapter"),
        (
            lambda p: [f.unlink() for f in (p.root / "seed").iterdir()] and (p.root / "seed").rmdir(),
            UserError,
            "seed",
        ),
        (lambda p: (p.root / "seed" / "link").symlink_to("prompt.md"), UserError, "links"),
    ],
)
def test_what_cannot_be_started_leaves_no_run(make_project, change, error, words):
    project = make_project()
    change(project)
    with pytest.raises(error, match=words):
        _start(project)
    assert project.calls() == []


def test_too_few_tasks_are_refused_with_the_smallest_fix(make_project, monkeypatch):
    monkeypatch.setenv("N_TASKS", "11")
    with pytest.raises(SplitError, match="add 1 task"):
        _start(make_project())


def test_a_group_that_is_no_text_groups_by_its_value(make_project):
    source = (make_project().root / "adapter.py").read_text()
    grouped = source.replace('target="MARK")', 'target="MARK", metadata={"family": {"n": i // 3}})')
    spec = {"splits": {"ratios": {"train": 0.5, "val": 0.25, "test": 0.25}, "group_by": "family"}}
    project = make_project(grouped, spec)
    _start(project)
    families = [{int(name[1:]) // 3 for name in names} for names in _ids(project).values()]
    assert sum(len(found) for found in families) == 4
