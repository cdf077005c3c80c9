"""A run in mode confirm verifies as it was written, and every edit of what its verdicts rest on is named."""

from __future__ import annotations

import json

import pytest

from capevolve.canonical import digest, digest_bytes
from capevolve.gate.confirm.seeds import fresh_seed
from capevolve.ledger.evaluations import EvaluationKey

ADAPTER = """
import hashlib
from capevolve import Adapter as Base, Rollout, Score, Task

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{i:02d}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        draw = int(hashlib.sha256(f"{task.id} {seed}".encode()).hexdigest(), 16) % 100
        return Rollout(task_id=task.id, output=draw < 30 + int((ctx / "prompt.md").read_text()))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""
EDITS = [
    {"summary": "lost at the race", "edits": {"prompt.md": "-25"}},
    {"summary": "not confirmed", "edits": {"prompt.md": "20"}},
    {"summary": "confirmed in its second look", "edits": {"prompt.md": "60"}},
    {"summary": "not confirmed against that", "edits": {"prompt.md": "58"}},
]
LOST, FAILED, WON, AFTER = 1, 2, 3, 4
BASE_SEED = 59  # with which the four edits fare as they are called
IDS = {"train": ["t08"], "val": [f"t{i:02d}" for i in range(8)], "test": ["t09", "t10", "t11"]}
KNOBS = {
    "alpha_run": 0.4,
    "max_failed_confirmations": 3,
    "screen_p": 1.0,
    "race_kill_p": 0.9,
    "look_futility": [0.95, 0.95],
    "peek_frac": 1.0,
}
SPEC = {
    "splits": {"ids": IDS, "allow_small": True},
    "adapter": "confirming.py",
    "evaluation": {"num_trials": 1, "concurrency": 1, "timeout_s": 20, "retries": 0, "base_seed": BASE_SEED},
    "gate": {"confirm": KNOBS},
    "proposer": {"kind": "script", "file": "confirming.yaml"},
    "search": {"max_iterations": 4},
}
FILES = {"confirming.py": ADAPTER, "confirming.yaml": json.dumps(EDITS)}


@pytest.fixture
def confirmed(copy_of):
    """A finished run: lost at the race, not confirmed in slot 1, confirmed in slot 2, not confirmed in it."""
    return copy_of("confirmed", SPEC, FILES)


@pytest.fixture
def unsealed(confirmed):
    """The same without the digests that were sealed with the result, which would name any edited row."""
    confirmed.relink(lambda payload: payload.pop("evidence"))
    assert confirmed.verify().committed
    return confirmed


@pytest.fixture
def peeked(copy_of):
    """A finished run with the same edits whose first looks begin with a peek."""
    knobs = {**KNOBS, "peek_frac": 0.5, "peek_p": 1.0}
    return copy_of("peeked", {**SPEC, "gate": {"confirm": knobs}}, FILES)


def verdict_of(run, iteration: int) -> dict:
    return json.loads(run.value("SELECT payload FROM verdicts WHERE iteration = ?", iteration))


def find(run, stage: str, arm: str, iteration: int) -> int:
    """The evaluation of one arm of a stage of an iteration."""
    subject = run.value("SELECT candidate_id FROM verdicts WHERE iteration = ?", iteration)
    return run.value("SELECT id FROM evaluations WHERE tag = ?", f"{stage}/{arm}/{subject}")


def forge_verdict(run, iteration: int, edit) -> None:
    run.edit_json("verdicts", "payload", f"iteration = {iteration}", edit)


def forge_key(run, evaluation: int, **changes) -> None:
    """Edits what an evaluation is, and its digest with it."""
    columns = "run_id, candidate_id, split, num_trials, base_seed, tag, subset"
    (row,) = run.rows(f"SELECT {columns} FROM evaluations WHERE id = ?", evaluation)
    values = dict(zip(columns.split(", "), row, strict=True)) | changes
    subset = None if values["subset"] is None else tuple(json.loads(values["subset"]))
    key = EvaluationKey(**{**values, "subset": subset})
    for column, value in {**changes, "digest": key.digest}.items():
        run.edit(f"UPDATE evaluations SET {column} = ? WHERE id = ?", value, evaluation)


def flip(run, evaluation: int) -> str:
    """Turns a pass of an evaluation into a failure or the other way round; returns how its row is called."""
    (row,) = run.rows(
        "SELECT task_id, trial FROM trials WHERE evaluation_id = ? ORDER BY reward, task_id LIMIT 1",
        evaluation,
    )
    where = "evaluation_id = ? AND task_id = ? AND trial = ?"
    run.edit(f"UPDATE trials SET reward = 1.0 - reward WHERE {where}", evaluation, *row)
    return f"table trials, evaluation {evaluation}, task '{row[0]}', trial {row[1]}"


# --- as it was written ----------------------------------------------------------------------------


def test_the_run_is_what_the_tests_below_say_it_is(confirmed):
    verdicts = {number: verdict_of(confirmed, number) for number in (LOST, FAILED, WON, AFTER)}
    stages = {number: [stage["stage"] for stage in v["stages"]] for number, v in verdicts.items()}
    assert stages == {
        LOST: ["race"],
        FAILED: ["race", "screen", "look-1"],
        WON: ["race", "screen", "look-1", "look-2"],
        AFTER: ["race", "screen", "look-1"],
    }
    assert [v["decision"] for v in verdicts.values()] == ["reject", "reject", "accept", "reject"]
    assert [v["stages"][-1]["slot"] for v in verdicts.values()] == [None, 1, 2, 2]


def test_a_run_passes_and_so_does_its_bundle(confirmed, call, tmp_path):
    said = confirmed.said("verify")
    assert said.code == 0, said
    assert "4 verdicts (1 accepted), the numbers of 1 result" in said.out
    path = tmp_path / "confirmed.zip"
    assert confirmed.said("export", "--bundle", path).code == 0
    said = call("verify", path)
    assert said.code == 0, said
    assert "4 verdicts (1 accepted), the numbers of 1 result" in said.out


@pytest.mark.both_ledgers
def test_a_run_in_either_ledger_passes_and_so_does_its_bundle(
    make_project, complete, backend, call, tmp_path
):
    project = make_project(spec={"gate": "confirm", "evaluation": {"concurrency": 1, "retries": 0}})
    complete(project)
    said = call("verify", "-p", project.root)
    assert said.code == 0, said
    assert "2 verdicts (1 accepted), the numbers of 1 result" in said.out
    path = tmp_path / f"{backend}.zip"
    assert call("export", "-p", project.root, "--bundle", path).code == 0
    assert call("verify", path).code == 0


def test_a_run_that_is_not_finalized_passes_as_far_as_it_went(confirmed):
    """Taken back to where the search was over: what is sealed is not there yet."""
    for statement in (
        "DELETE FROM seal_events",
        "DELETE FROM trials WHERE evaluation_id IN (SELECT id FROM evaluations WHERE split = 'test')",
        "DELETE FROM rollouts WHERE evaluation_id IN (SELECT id FROM evaluations WHERE split = 'test')",
        "DELETE FROM evaluations WHERE split = 'test'",
        "DELETE FROM attempts",
    ):
        confirmed.edit(statement)
    verified = confirmed.verify()
    assert not verified.committed
    assert "4 verdicts (1 accepted)" in verified.checked


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    ("stage", "arm"), [("peek", "candidate"), ("peek", "incumbent"), ("look-1", "candidate")]
)
def test_a_run_with_peeks_passes_and_an_edited_reward_of_one_is_named(peeked, stage, arm, sealed):
    if not sealed:
        peeked.relink(lambda payload: payload.pop("evidence"))
    assert peeked.verify().committed
    stages = verdict_of(peeked, FAILED)["stages"]
    assert [found["stage"] for found in stages][:4] == ["race", "screen", "peek", "look-1"]
    flip(peeked, find(peeked, stage, arm, FAILED))
    peeked.refused("no longer matches the digest" if sealed else "table ")


def test_a_run_of_before_there_were_peeks_passes_as_it_was_judged(confirmed):
    """Its spec and its verdicts know nothing of a peek, which is on by default now."""
    confirmed.relink(lambda payload: payload.pop("evidence"))

    def forget(values: dict) -> None:
        knobs = values["confirm"] if "confirm" in values else values["gate"]["confirm"]
        for key in ("peek_frac", "peek_p"):
            knobs.pop(key, None)

    for iteration in (LOST, FAILED, WON, AFTER):
        confirmed.edit_json(
            "verdicts", "settings", f"iteration = {iteration}", lambda v: (forget(v), v.update(edition=2))
        )
    confirmed.edit_json("runs", "spec", "id = 'r1'", forget)
    spec = confirmed.value("SELECT spec FROM runs")
    confirmed.edit("UPDATE runs SET spec_digest = ?", digest_bytes(spec.encode()))
    assert confirmed.verify().committed


# --- trials ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "arm", "iteration"),
    [("race", "candidate", LOST), ("look-1", "candidate", WON), ("look-2", "incumbent", WON)],
)
def test_an_edited_reward_is_named(confirmed, stage, arm, iteration):
    confirmed.refused(flip(confirmed, find(confirmed, stage, arm, iteration)), "no longer matches the digest")


@pytest.mark.parametrize(
    ("stage", "arm", "iteration"),
    [
        ("race", "candidate", LOST),
        ("screen", "candidate", FAILED),
        ("look-1", "candidate", FAILED),
        ("look-1", "incumbent", FAILED),
        ("look-1", "incumbent", WON),
        ("look-2", "candidate", WON),
        ("look-1", "candidate", AFTER),
    ],
)
def test_without_sealed_digests_an_edited_reward_is_caught_by_the_verdict_that_rests_on_it(
    unsealed, stage, arm, iteration
):
    flip(unsealed, find(unsealed, stage, arm, iteration))
    candidate = unsealed.value("SELECT candidate_id FROM verdicts WHERE iteration = ?", iteration)
    said = unsealed.refused("table ")
    # Another p-value, or one with which the candidate should have gone on to a stage that is not there.
    assert (f"table verdicts, run r1, iteration {iteration}" in said and "payload: " in said) or (
        f"candidate {candidate}" in said and "evaluation is missing" in said
    )


def test_a_reward_of_the_baseline_is_caught_by_a_verdict_that_was_compared_with_it(unsealed):
    flip(unsealed, unsealed.value("SELECT id FROM evaluations WHERE split = 'val' AND tag = ''"))
    unsealed.refused("table verdicts, run r1, iteration ", "payload: ")


def test_the_deleted_baseline_is_named_as_the_incumbents(unsealed):
    baseline = unsealed.value("SELECT id FROM evaluations WHERE split = 'val' AND tag = ''")
    for table, column in (("trials", "evaluation_id"), ("rollouts", "evaluation_id"), ("evaluations", "id")):
        unsealed.edit(f"DELETE FROM {table} WHERE {column} = ?", baseline)
    seed = unsealed.value("SELECT seed_candidate FROM runs")
    unsealed.refused("table evaluations, run r1, split val", seed, "its full val evaluation is missing")


@pytest.mark.parametrize("arm", ["candidate", "incumbent"])
def test_a_deleted_trial_of_a_look_is_named(confirmed, arm):
    evaluation = find(confirmed, "look-1", arm, WON)
    confirmed.edit("DELETE FROM trials WHERE evaluation_id = ? AND task_id = 't03'", evaluation)
    confirmed.refused(f"table trials, evaluation {evaluation}, task 't03', trial 0", "is missing")


@pytest.mark.parametrize("arm", ["candidate", "incumbent"])
def test_a_look_that_was_called_unfinished_is_missing(unsealed, arm):
    evaluation = find(unsealed, "look-1", arm, WON)
    unsealed.edit("UPDATE evaluations SET finished_at = NULL WHERE id = ?", evaluation)
    unsealed.refused("table evaluations, run r1, split val", "look-1 evaluation is missing or not finished")


@pytest.mark.parametrize(
    ("stage", "arm", "iteration", "named"),
    [
        ("race", "candidate", LOST, "its race evaluation"),
        ("screen", "candidate", WON, "its screen evaluation"),
        ("look-2", "candidate", WON, "its look-2 evaluation"),
        ("look-1", "incumbent", WON, "its look-1 evaluation"),
    ],
)
def test_a_deleted_evaluation_of_a_stage_is_named(unsealed, stage, arm, iteration, named):
    evaluation = find(unsealed, stage, arm, iteration)
    for table in ("trials", "rollouts"):
        unsealed.edit(f"DELETE FROM {table} WHERE evaluation_id = ?", evaluation)
    unsealed.edit("DELETE FROM evaluations WHERE id = ?", evaluation)
    candidate = unsealed.value("SELECT candidate_id FROM verdicts WHERE iteration = ?", iteration)
    unsealed.refused("table evaluations, run r1, split val", candidate, named)


# --- seeds ----------------------------------------------------------------------------------------


def test_an_edited_base_seed_of_a_look_leaves_its_identity(confirmed):
    evaluation = find(confirmed, "look-1", "candidate", WON)
    confirmed.edit("UPDATE evaluations SET base_seed = 0 WHERE id = ?", evaluation)
    confirmed.refused(f"table evaluations, evaluation {evaluation}", "digest is")


@pytest.mark.parametrize("stage", ["race", "look-1"])
def test_a_base_seed_that_was_edited_with_its_identity_is_not_that_of_its_stage(unsealed, stage):
    """Somebody looked for a lucky seed: the seed of every stage follows from the run and the candidate."""
    evaluation = find(unsealed, stage, "candidate", WON)
    forge_key(unsealed, evaluation, base_seed=77)
    subject = unsealed.value("SELECT candidate_id FROM verdicts WHERE iteration = 3")
    should = fresh_seed(BASE_SEED, subject, "look-1") if stage == "look-1" else BASE_SEED
    unsealed.refused(f"table evaluations, evaluation {evaluation}", f"base_seed is 77, should be {should}")


def test_an_edited_seed_of_a_trial_of_a_look_is_named(unsealed):
    evaluation = find(unsealed, "look-1", "candidate", WON)
    seed = unsealed.value("SELECT base_seed FROM evaluations WHERE id = ?", evaluation)
    unsealed.edit("UPDATE trials SET seed = 5 WHERE evaluation_id = ? AND task_id = 't02'", evaluation)
    unsealed.refused(
        f"table trials, evaluation {evaluation}, task 't02', trial 0", f"seed is 5, should be {seed}"
    )


def test_a_luckier_evaluation_under_another_name_does_not_take_the_place_of_a_look(unsealed):
    """Its tag makes it another evaluation, and the look itself is then missing."""
    forge_key(unsealed, find(unsealed, "look-1", "candidate", WON), tag="look-9/candidate/sha256:0")
    unsealed.refused("table evaluations, evaluation")


def test_trials_of_a_race_over_other_tasks_are_not_those_of_the_race(unsealed):
    evaluation = find(unsealed, "race", "candidate", LOST)
    tasks = json.loads(unsealed.value("SELECT subset FROM evaluations WHERE id = ?", evaluation))
    other = sorted({*IDS["val"]} - {*tasks})
    forge_key(unsealed, evaluation, subset=json.dumps(other))
    for mine, theirs in zip(tasks, other, strict=True):
        for table in ("trials", "rollouts"):
            unsealed.edit(
                f"UPDATE {table} SET task_id = ? WHERE evaluation_id = ? AND task_id = ?", theirs, evaluation, mine
            )  # fmt: skip
    unsealed.refused("table evaluations, run r1, split val", "its race evaluation is missing")


# --- verdicts -------------------------------------------------------------------------------------


def set_stage(number: int, **values):
    return lambda payload: payload["stages"][number].update(values)


@pytest.mark.parametrize(
    ("iteration", "edit", "named"),
    [
        (FAILED, set_stage(2, p_value=0.001), "payload: stages.2.p_value is 0.001"),
        (LOST, set_stage(0, p_value=None), "payload: stages.0.p_value is null"),
        (WON, set_stage(2, slot=1), "payload: stages.2.slot is 1, should be 2"),
        (WON, set_stage(3, accept_at=0.9), "payload: stages.3.accept_at is 0.9"),
        (WON, set_stage(3, alpha=0.9), "payload: stages.3.alpha is 0.9"),
        (WON, set_stage(0, reject_above=1.0), "payload: stages.0.reject_above is 1.0, should be 0.9"),
        (WON, set_stage(2, base_seed=1), "payload: stages.2.base_seed is 1"),
        (WON, set_stage(2, num_trials=9), "payload: stages.2.num_trials is 9, should be 1"),
        (WON, set_stage(2, stage="look-2"), 'payload: stages.2.stage is "look-2", should be "look-1"'),
        (WON, set_stage(3, candidate_evaluation="1"), 'payload: stages.3.candidate_evaluation is "1"'),
        (WON, lambda payload: payload["stages"].pop(), "payload: stages"),
        (WON, lambda payload: payload.update(stages=[]), "payload: stages"),
        (LOST, lambda payload: payload.update(p_value=0.01), "payload: p_value is 0.01"),
        (FAILED, lambda payload: payload.update(rule="race"), 'payload: rule is "race", should be "confirm"'),
        (WON, lambda payload: payload.update(delta=0.9), "payload: delta is 0.9"),
        (WON, lambda payload: payload.update(n=7), "payload: n is 7, should be 8"),
    ],
)
def test_an_edited_verdict_is_named_with_the_number_it_should_have(unsealed, iteration, edit, named):
    forge_verdict(unsealed, iteration, edit)
    unsealed.refused(f"table verdicts, run r1, iteration {iteration}", named)


def test_an_edited_verdict_no_longer_matches_its_sealed_digest(confirmed):
    forge_verdict(confirmed, FAILED, lambda payload: payload.update(reason="it was fine"))
    confirmed.refused("table verdicts, run r1, iteration 2")


def test_a_stage_with_a_field_that_does_not_exist_is_named_and_ends_in_no_traceback(unsealed):
    forge_verdict(unsealed, WON, lambda payload: payload["stages"][0].update(luck=1))
    unsealed.refused("table verdicts, run r1, iteration 3", "cannot be read")


def test_a_failed_confirmation_called_an_acceptance_is_named(unsealed):
    forge_verdict(unsealed, FAILED, lambda payload: payload.update(decision="accept"))
    unsealed.edit("UPDATE verdicts SET decision = 'accept' WHERE iteration = 2")
    unsealed.refused("table ", "iteration")


def test_a_failure_that_was_hidden_frees_no_slot(unsealed):
    """A p-value taken out of a look would give its slot back: the next confirmation's slot tells."""

    def hide(payload):
        payload["stages"][2].update(p_value=None)
        payload.update(p_value=None)

    forge_verdict(unsealed, FAILED, hide)
    unsealed.refused("table verdicts, run r1, iteration 2", "payload: p_value is null")


