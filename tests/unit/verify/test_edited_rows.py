"""Every edit behind capevolve's back is named with its table and its row, and ends in exit code 3."""

from __future__ import annotations

import json

import pytest

from capevolve.canonical import canonical_json, digest

TEST_ROW = "evaluation_id = {} AND task_id = '{}' AND trial = {}"


def edit_trial(run, column, value, *, split="test", trial=0, state="scored"):
    """Edits a column of the first trial of a split, and returns how its row is called."""
    evaluation, task = run.test_trial(trial, split=split, state=state)
    run.edit(f"UPDATE trials SET {column} = ? WHERE {TEST_ROW.format(evaluation, task, trial)}", value)
    return f"table trials, evaluation {evaluation}, task '{task}', trial {trial}"


# --- trials ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_an_edited_reward_is_named(finished, split):
    where = edit_trial(finished, "reward", 0.999, split=split)
    finished.refused(where, "no longer matches the digest")


@pytest.mark.parametrize("value", [1.5, -0.5, "much", None])
def test_a_reward_that_is_none_is_named(finished, value):
    finished.refused(edit_trial(finished, "reward", value), "reward is")


def test_an_edited_reason_is_named(finished):
    where = edit_trial(finished, "reason", "timeout", trial=1, state="unmeasured")
    finished.refused(where, "no longer matches")
    finished.edit("UPDATE trials SET reason = 'boredom' WHERE state = 'unmeasured'")
    finished.refused("table trials", '"boredom"')


def test_a_reason_beside_a_reward_is_named(finished):
    finished.refused(edit_trial(finished, "reason", "infra"), 'reason is "infra"')


def test_an_unmeasured_trial_that_becomes_a_zero_is_named(finished):
    evaluation, task = finished.test_trial(1, state="unmeasured")
    finished.edit(
        "UPDATE trials SET state = 'scored', reward = 0.0, reason = NULL, detail = NULL WHERE "
        + TEST_ROW.format(evaluation, task, 1)
    )
    finished.refused(f"table trials, evaluation {evaluation}, task '{task}', trial 1")


def test_an_edited_seed_is_named_with_both_values(finished):
    finished.refused(edit_trial(finished, "seed", 99), "seed is 99, should be 11")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("cost_usd", 5.0),
        ("duration_s", 0.0),
        ("tokens", 7),
        ("calls", 3),
        ("interrupted", 1),
        ("detail", "x"),
    ],
)
def test_any_other_edited_column_of_a_trial_is_named(finished, column, value):
    finished.refused(edit_trial(finished, column, value), "no longer matches")


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_a_deleted_trial_is_named(finished, split):
    evaluation, task = finished.test_trial(split=split)
    finished.edit(f"DELETE FROM trials WHERE {TEST_ROW.format(evaluation, task, 0)}")
    finished.refused(f"table trials, evaluation {evaluation}, task '{task}', trial 0", "is missing")


def test_a_trial_that_lost_its_result_is_named(finished):
    evaluation, task = finished.test_trial()
    where = TEST_ROW.format(evaluation, task, 0)
    finished.edit(f"UPDATE trials SET state = 'claimed', reward = NULL WHERE {where}")
    finished.edit(f"DELETE FROM rollouts WHERE {where}")
    finished.refused(f"evaluation {evaluation}, task '{task}', trial 0", "has no result")


@pytest.mark.parametrize(("task", "trial"), [("t99", 0), ("t07", 0), ("same", 2), ("same", -1)])
def test_an_added_trial_is_named(finished, task, trial):
    evaluation, known = finished.test_trial()
    task = known if task == "same" else task
    finished.edit(
        "INSERT INTO trials SELECT evaluation_id, ?, ?, 11 + ?, state, epoch, session, calls, interrupted, "
        "claimed_at, finished_at, reward, reason, detail, duration_s, cost_usd, tokens FROM trials WHERE "
        + TEST_ROW.format(evaluation, known, 0),
        task, trial, trial,
    )  # fmt: skip
    finished.refused(f"table trials, evaluation {evaluation}, task '{task}', trial {trial}")


def test_a_deleted_or_emptied_rollout_is_named(finished):
    evaluation, task = finished.test_trial()
    where = TEST_ROW.format(evaluation, task, 0)
    finished.edit(f"UPDATE rollouts SET payload = '' WHERE {where}")
    named = f"table rollouts, evaluation {evaluation}, task '{task}', trial 0"
    finished.refused(named, "missing or empty")
    finished.edit(f"DELETE FROM rollouts WHERE {where}")
    finished.refused(named)


