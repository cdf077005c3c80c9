"""Taking, keeping and giving back a run, and what a resumed one may change."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from capevolve.errors import FencedError, LeaseHeldError, LedgerError, SpecError, UserError
from capevolve.ledger import schema
from capevolve.ledger.events import read_events
from capevolve.ledger.leases import acquire_lease, check_lease, read_holder
from capevolve.ledger.runs import read_run
from capevolve.runs import (
    attach_run,
    check_run_id,
    drive_run,
    end_run,
    keep_lease,
    new_run_id,
    refuse_driven,
    release_run,
    run_folder,
    take_run,
)
from capevolve.spec import load_spec
from capevolve.spec.resume import CHANGEABLE, parse_spec, resume_spec, spec_json
from capevolve.start import start_run


@pytest.fixture
def project(make_project):
    made = make_project()
    with made.driven() as run:
        asyncio.run(start_run(run))
    return made


def _change(project, **changes):
    path = project.root / "capevolve.yaml"
    spec = json.loads(path.read_text())
    for key, value in changes.items():
        if isinstance(value, dict) and key != "proposer":
            spec[key] = {**spec.get(key, {}), **value}
        else:
            spec[key] = value
    path.write_text(json.dumps(spec))


def _events(project, kind):
    run = take_run(project.root, "r1")
    with run.ledger.read() as connection:
        events = read_events(connection, "r1", kind)
    release_run(run)
    return events


@pytest.mark.parametrize(
    "run_id",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "/etc",
        "a b",
        "a\n",
        "\na",
        "-rf",
        "_x",
        "x" * 101,
        "ü",
        "a\0b",
        "a*",
        "%2e",
    ],
)
def test_a_hostile_run_id_is_refused_before_anything_is_made(make_project, run_id):
    project = make_project()
    with pytest.raises(UserError, match="cannot name a run"):
        take_run(project.root, run_id)
    assert not (project.root / ".capevolve").exists()


@pytest.mark.parametrize("run_id", ["a", "A-1_b.c", "0", "x" * 100, "CON", "a..b"])
def test_a_plain_run_id_is_taken_as_it_is(run_id):
    assert check_run_id(run_id) == run_id


def test_a_new_run_id_is_readable_unique_and_fit():
    made = {new_run_id("My Prüf / project! " * 5, 1_700_000_000.0) for _ in range(20)}
    assert len(made) > 15
    for run_id in (*made, new_run_id("", 0.0), new_run_id("🎈", 0.0)):
        check_run_id(run_id)
    assert next(iter(made)).startswith("my-pr-f-project-my-pr-f-project-")
    assert "20231114-221320" in next(iter(made))


def test_a_taken_run_is_held_until_it_is_given_back(project):
    with project.driven() as run:
        with pytest.raises(LeaseHeldError, match="driven by PID"):
            take_run(project.root, "r1")
        with pytest.raises(LeaseHeldError):
            refuse_driven(run.loaded, "r1", time.time())
        refuse_driven(run.loaded, "r2", time.time())
        with project.driven("r2") as other:
            assert other.driver.epoch == 1
    with project.driven() as run:
        assert run.driver.epoch == 3


def test_a_run_is_given_back_however_the_body_ends(project):
    for error in (RuntimeError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), project.driven():
            raise error
    with project.driven() as run, run.ledger.read() as connection:
        assert read_events(connection, "r1", "takeover") == ()


def test_an_unknown_run_is_not_made_by_resuming_it(make_project):
    project = make_project()
    with pytest.raises(LedgerError, match="no ledger here"):
        take_run(project.root, "r1", create=False)
    release_run(take_run(project.root, "r1"))
    with pytest.raises(LedgerError, match="no run 'r2'"):
        take_run(project.root, "r2", create=False)
    run = take_run(project.root, "r2")
    assert run.driver.epoch == 1  # the refusal left no lease behind
    release_run(run)


def test_what_an_earlier_driver_left_in_the_work_folder_is_swept(project):
    left = run_folder(project.root, "r1") / "work" / "evaluation-1-1"
    left.mkdir(parents=True)
    kept = run_folder(project.root, "r1") / "final.json"
    kept.write_text("{}")
    with project.driven():
        assert not left.exists()
        assert kept.exists()


def test_a_resumed_run_says_so_and_a_new_one_does_not(project):
    assert _events(project, "spec_changed") == ()
    assert len(_events(project, "resumed")) == 2  # `_events` itself resumes


def test_limits_may_change_when_a_run_is_resumed_and_an_event_keeps_both_versions(project):
    _change(
        project,
        search={"max_iterations": 7},
        budget={"max_calls": 99},
        evaluation={"concurrency": 1, "timeout_s": 5.0, "deterministic": True},
        seal={"max_test_looks": 3, "interrupted": "missing"},
        proposer={"kind": "command", "command": "true"},
        name="other",
    )
    with project.driven() as run:
        spec = run.spec
        with run.ledger.read() as connection:
            stored = parse_spec(read_run(connection, "r1").spec)
    for seen in (spec, stored):
        assert (seen.search.max_iterations, seen.budget.max_calls, seen.name) == (7, 99, "other")
        assert (seen.evaluation.concurrency, seen.evaluation.timeout_s) == (1, 5.0)
        assert (seen.seal.max_test_looks, seen.seal.interrupted) == (3, "missing")
        assert seen.proposer is not None
        assert seen.proposer.kind == "command"
    [event] = _events(project, "spec_changed")
    assert json.loads(event.payload["was"])["search"]["max_iterations"] == 2
    assert json.loads(event.payload["is"])["search"]["max_iterations"] == 7


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"splits": {"seed": 1}}, "splits.seed was 0, is 1"),
        ({"splits": {"counts": {"train": 4, "val": 3, "test": 4}}}, "splits.counts.val was 4, is 3"),
        ({"evaluation": {"num_trials": 2}}, "evaluation.num_trials was 1, is 2"),
        ({"evaluation": {"base_seed": 5}}, "evaluation.base_seed was null, is 5"),
        ({"gate": {"k_se": 0.1}}, "gate.k_se was 1.0, is 0.1"),
        ({"gate": {"mode": "strict"}}, 'gate.mode was "paired", is "strict"'),
        ({"editable": ["*.md"]}, "editable"),
        ({"seed_candidate": "other"}, "seed_candidate"),
        ({"adapter": "other.py"}, "adapter"),
        ({"seal": {"num_trials": 3}}, "seal.num_trials"),
    ],
    ids=str,
)
def test_what_defines_a_number_may_not_change_and_is_named(project, changes, named):
    (project.root / "other").mkdir()
    project.write("other.py", (project.root / "adapter.py").read_text())
    _change(project, **changes)
    with pytest.raises(SpecError, match="differs from the one run r1 was started with") as caught:
        take_run(project.root, "r1")
    assert named in caught.value.what
    assert "new run" in (caught.value.fix or "")
    with project.driven("r2") as run:  # a new run takes it as it is, and the refusal left r1 free
        asyncio.run(start_run(run)) if "other" not in str(changes) else None


def test_a_refused_change_leaves_the_stored_spec_and_the_lease_alone(project):
    before = (project.root / "capevolve.yaml").read_text()
    _change(project, gate={"k_se": 0.0})
    with pytest.raises(SpecError):
        take_run(project.root, "r1")
    (project.root / "capevolve.yaml").write_text(before)
    with project.driven() as run, run.ledger.read() as connection:
        assert read_events(connection, "r1", "spec_changed") == ()
        assert run.driver.epoch == 2


def test_a_spec_stored_before_a_key_existed_is_resumed_with_its_default(make_project):
    spec = load_spec(make_project().root).spec
    stored = json.loads(spec_json(spec))
    del stored["gate"]["min_coverage"], stored["seal"], stored["editable"]
    del stored["evaluation"]["deterministic"]
    assert resume_spec("r1", json.dumps(stored), spec) == parse_spec(spec_json(spec))


def test_every_changeable_key_is_a_key_of_the_spec(make_project):
    values = load_spec(make_project().root).spec.model_dump()
    for path in CHANGEABLE:
        found = values
        for key in path.split("."):
            assert key in found
            found = found[key]


def test_the_stored_spec_holds_neither_the_ledgers_url_nor_the_proposers_environment(make_project):
    proposer = {"kind": "command", "command": "true", "env": {"API_KEY": "hunter2"}}
    project = make_project(spec={"proposer": proposer, "ledger": "sqlite:///hunter3.db"})
    with project.driven() as run:
        asyncio.run(start_run(run))
        assert run.spec.proposer.env == {"API_KEY": "hunter2"}
        attached = attach_run(run.ref)
        assert attached.spec.proposer.env == {"API_KEY": "hunter2"}
        attached.ledger.close()
        with run.ledger.read() as connection:
            text = read_run(connection, "r1").spec
    assert "hunter" not in text
    proposer["env"]["API_KEY"] = "hunter4"
    _change(project, proposer=proposer)
    with project.driven() as run:
        assert run.spec.proposer.env == {"API_KEY": "hunter4"}
        with run.ledger.read() as connection:
            assert read_events(connection, "r1", "spec_changed") == ()


def test_a_run_can_be_attached_by_its_reference_and_writes_under_the_same_lease(project):
    with project.driven() as run:
        again = attach_run(run.ref)
        assert (again.id, again.driver, again.deadline, again.root) == (
            run.id,
            run.driver,
            run.deadline,
            run.root,
        )
        with again.ledger.write() as connection:
            check_lease(connection, again.driver)
        again.ledger.close()


def test_an_attached_run_whose_driver_is_gone_is_refused_at_its_first_write(project):
    with project.driven() as run:
        ref = run.ref
    again = attach_run(ref)
    with pytest.raises(FencedError), again.ledger.write() as connection:
        check_lease(connection, again.driver)
    with pytest.raises(FencedError):
        end_run(again, "finished", None)
    again.ledger.close()


def test_attaching_makes_no_ledger(make_project):
    project = make_project()
    with project.driven() as run:
        ref = run.ref
    (project.root / ".capevolve" / "ledger.db").unlink()
    with pytest.raises(LedgerError, match="no ledger here"):
        attach_run(ref)


def test_heartbeats_are_written_while_a_run_is_kept(project):
    with project.driven() as run:
        beats = set()
        with keep_lease(run, interval_s=0.02) as lost:
            end = time.monotonic() + 5
            while len(beats) < 3 and time.monotonic() < end:
                with run.ledger.read() as connection:
                    beats.add(read_holder(connection, "r1").heartbeat_at)
                time.sleep(0.01)
        assert len(beats) >= 3
        assert not lost.is_set()


def test_a_lost_lease_is_noticed_and_not_taken_back(project):
    run = take_run(project.root, "r1")
    with keep_lease(run, interval_s=0.02) as lost:
        with run.ledger.write() as connection:
            connection.execute(schema.leases.update().values(heartbeat_at=0.0))
            other = acquire_lease(connection, "r1", time.time())
        assert lost.wait(5)
    release_run(run)
    ledger_run = take_run_of(project)
    with ledger_run.ledger.read() as connection:
        check_lease(connection, other)  # giving back what was lost left the other's lease alone
    ledger_run.ledger.close()


def take_run_of(project):
    """The project's ledger, without taking anything."""
    run = take_run(project.root, "someone-else")
    release_run(run)
    return attach_run(run.ref)