@pytest.mark.parametrize(
    ("column", "other"),
    [("candidate_evaluation", "incumbent_evaluation"), ("incumbent_evaluation", "candidate_evaluation")],
)
def test_the_evaluations_that_a_verdict_rests_on_cannot_be_swapped(unsealed, column, other):
    unsealed.edit(f"UPDATE verdicts SET {column} = {other} WHERE iteration = ?", WON)
    unsealed.refused("table verdicts, run r1, iteration 3", "the evaluation it rests on is")


def test_both_evaluations_of_a_verdict_swapped_are_named(unsealed):
    unsealed.edit(
        "UPDATE verdicts SET candidate_evaluation = incumbent_evaluation, "
        "incumbent_evaluation = candidate_evaluation WHERE iteration = ?",
        WON,
    )
    unsealed.refused("table verdicts, run r1, iteration 3", "the evaluation it rests on is")


def test_a_look_whose_arms_changed_places_is_named(unsealed):
    mine, theirs = (find(unsealed, "look-1", arm, WON) for arm in ("candidate", "incumbent"))
    for table in ("trials", "rollouts"):
        for old, new in ((mine, -1), (theirs, mine), (-1, theirs)):
            unsealed.edit(f"UPDATE {table} SET evaluation_id = ? WHERE evaluation_id = ?", new, old)
    said = unsealed.refused("table ")
    assert "table verdicts, run r1, iteration 3" in said or "evaluation is missing" in said


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda s: s["confirm"].update(alpha_run=0.9), "settings: confirm.alpha_run is 0.9, should be 0.4"),
        (lambda s: s["confirm"].update(looks=[1, 1, 9]), "settings: confirm.looks.2 is 9, should be 2"),
        (lambda s: s["confirm"].update(alpha_run=2.0), "cannot use"),
        (lambda s: s["confirm"].update(luck=1), "cannot be read"),
        (lambda s: s.update(confirm=None), "goes with mode confirm"),
        (lambda s: s.update(mode="strict"), "goes with mode confirm"),
    ],
)
def test_edited_settings_of_a_verdict_are_named(unsealed, edit, named):
    unsealed.edit_json("verdicts", "settings", f"iteration = {WON}", edit)
    unsealed.refused("table verdicts, run r1, iteration 3", named)