@pytest.mark.parametrize("column", ["payload", "feedback", "metrics"])
def test_an_edited_rollout_is_named(finished, column):
    evaluation, task = finished.test_trial()
    finished.edit(f"UPDATE rollouts SET {column} = '[1]' WHERE {TEST_ROW.format(evaluation, task, 0)}")
    finished.refused(f"evaluation {evaluation}, task '{task}', trial 0", "rollouts")


def test_an_added_rollout_is_named(finished):
    evaluation, _ = finished.test_trial()
    finished.edit("INSERT INTO rollouts VALUES (?, 't99', 0, '', '[]', '{}', NULL)", evaluation)
    finished.refused("table rollouts", "'t99'")


# --- evaluations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [("candidate_id", "sha256:0"), ("tag", "FINAL_2"), ("num_trials", 1), ("base_seed", 12), ("subset", '["t04"]'),
     ("subset", "{"), ("attempt_id", 7), ("digest", "sha256:0"), ("split", "val")],
)  # fmt: skip
def test_an_edited_evaluation_is_named(finished, column, value):
    evaluation, _ = finished.test_trial()
    finished.edit(f"UPDATE evaluations SET {column} = ? WHERE id = ?", value, evaluation)
    finished.refused(f"table evaluations, evaluation {evaluation}")


@pytest.mark.parametrize(("column", "value"), [("num_trials", 3), ("tag", "FINAL_2"), ("candidate_id", None)])
def test_an_evaluation_of_test_with_a_digest_made_to_match_is_not_covered_by_the_plan(
    finished, column, value
):
    evaluation, _ = finished.test_trial()
    value = value or finished.value("SELECT candidate_id FROM proposals WHERE iteration = 2")
    finished.edit(f"UPDATE evaluations SET {column} = ? WHERE id = ?", value, evaluation)
    columns = "run_id, candidate_id, split, num_trials, base_seed, tag, subset, attempt_id"
    (key,) = finished.rows(f"SELECT {columns} FROM evaluations WHERE id = ?", evaluation)
    finished.edit("UPDATE evaluations SET digest = ? WHERE id = ?", digest(key), evaluation)
    where = f"table evaluations, evaluation {evaluation}"
    finished.refused(where, "candidate, num_trials, base_seed and subset")


def test_a_deleted_evaluation_is_named(finished):
    for split in ("train", "val", "test"):
        evaluation, _ = finished.test_trial(split=split)
        finished.edit("DELETE FROM evaluations WHERE id = ?", evaluation)
        finished.refused("table ")


# --- the search -----------------------------------------------------------------------------------


def test_an_edited_decision_is_named_with_both_values(finished):
    finished.edit("UPDATE verdicts SET decision = 'accept' WHERE iteration = 2")
    finished.refused("table verdicts, run r1, iteration 2", 'decision is "accept", should be "reject"')


def test_an_edited_payload_of_a_verdict_is_judged_again(finished):
    finished.edit("UPDATE verdicts SET decision = 'accept' WHERE iteration = 2")
    finished.edit_json("verdicts", "payload", "iteration = 2", lambda v: v.update(decision="accept"))
    finished.edit_json("verdicts", "payload", "iteration = 3", lambda v: v.update(delta=0.9))
    finished.refused("table ", "iteration 3")  # the chain of incumbents broke, or the verdict differs


@pytest.mark.parametrize(
    ("key", "value"),
    [("delta", 0.9), ("reason", "because"), ("n", 3), ("dropped", [["t01", "x"]]), ("se", None)],
)
def test_any_part_of_a_verdict_is_compared(finished, key, value):
    finished.edit_json("verdicts", "payload", "iteration = 2", lambda v: v.update({key: value}))
    finished.refused("table verdicts, run r1, iteration 2", f"payload: {key}")


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"decision": "accept"}'])
def test_a_verdict_that_cannot_be_read_is_named(finished, text):
    finished.edit("UPDATE verdicts SET payload = ? WHERE iteration = 1", text)
    finished.refused("table verdicts, run r1, iteration 1")


