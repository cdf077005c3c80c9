"""A run with long traces: its payloads are blobs; every edit of one is named, and a bundle carries them."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib

import pytest

from capevolve.ledger.payloads import INLINE_LENGTH
from capevolve.verify.bundle import SEAL_LENGTH

ADAPTER = """
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i, metadata={"kind": f"k{i}"}) for i in range(13)]

    def run_target(self, task, ctx, *, seed):
        trace = [f"step {k} of {task.id}, seed {seed}" for k in range(400)]
        return Rollout(task_id=task.id, output=int((ctx / "prompt.md").read_text()), trace=trace)

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=rollout.output / 100)
"""


@pytest.fixture
def traced(copy_of):
    return copy_of("traced", {"search": {"max_iterations": 1}}, {"adapter.py": ADAPTER})


def find_blob(copy, split="test"):
    """The digest and the text of a payload of a split."""
    name, data = copy.rows(
        "SELECT b.digest, b.data FROM rollouts r JOIN blobs b ON b.digest = r.payload_digest "
        "JOIN evaluations e ON e.id = r.evaluation_id WHERE e.split = ? ORDER BY r.task_id LIMIT 1",
        split,
    )[0]
    return name, zlib.decompress(data).decode()


def test_long_traces_are_blobs_and_the_run_verifies(traced):
    assert traced.value("SELECT count(*) FROM rollouts WHERE payload_digest IS NULL") == 0
    assert traced.value("SELECT max(length(payload)) FROM rollouts") == 0
    assert len(find_blob(traced)[1]) > INLINE_LENGTH
    assert traced.verify().committed


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_an_edited_trace_is_named_by_its_digest(traced, split):
    name, payload = find_blob(traced, split)
    edited = payload.replace("step 7", "step 8").encode()
    traced.edit("UPDATE blobs SET data = ? WHERE digest = ?", zlib.compress(edited), name)
    traced.refused("table blobs", name, "not what its digest says")


def test_a_trace_stored_anew_under_its_own_digest_is_named_by_its_row(traced):
    """The editor who knows how: another blob, and the row that names it."""
    _, payload = find_blob(traced)
    edited = payload.replace("step 7", "step 8").encode()

    name = f"sha256:{hashlib.sha256(edited).hexdigest()}"
    traced.edit("INSERT INTO blobs VALUES (?, ?, 'zlib')", name, zlib.compress(edited))
    evaluation, task = traced.test_trial()
    traced.edit(
        "UPDATE rollouts SET payload_digest = ? WHERE evaluation_id = ? AND task_id = ? AND trial = 0",
        name, evaluation, task,
    )  # fmt: skip
    traced.refused("no longer matches the digest sealed", "or its row in rollouts", task)


def test_a_missing_trace_and_one_beside_a_text_are_named(traced):
    name, _ = find_blob(traced)
    traced.edit("UPDATE rollouts SET payload = '{}' WHERE payload_digest = ?", name)
    traced.refused("table rollouts", "missing or empty")
    traced.edit("UPDATE rollouts SET payload = '' WHERE payload_digest = ?", name)
    traced.edit("DELETE FROM blobs WHERE digest = ?", name)
    traced.refused("table blobs", name, "is missing")


def test_a_trace_moved_into_its_row_is_the_same_trace(traced):
    """As a ledger of version 1 would hold it: nothing was edited."""
    name, payload = find_blob(traced)
    traced.edit(
        "UPDATE rollouts SET payload = ?, payload_digest = NULL WHERE payload_digest = ?", payload, name
    )
    assert traced.verify().committed


def test_a_bundle_carries_the_traces_and_verifies_alone(traced, tmp_path):
    path = tmp_path / "run.zip"
    assert traced.said("export", "r1", "--bundle", path).code == 0
    _, payload = find_blob(traced)
    with zipfile.ZipFile(path) as file:
        rows = [json.loads(line) for line in file.read("tables/rollouts.jsonl").splitlines()]
    assert payload in {row["payload"] for row in rows}
    assert all("payload_digest" not in row for row in rows)
    assert traced.call("verify", path).out.startswith("PASS")


def test_a_bundle_of_a_ledger_of_version_1_is_read_by_this_one(traced, tmp_path):
    path = tmp_path / "run.zip"
    assert traced.said("export", "r1", "--bundle", path).code == 0
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(members["manifest.json"])
    members["manifest.json"] = json.dumps({**manifest, "schema_version": 1}).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
        file.comment = b"\0" * SEAL_LENGTH
    body = path.read_bytes()[:-SEAL_LENGTH]
    path.write_bytes(body + f"sha256:{hashlib.sha256(body).hexdigest()}".encode())
    assert traced.call("verify", path).out.startswith("PASS")


def test_no_bundle_is_made_of_an_edited_trace(traced, tmp_path):
    name, _ = find_blob(traced)
    traced.edit("UPDATE blobs SET data = ? WHERE digest = ?", zlib.compress(b"{}"), name)
    said = traced.said("export", "r1", "--bundle", tmp_path / "run.zip")
    assert (said.code, name in said.err) == (3, True)
    assert not (tmp_path / "run.zip").exists()


def test_exported_files_hold_the_whole_trace(traced):
    assert traced.said("export", "r1").code == 0
    files = sorted((traced.folder / "rollouts").rglob("*.json"))
    assert len(files) == traced.value("SELECT count(*) FROM rollouts")
    assert all(len(json.loads(file.read_text())["rollout"]["trace"]) == 400 for file in files)