def test_a_spec_with_more_slots_whose_digest_was_made_to_match_contradicts_the_verdicts(unsealed):
    unsealed.edit_json("runs", "spec", "1", lambda s: s["gate"]["confirm"].update(max_failed_confirmations=9))
    unsealed.edit(
        "UPDATE runs SET spec_digest = ?", digest(json.loads(unsealed.value("SELECT spec FROM runs")))
    )
    unsealed.refused("settings: confirm.max_failed_confirmations is 3, should be 9")


# --- what the result keeps of val -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda val: val["best"].update(reward=0.999), "result: val.best.reward is 0.999"),
        (lambda val: val["best"].update(stderr=0.001), "result: val.best.stderr is 0.001"),
        (lambda val: val["best"].update(n_trials=1), "result: val.best.n_trials is 1"),
        (lambda val: val["baseline"].update(reward=0.1), "result: val.baseline.reward is 0.1"),
        (lambda val: val["baseline"].update(n_scored=7), "result: val.baseline.n_scored is 7, should be 8"),
        (lambda val: val.update(selected=False), "result: val.selected is false, should be true"),
        (lambda val: val.update(fresh=False), "result: val.fresh is false, should be true"),
        (lambda val: val.update(candidates=9), "result: val.candidates is 9"),
        (lambda val: val.update(shrunken=0.5, weight=0.5), "result: val."),
    ],
)
def test_edited_numbers_of_val_in_a_result_are_named(confirmed, edit, named):
    confirmed.edit_json("attempts", "result", "1", lambda result: edit(result["val"]))
    text = confirmed.value("SELECT result FROM attempts")
    confirmed.relink(lambda payload: payload.update(result=digest(text)))
    confirmed.refused("table attempts, run r1, attempt 1", named)