def test_edited_settings_of_a_gate_are_named(finished):
    finished.edit_json("verdicts", "settings", "iteration = 2", lambda s: s.update(mode="strict"))
    finished.refused("table verdicts, run r1, iteration 2", 'settings: mode is "strict", should be "paired"')


@pytest.mark.parametrize(
    ("column", "value"),
    [("candidate_id", "sha256:0"), ("incumbent_id", "sha256:0"), ("candidate_evaluation", 2),
     ("incumbent_evaluation", 7), ("created_at", 1.0), ("settings", "{")],
)  # fmt: skip
def test_any_other_edited_column_of_a_verdict_is_named(finished, column, value):
    finished.edit(f"UPDATE verdicts SET {column} = ? WHERE iteration = 2", value)
    finished.refused("table verdicts", "iteration 2")


@pytest.mark.parametrize("column", ["candidate_evaluation", "incumbent_evaluation"])
def test_a_verdict_that_rests_on_another_evaluation_is_named(finished, column):
    was = finished.value(f"SELECT {column} FROM verdicts WHERE iteration = 2")
    finished.edit(f"UPDATE verdicts SET {column} = 1 WHERE iteration = 2")
    finished.refused("iteration 2", f"the evaluation it rests on is 1, should be {was}")


def test_an_edited_parent_is_named_with_both_values(finished):
    seed, best = (
        finished.value("SELECT seed_candidate FROM runs"),
        finished.value("SELECT candidate_id FROM proposals WHERE iteration = 1"),
    )
    finished.edit("UPDATE proposals SET parent_id = ? WHERE iteration = 2", seed)
    finished.refused("table proposals, run r1, iteration 2", f'parent_id is "{seed}", should be "{best}"')


@pytest.mark.parametrize(
    ("column", "value"),
    [("status", "empty"), ("status", "started"), ("candidate_id", None), ("summary", "mine"), ("cost_usd", 1.0),
     ("iteration", 9)],
)  # fmt: skip
def test_an_edited_proposal_is_named(finished, column, value):
    finished.edit(f"UPDATE proposals SET {column} = ? WHERE iteration = 2", value)
    finished.refused("table proposals")


@pytest.mark.parametrize("iteration", [1, 2, 3])
def test_a_deleted_verdict_is_named(finished, iteration):
    finished.edit("DELETE FROM verdicts WHERE iteration = ?", iteration)
    finished.refused("table verdicts", f"iteration {iteration}")


def test_a_search_cut_off_behind_is_named(finished):
    finished.edit("DELETE FROM verdicts WHERE iteration = 3")
    finished.edit("DELETE FROM proposals WHERE iteration = 3")
    finished.refused("table proposals, iteration 3", "is gone")


# --- splits, spec, candidates ---------------------------------------------------------------------


def test_a_task_moved_from_test_to_train_is_named(finished):
    finished.edit("UPDATE split_tasks SET split = 'train' WHERE task_id = 't05'")
    finished.refused("table split_tasks", "test")


def test_a_task_moved_between_train_and_val_is_named_with_both_values(finished):
    finished.edit("UPDATE split_tasks SET split = 'train' WHERE task_id = 't03'")
    finished.refused(
        "table split_tasks, run r1, split train, task 't03'", 'split is "train", should be "val"'
    )


@pytest.mark.parametrize("task", ["t00", "t01", "t04", "t07"])
@pytest.mark.parametrize("column", ["digest", "cluster", "task_group", "position", "task_id"])
def test_an_edited_task_of_any_split_is_named(finished, task, column):
    value = 77 if column == "position" else "sha256:0"
    position = finished.value("SELECT position FROM split_tasks WHERE task_id = ?", task)
    finished.edit(f"UPDATE split_tasks SET {column} = ? WHERE task_id = ?", value, task)
    said = finished.refused("table split_tasks")
    assert any(name in said for name in (f"'{task}'", f"position {position}", "'sha256:0'")), said


@pytest.mark.parametrize("task", ["t00", "t01", "t04", "t07"])
def test_a_deleted_task_of_any_split_is_named(finished, task):
    finished.edit("DELETE FROM split_tasks WHERE task_id = ?", task)
    finished.refused("table split_tasks")


def test_an_edited_content_and_one_that_should_not_be_there_are_named(finished):
    finished.edit("UPDATE split_tasks SET content = '{}' WHERE task_id = 't00'")
    finished.refused("table split_tasks, run r1, position 0", "digest")
    finished.edit("UPDATE split_tasks SET content = NULL WHERE task_id = 't00'")
    finished.refused("table split_tasks, run r1, position 0", "missing")