def test_a_ledger_that_is_busy_for_a_moment_does_not_cost_the_lease(project, monkeypatch):
    from capevolve import runs

    failures = []

    def fail_once(connection, driver, now):
        if not failures:
            failures.append(now)
            raise LedgerError("Another process holds the ledger's write lock.")
        plain(connection, driver, now)

    plain = runs.renew_lease
    monkeypatch.setattr(runs, "renew_lease", fail_once)
    with project.driven() as run:
        with run.ledger.read() as connection:
            before = read_holder(connection, "r1").heartbeat_at
        with keep_lease(run, interval_s=0.02) as lost:
            end = time.monotonic() + 5
            after = before
            while after == before and time.monotonic() < end:
                with run.ledger.read() as connection:
                    after = read_holder(connection, "r1").heartbeat_at
        assert failures and after > before
        assert not lost.is_set()


def test_minutes_become_a_deadline_of_this_driver(make_project):
    project = make_project(spec={"budget": {"max_minutes": 2.0}})
    run = take_run(project.root, "r1", clock=lambda: 1000.0)
    assert run.deadline == 1120.0
    assert run.ref.deadline == 1120.0
    release_run(run)
    project = make_project()
    run = take_run(project.root, "r1")
    assert run.deadline is None
    release_run(run)


def test_the_end_of_a_run_is_noted_and_a_finished_run_stays_finished_when_it_is_looked_at_again(project):
    with project.driven() as run:
        end_run(run, "stopped", "a cap")
    with project.driven() as run:
        with run.ledger.read() as connection:
            assert read_run(connection, "r1").status == "running"
        end_run(run, "finished", "stalled")
    with project.driven() as run, run.ledger.read() as connection:
        record = read_run(connection, "r1")
        assert (record.status, record.stop_reason) == ("finished", "stalled")
        assert [e.payload["reason"] for e in read_events(connection, "r1", "stopped")] == ["a cap"]


def test_a_project_in_a_folder_with_a_strange_name_works(make_project):
    project = make_project()
    strange = project.root.parent / "mein projekt ü%20 #1?"
    project.root.rename(strange)
    with drive_run(strange, "r1") as run:
        asyncio.run(start_run(run))
        assert (strange / ".capevolve" / "ledger.db").exists()
