"""A bundle verifies without the ledger, has the same bytes again, and every edit of it is named."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import zipfile
from pathlib import Path

import pytest

from capevolve.errors import TamperError, UserError
from capevolve.ledger.schema import SCHEMA_VERSION
from capevolve.ledger.store import open_ledger
from capevolve.verify import bundle as bundles
from capevolve.verify import read_environment, verify_bundle, write_bundle


@pytest.fixture(scope="session")
def exported(templates, tmp_path_factory):
    """The bundle of the finished run, made once."""
    root = templates("finished", {}, {}, to_the_end=True)
    ledger = open_ledger(f"sqlite:///{root}/.capevolve/ledger.db", create=False)
    path = tmp_path_factory.mktemp("exported") / "run.zip"
    with ledger.read() as connection:
        write_bundle(connection, "r1", path, read_environment())
    ledger.close()
    return path


@pytest.fixture
def bundle(exported, tmp_path):
    return Path(shutil.copy(exported, tmp_path / "run.zip"))


def read(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write(path, members, *, manifest=True, seal=True):
    """Writes members as a bundle, as an editor would who knows how: manifest and last digest recomputed."""
    if manifest:
        content = json.loads(members["manifest.json"])
        content["members"] = {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            for name, data in members.items()
            if name != "manifest.json"
        }
        members["manifest.json"] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
        file.comment = b"\0" * bundles.SEAL_LENGTH
    if seal:
        body = path.read_bytes()[: -bundles.SEAL_LENGTH]
        path.write_bytes(body + f"sha256:{hashlib.sha256(body).hexdigest()}".encode())


def edit_rows(path, table, edit):
    members = read(path)
    name = f"tables/{table}.jsonl"
    rows = [json.loads(line) for line in members[name].splitlines()]
    kept = edit(rows)
    members[name] = b"".join(json.dumps(row).encode() + b"\n" for row in (rows if kept is None else kept))
    write(path, members)


def named(call, path, *words, code=3):
    said = call("verify", path)
    assert said.code == code, said
    assert "PASS" not in said.out
    missing = [word for word in words if word not in said.err]
    assert not missing, f"{missing} not named in:\n{said.err}"
    return said.err


# --- round trip -----------------------------------------------------------------------------------


def test_a_bundle_passes_where_there_is_no_project(bundle, finished, call, tmp_path, monkeypatch):
    expected = finished.said("verify").out.splitlines()
    shutil.rmtree(finished.root)
    monkeypatch.chdir(tmp_path)
    said = call("verify", bundle.name)
    assert said.code == 0, said
    first, checked, head = said.out.splitlines()
    assert first == f"PASS: bundle {bundle.name} is what its rows say."
    assert expected[1] == f"{checked}, 6 of its projections"
    assert head == expected[2]
    assert list(tmp_path.glob("*")) == [bundle]  # and nothing is left behind


def test_export_says_where_the_bundle_is_its_digest_and_what_is_in_it(finished, tmp_path):
    path = tmp_path / "out.zip"
    said = finished.said("export", "--bundle", path)
    assert said.code == 0, said
    assert said.out.split() == [str(path), f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"]
    assert "train tasks with their content" in said.err
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_same_rows_give_the_same_bytes(finished, tmp_path, monkeypatch):
    environment = read_environment()  # asked once: somebody may be committing to this very tree
    monkeypatch.setattr("capevolve.cli.verify.read_environment", lambda: environment)
    first, again = tmp_path / "first.zip", tmp_path / "again.zip"
    for path in (first, again, first):  # a bundle is replaced
        assert finished.said("export", "r1", "--bundle", path).code == 0
    assert again.read_bytes() == first.read_bytes()


def test_a_bundle_holds_rows_files_environment_and_a_manifest(bundle, finished):
    members = read(bundle)
    manifest = json.loads(members["manifest.json"])
    assert manifest["run"] == "r1"
    assert manifest["schema_version"] == SCHEMA_VERSION
    assert manifest["chain_head"] == finished.value("SELECT hash FROM seal_events WHERE seq = 2")
    assert set(manifest["members"]) == set(members) - {"manifest.json"}
    for name, member in manifest["members"].items():
        assert member == {"sha256": hashlib.sha256(members[name]).hexdigest(), "size": len(members[name])}
    tables = {name for name in members if name.startswith("tables/")}
    assert {name.removeprefix("tables/").removesuffix(".jsonl") for name in tables} == {
        "runs", "split_sets", "split_tasks", "candidates", "proposals", "attempts", "evaluations", "trials",
        "rollouts", "verdicts", "seal_events", "events",
    }  # fmt: skip
    assert members["tables/trials.jsonl"].count(b"\n") == finished.value("SELECT count(*) FROM trials")
    assert sorted(members.values()).count(b"45") == 1  # a candidate's file
    environment = json.loads(members["environment.json"])
    assert environment["capevolve_version"] == "0.1.0"
    assert "sqlalchemy" in {name.lower() for name, _ in environment["packages"]}
    assert environment["packages"] == sorted(environment["packages"])
    assert json.loads(members["adapter.json"])["files"].keys() == {"adapter.py"}
    assert json.loads(members["spec.json"])["name"] == "verified"
    with zipfile.ZipFile(bundle) as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        *names, last = file.namelist()
        assert names == sorted(names)
        assert last == "manifest.json"


def test_the_content_of_test_and_val_tasks_is_not_in_a_bundle(bundle):
    rows = [json.loads(line) for line in read(bundle)["tables/split_tasks.jsonl"].splitlines()]
    assert {row["split"] for row in rows if row["content"] is not None} == {"train"}


def test_a_bundle_before_the_result_is_refused_because_it_would_tell_the_test_ids(searched, tmp_path):
    said = searched.said("export", "--bundle", tmp_path / "x.zip")
    assert said.code == 3
    assert "capevolve finalize r1" in said.err
    assert not (tmp_path / "x.zip").exists()


def test_a_bundle_replaces_no_other_file(finished, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    said = finished.said("export", "--bundle", other)
    assert said.code == 2
    assert other.read_text() == "mine"
    assert finished.said("export", "--bundle", tmp_path / "no" / "such" / "folder.zip").code == 2
    assert finished.said("export", "--bundle", tmp_path).code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["finished", "notes.txt"]


def test_secrets_are_left_out_and_the_bundle_still_verifies(finished, call, tmp_path):
    secret = "sk-0123456789"
    proposer = {"kind": "command", "command": ["true"], "timeout_s": 600.0, "env": {"API_KEY": secret}}
    was = finished.value("SELECT spec FROM runs")
    finished.edit_json("runs", "spec", "1", lambda spec: spec.update(proposer=proposer))
    text = finished.value("SELECT spec FROM runs")
    finished.edit("UPDATE runs SET spec_digest = ?", f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")
    finished.edit(
        "INSERT INTO events (run_id, at, kind, payload) VALUES ('r1', 1.0, 'spec_changed', ?)",
        json.dumps({"was": was, "is": text}),
    )
    path = tmp_path / "secret.zip"
    assert finished.said("export", "--bundle", path).code == 0
    for name, data in read(path).items():
        assert secret.encode() not in data, name
        assert b"ledger.db" not in data, name
    assert json.loads(read(path)["spec.json"])["proposer"]["env"] == {"API_KEY": "(left out)"}
    said = call("verify", path)
    assert said.code == 0
    assert "not checked: Values of proposer.env were left out" in said.out


def test_looks_of_other_runs_are_counted_again_from_a_bundle(finished, call, tmp_path):
    """Another run looked at this test set first: without its attempt the count would be another one."""
    finished.drive("r2")
    path = tmp_path / "looks.zip"
    assert finished.said("export", "r2", "--bundle", path).code == 0
    rows = [json.loads(line) for line in read(path)["tables/attempts.jsonl"].splitlines()]
    assert [(row["run_id"], row["look"]) for row in rows] == [("r1", 1), ("r2", 2)]
    assert {json.loads(line)["id"] for line in read(path)["tables/runs.jsonl"].splitlines()} == {"r2"}
    assert call("verify", path).code == 0
    edit_rows(path, "attempts", lambda rows: rows[1:])
    named(call, path, "table attempts, run r2, attempt 1", "look, counted over all runs is 2, should be 1")


# --- damage and edits -----------------------------------------------------------------------------


def test_a_flipped_byte_anywhere_is_named(bundle):
    whole = bundle.read_bytes()
    draw = random.Random(7)
    places = {0, 1, len(whole) - 1, len(whole) // 2, *(draw.randrange(len(whole)) for _ in range(120))}
    ends = range(len(whole) - 400, len(whole), 9)  # the zip's own directory
    for place in sorted({*places, *ends}):
        edited = bytearray(whole)
        edited[place] ^= 1 << draw.randrange(8)
        bundle.write_bytes(edited)
        with pytest.raises(TamperError) as refusal:
            verify_bundle(bundle)
        assert str(bundle) in (refusal.value.where or "")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_truncated_bundle_is_named(bundle, call, share):
    whole = bundle.read_bytes()
    bundle.write_bytes(whole[: max(4, int(len(whole) * share))])
    named(call, bundle, "truncated", str(bundle))


def test_something_appended_is_named(bundle, call):
    bundle.write_bytes(bundle.read_bytes() + b"more")
    named(call, bundle, str(bundle))
    bundle.write_bytes(b"more" + bundle.read_bytes()[:-4])
    named(call, bundle, str(bundle))


def test_a_file_that_is_no_bundle_is_a_mistake_and_no_tampering(call, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    named(call, path, "not a bundle", code=2)
    path.write_bytes(b"")
    named(call, path, "not a bundle", code=2)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", "b")
    named(call, path, "manifest.json")


def test_a_missing_and_an_added_member_are_named(bundle, call):
    members = read(bundle)
    trials = members.pop("tables/trials.jsonl")
    write(bundle, members, manifest=False)
    named(call, bundle, "member tables/trials.jsonl", "is missing")
    members |= {"tables/trials.jsonl": trials, "tables/more.jsonl": b""}
    write(bundle, members, manifest=False)
    named(call, bundle, "member tables/more.jsonl")


def test_an_edited_member_is_named_with_both_digests(bundle, call):
    members = read(bundle)
    members["tables/trials.jsonl"] = members["tables/trials.jsonl"].replace(b'"seed":11', b'"seed":12')
    write(bundle, members, manifest=False)
    named(call, bundle, "member tables/trials.jsonl", "sha256 is", "should be")


def test_an_edited_row_is_named_although_the_manifest_was_made_to_match(bundle, call):
    def edit(rows):
        (row,) = [
            row for row in rows if (row["task_id"], row["trial"], row["evaluation_id"]) == ("t04", 0, 6)
        ]
        row["reward"] = 1.0

    edit_rows(bundle, "trials", edit)
    named(call, bundle, "table trials, evaluation 6, task 't04', trial 0", "no longer matches")


@pytest.mark.parametrize(
    ("table", "edit"),
    [
        ("trials", lambda rows: rows[0].pop("seed")),
        ("trials", lambda rows: rows[0].update(extra=1)),
        ("trials", lambda rows: rows.append(rows[0])),
        ("trials", lambda rows: rows[0].update(reward={"a": 1})),
        ("trials", lambda rows: rows[0].update(seed=2**70)),
        ("trials", lambda rows: rows[0].update(reward=5.0)),
        ("trials", lambda rows: rows[0].update(task_id=None)),
        ("runs", lambda rows: rows[0].update(id="r2")),
        ("split_tasks", lambda rows: rows[0].update(digest=7)),
        ("verdicts", lambda rows: rows[0].update(payload=3)),
        ("candidates", lambda rows: rows[0].update(manifest=None)),
    ],
)
def test_rows_of_another_shape_are_named_and_end_in_no_traceback(bundle, call, table, edit):
    def change(rows):
        edit(rows)

    edit_rows(bundle, table, change)
    said = named(call, bundle, table.split("_")[0] if table != "runs" else "")
    assert "Traceback" not in said


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\n", b'"row"\n'])
def test_a_member_that_is_not_json_lines_is_named(bundle, call, text):
    members = read(bundle)
    members["tables/verdicts.jsonl"] = text
    write(bundle, members)
    named(call, bundle, "member tables/verdicts.jsonl")


def test_an_edited_file_of_a_candidate_is_named(bundle, call):
    members = read(bundle)
    (name,) = [name for name, data in members.items() if data == b"45"]
    members[name] = b"46"
    write(bundle, members)
    named(call, bundle, "blobs, sha256:")


@pytest.mark.parametrize("name", ["spec.json", "adapter.json"])
def test_an_edited_copy_for_readers_is_named(bundle, call, name):
    members = read(bundle)
    members[name] = members[name].replace(b"a", b"b")
    write(bundle, members)
    named(call, bundle, f"member {name}")


@pytest.mark.parametrize(
    ("change", "code"),
    [({"run": "r2"}, 3), ({"chain_head": "sha256:0"}, 3), ({"format": "x"}, 3), ({"more": 1}, 3),
     ({"schema_version": 99}, 2), ({"format_version": 2}, 2)],
)  # fmt: skip
def test_an_edited_manifest_is_named_and_a_newer_one_is_left_to_newer_capevolves(bundle, call, change, code):
    members = read(bundle)
    members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), **change}).encode()
    write(bundle, members, manifest=False)
    named(call, bundle, bundle.name, code=code)


def test_a_spec_called_redacted_is_never_passed_over_in_silence(bundle, call):
    members = read(bundle)
    manifest = json.loads(members["manifest.json"])
    manifest["spec_redacted"] = True
    members["manifest.json"] = json.dumps(manifest).encode()
    write(bundle, members, manifest=False)
    said = call("verify", bundle)
    assert said.code == 0
    assert "not checked: Values of proposer.env" in said.out


def test_a_file_that_is_not_there_is_not_taken_for_a_run(call, tmp_path):
    named(call, tmp_path / "nothing.zip", "no such file", code=2)
    with pytest.raises(UserError, match="no such file"):
        verify_bundle(tmp_path / "nothing")


@pytest.mark.both_ledgers
def test_a_run_in_either_ledger_passes_and_so_does_its_bundle(
    make_project, complete, backend, call, tmp_path
):
    """The digests that were sealed on PostgreSQL are those of the rows in the bundle's SQLite."""
    project = make_project(spec={"evaluation": {"num_trials": 2, "concurrency": 2, "retries": 0}})
    complete(project)
    assert call("verify", "-p", project.root).code == 0
    path = tmp_path / f"{backend}.zip"
    assert call("export", "-p", project.root, "--bundle", path).code == 0
    said = call("verify", path)
    assert said.code == 0, said
    assert "not checked" not in said.out