@pytest.mark.parametrize(
    ("column", "value"),
    [("digest", "sha256:0"), ("test_digest", "sha256:0"), ("test_ids_digest", "sha256:0"), ("frozen_at", 1.0),
     ("payload", "{")],
)  # fmt: skip
def test_an_edited_split_set_is_named(finished, column, value):
    finished.edit(f"UPDATE split_sets SET {column} = ?", value)
    finished.refused("table split_sets, run")


def test_an_edited_seed_of_the_splits_is_named(finished):
    finished.edit_json("split_sets", "payload", "1", lambda p: p.update(seed=12))
    finished.refused("table split_sets, run")


def test_the_deleted_split_set_is_named(finished):
    finished.edit("DELETE FROM split_sets")
    finished.refused("table split_sets, run r1", "missing")


def test_an_edited_spec_is_named(finished):
    finished.edit_json("runs", "spec", "1", lambda s: s["gate"].update(k_se=0.0))
    finished.refused("table runs, run r1", "spec: its digest")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda s: s["gate"].update(k_se=0.0), "settings: k_se is 1.0, should be 0.0"),
        (lambda s: s["splits"].update(seed=5), "plan: base_seed is 11, should be 5"),
        (lambda s: s["evaluation"].update(num_trials=1), "plan: num_trials is 2, should be 1"),
        (lambda s: s["splits"].update(counts={"train": 4, "val": 4, "test": 4}), "table split_tasks"),
        (lambda s: s.update(surprise=1), "table runs, run r1"),
    ],
)
def test_a_spec_whose_digest_was_made_to_match_contradicts_the_rows(finished, edit, named):
    finished.edit_json("runs", "spec", "1", edit)
    text = finished.value("SELECT spec FROM runs")
    finished.edit("UPDATE runs SET spec_digest = ?", digest(json.loads(text)))
    finished.refused(named)


@pytest.mark.parametrize(
    ("column", "value"),
    [("seed_candidate", "sha256:0"), ("adapter_files", "{}"), ("adapter_files", "["), ("version", "9"),
     ("created_at", 1.0), ("adapter_digest", "sha256:0"), ("name", "other")],
)  # fmt: skip
def test_an_edited_run_is_named(finished, column, value):
    finished.edit(f"UPDATE runs SET {column} = ?", value)
    finished.refused("table ")


def test_an_edited_manifest_is_named(finished):
    best = finished.value("SELECT candidate_id FROM proposals WHERE iteration = 3")
    finished.edit("UPDATE candidates SET manifest = replace(manifest, 'prompt', 'Prompt') WHERE id = ?", best)
    finished.refused("candidates", best)
    finished.edit("DELETE FROM candidates WHERE id = ?", best)
    finished.refused("candidates", best)


def test_an_edited_or_deleted_file_of_a_candidate_is_named(finished):
    name = finished.value("SELECT digest FROM blobs WHERE data = ?", b"45")
    finished.edit("UPDATE blobs SET data = ? WHERE digest = ?", b"46", name)
    finished.refused("blobs", name)
    finished.edit("UPDATE blobs SET data = 'text' WHERE digest = ?", name)
    finished.refused("blobs", name)
    finished.edit("DELETE FROM blobs WHERE digest = ?", name)
    finished.refused("blobs", name)


# --- attempts and the chain -----------------------------------------------------------------------


def test_an_edited_plan_is_named_even_with_its_digest(finished):
    finished.edit_json("attempts", "plan", "1", lambda p: p.update(num_trials=1))
    finished.refused("table attempts, run r1, attempt 1", "plan: its digest is")
    finished.edit(
        "UPDATE attempts SET plan_digest = ?", digest(json.loads(finished.value("SELECT plan FROM attempts")))
    )
    finished.refused("table attempts, run r1, attempt 1", "plan_digest")