def test_an_edited_val_of_a_result_no_longer_matches_its_digest(confirmed):
    confirmed.edit_json("attempts", "result", "1", lambda r: r["val"]["best"].update(reward=0.999))
    confirmed.refused("table attempts, run r1, attempt 1", "result: its digest")


def test_a_result_of_a_time_before_results_kept_val_still_passes(confirmed):
    confirmed.edit_json("attempts", "result", "1", lambda result: result.pop("val"))
    text = confirmed.value("SELECT result FROM attempts")
    confirmed.relink(lambda payload: payload.update(result=digest(text)))
    assert confirmed.verify().committed


def test_the_result_keeps_the_fresh_trials_of_the_best_and_every_trial_of_the_seed_candidate(confirmed):
    val = json.loads(confirmed.value("SELECT result FROM attempts"))["val"]
    assert (val["selected"], val["fresh"]) == (True, True)
    assert (val["best"]["n_scored"], val["baseline"]["n_scored"]) == (8, 8)
    # The best: two looks that confirmed it and one against it, of 8 tasks. The seed candidate: its
    # evaluation, one look of the candidate that failed and two of the one that did not.
    assert (val["best"]["n_trials"], val["baseline"]["n_trials"]) == (24, 32)


def test_a_search_that_goes_on_after_the_commit_changes_nothing_of_what_was_known_then(confirmed):
    """The confirmation against the best candidate joins its record, and not the val of the result."""
    more = [*EDITS, {"summary": "hardly another", "edits": {"prompt.md": "61"}}]
    (confirmed.root / "confirming.yaml").write_text(json.dumps(more))
    spec = json.loads((confirmed.root / "capevolve.yaml").read_text())
    (confirmed.root / "capevolve.yaml").write_text(json.dumps({**spec, "search": {"max_iterations": 5}}))
    confirmed.drive("r1")
    assert verdict_of(confirmed, 5)["stages"][-1]["slot"] is not None
    verified = confirmed.verify()
    assert "5 verdicts (1 accepted)" in verified.checked
    assert json.loads(confirmed.value("SELECT result FROM attempts"))["val"]["best"]["n_trials"] == 24