@pytest.mark.parametrize(
    ("column", "value"),
    [("result", "{}"), ("result", None), ("look", 2), ("override_reason", "why not"), ("state", "open"),
     ("state", "superseded"), ("opened_at", 1.0), ("ended_at", 1.0), ("ended_at", None), ("plan", "{"), ("number", 2),
     ("test_digest", "sha256:0"), ("test_ids_digest", "sha256:0"), ("plan_digest", "sha256:0"), ("run_id", "r2")],
)  # fmt: skip
def test_an_edited_attempt_is_named(finished, column, value):
    finished.edit(f"UPDATE attempts SET {column} = ?", value)
    finished.refused("table attempts, run r1, attempt 1")


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [("look", 2, "look is 2, should be 1"), ("override_reason", "x", 'override_reason is "x", should be null'),
     ("state", "open", 'state is "open", should be "committed"')],
)  # fmt: skip
def test_what_the_chain_says_of_an_attempt_is_told_beside_what_its_row_says(finished, column, value, named):
    finished.edit(f"UPDATE attempts SET {column} = ?", value)
    finished.refused(named)


def test_a_look_that_a_forged_attempt_of_another_run_would_explain_contradicts_the_chain(finished):
    columns = "number, plan, plan_digest, test_digest, test_ids_digest, opened_at"
    finished.edit("UPDATE attempts SET id = 2, look = 2")
    finished.edit("UPDATE evaluations SET attempt_id = 2 WHERE attempt_id = 1")
    finished.edit(
        f"INSERT INTO attempts (id, run_id, look, state, {columns}) "
        f"SELECT 1, 'r0', 1, 'superseded', {columns} FROM attempts WHERE id = 2"
    )
    finished.refused("table attempts, run r1, attempt 1", "look is 2, should be 1")


def test_an_edited_number_of_the_result_is_named(finished):
    finished.edit_json("attempts", "result", "1", lambda r: r["test"].update(reward=1.0))
    finished.refused("table attempts, run r1, attempt 1", "result")


@pytest.mark.parametrize("seq", [1, 2])
@pytest.mark.parametrize(
    ("column", "value"),
    [("kind", "continued"), ("payload", "{}"), ("at", 1.0), ("previous", "sha256:0"), ("hash", "sha256:0"),
     ("seq", 9), ("run_id", "r2")],
)  # fmt: skip
def test_an_edited_seal_event_is_named(finished, seq, column, value):
    finished.edit(f"UPDATE seal_events SET {column} = ? WHERE seq = ?", value, seq)
    finished.refused("seal_events, ", "r1")


def test_the_deleted_last_seal_event_is_named(finished):
    finished.edit("DELETE FROM seal_events WHERE seq = 2")
    finished.refused("table seal_events, run r1, seq 2", "committed without the event")


def test_a_deleted_chain_is_named(finished):
    finished.edit("DELETE FROM seal_events")
    finished.refused("table seal_events, run r1, seq 1")


def test_a_deleted_attempt_is_named(finished):
    finished.edit("DELETE FROM attempts")
    finished.refused("table attempts, run r1, attempt 1", "missing")


def test_a_task_missing_from_the_test_split_is_not_covered_by_the_plan(finished):
    finished.edit("DELETE FROM split_tasks WHERE task_id = 't05'")
    finished.refused("table split_tasks", "The plan covers 5 test tasks; 4 are in the split")


# --- attackers ------------------------------------------------------------------------------------


def raise_a_reward(run):
    evaluation, task = run.test_trial()
    run.edit(f"UPDATE trials SET reward = 1.0 WHERE {TEST_ROW.format(evaluation, task, 0)}")


def recompute_result(run):
    """Stores the result that follows from the edited trials, and writes it to final.json."""
    from capevolve.ledger.runs import find_splits
    from capevolve.verify import headline
    from capevolve.verify.run import _read_base
    from capevolve.verify.trials import read_evaluations
    from capevolve.verify.verdicts import Gate, read_search

    ledger = run.open()
    computed = {}

    def keep(what, where, stored, again, **_):
        computed["result"] = again

    with pytest.MonkeyPatch.context() as patch, ledger.read() as connection:
        patch.setattr(headline, "expect", keep)
        base = _read_base(connection, "r1", spec_redacted=False)
        (attempt,) = base.history.attempts
        splits = find_splits(connection, "r1")
        evaluations = read_evaluations(connection, "r1")
        _, verdicts = read_search(connection, "r1")
        gate = Gate(base.record, base.spec, base.tasks, evaluations, verdicts)
        val = gate.read_val(connection, attempt)
        headline.check_result(connection, attempt, splits, base.tasks, evaluations, val)
    ledger.close()
    text = canonical_json(computed["result"])
    assert text != run.value("SELECT result FROM attempts")
    run.edit("UPDATE attempts SET result = ?", text)
    (run.folder / "final.json").write_text(json.dumps(computed["result"], indent=2))
    return text


def test_an_edited_reward_with_its_result_and_file_recomputed_is_still_caught(finished):
    raise_a_reward(finished)
    recompute_result(finished)
    finished.refused("table attempts, run r1, attempt 1", "result: its digest")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda r: r["test"].update(reward=0.987), "test.reward is 0.987"),
        (lambda r: r["test_baseline"].update(n_scored=1), "test_baseline.n_scored is 1, should be 5"),
        (lambda r: r["test"]["pass_k"].pop("2"), "test.pass_k.2"),
        (lambda r: r["test_delta"].update(delta=0.9), "test_delta.delta is 0.9"),
        (lambda r: r["test_delta"].update(ci95=[0.1, 0.2]), "test_delta.ci95.0 is 0.1"),
        (lambda r: r["test_delta"].update(improved=4), "test_delta.improved is 4, should be 5"),
        (lambda r: r["test_delta"]["p_sign_flip"].update(value=0.5), "test_delta.p_sign_flip.value is 0.5"),
        (lambda r: r.update(best_id="sha256:0"), 'best_id is "sha256:0"'),
        (lambda r: r.update(kind="fit_metric"), 'kind is "fit_metric", should be "held_out"'),
        (lambda r: r.update(test_looks=7), "test_looks is 7, should be 1"),
        (lambda r: r["seal"].update(looks=7), "seal.looks is 7, should be 1 to 1"),
        (lambda r: r["seal"].update(interrupted_trials=3), "seal.interrupted_trials is 3, should be 0"),
        (lambda r: r["seal"].update(chain_head="sha256:0"), 'seal.chain_head is "sha256:0"'),
        (lambda r: r.update(schema_version=2), "cannot be read"),
    ],
)
def test_a_result_that_was_forged_with_its_commit_is_not_what_the_trials_say(finished, edit, named):
    finished.edit_json("attempts", "result", "1", edit)
    text = finished.value("SELECT result FROM attempts")
    finished.relink(lambda payload: payload.update(result=digest(text)))
    finished.refused("table attempts, run r1, attempt 1", named)


def test_without_sealed_digests_a_reward_is_caught_by_what_rests_on_it(finished):
    finished.relink(lambda payload: payload.pop("evidence"))
    evaluation, task = finished.test_trial(split="val")
    where = TEST_ROW.format(evaluation, task, 0)
    was = finished.value(f"SELECT reward FROM trials WHERE {where}")
    finished.edit(f"UPDATE trials SET reward = 0.999 WHERE {where}")
    finished.refused("table verdicts, run r1, iteration 1", "payload: ")
    finished.edit(f"UPDATE trials SET reward = ? WHERE {where}", was)
    raise_a_reward(finished)
    finished.refused("table attempts, run r1, attempt 1", "result: test")


def test_with_the_chain_forged_as_well_the_sealed_digests_still_name_the_trial(finished):
    raise_a_reward(finished)
    text = recompute_result(finished)
    finished.relink(lambda payload: payload.update(result=digest(text)))
    evaluation, task = finished.test_trial()
    finished.refused(f"table trials, evaluation {evaluation}, task '{task}', trial 0")


def test_marks_that_were_made_to_match_leave_the_digest(finished):
    from capevolve.ledger.evidence import digest_run

    raise_a_reward(finished)
    text = recompute_result(finished)
    ledger = finished.open()
    with ledger.read() as connection:
        marks = digest_run(connection, "r1").to_payload()["marks"]
    ledger.close()
    finished.relink(lambda payload: payload.update(result=digest(text)))
    finished.relink(lambda payload: payload["evidence"].update(marks=marks))
    finished.refused("match the digest sealed with attempt 1")


def test_who_rewrites_everything_is_told_by_the_head_that_others_kept(finished):
    """The limit: tamper-evident, not tamper-proof."""
    from capevolve.ledger.evidence import digest_run

    head = finished.verify().chain_head
    raise_a_reward(finished)
    text = recompute_result(finished)
    ledger = finished.open()
    with ledger.read() as connection:
        evidence = digest_run(connection, "r1").to_payload()
    ledger.close()
    finished.relink(lambda payload: payload.update(result=digest(text), evidence=evidence))
    said = finished.said("verify")
    assert said.code == 0
    assert head not in said.out
