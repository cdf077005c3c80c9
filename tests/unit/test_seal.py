"""The seal, rule by rule: SEALED -> OPEN(plan) -> COMMITTED(result).

Mutants of `capevolve/seal.py` and the tests that kill them (each tried by hand):

* check then write without the unique constraint -> test_two_processes_that_both_saw_no_attempt_open_only_one
* plan not compared                               -> test_another_plan_is_refused_once_a_trial_was_claimed
* epoch not compared                              -> test_a_driver_whose_epoch_is_over_opens_and_commits_nothing
* commit outside the transaction                  -> test_the_result_and_the_burned_seal_are_one_transaction
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text, update
from sqlalchemy.exc import IntegrityError

from capevolve import seal
from capevolve.canonical import digest
from capevolve.errors import FencedError, TamperError, TestSealError
from capevolve.evaluate.ticket import TestPlan, Ticket, check_ticket
from capevolve.ledger import attempts, schema
from capevolve.ledger.evaluations import EvaluationKey, finish_evaluation, open_evaluation
from capevolve.ledger.leases import acquire_lease, release_lease
from capevolve.ledger.runs import RunRecord, SplitSet, SplitTask, insert_run, insert_splits, read_split
from capevolve.ledger.store import open_ledger
from capevolve.ledger.trees import insert_candidate
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Scored, TaskRef

pytestmark = pytest.mark.both_ledgers

REQUEST = seal.PlanRequest(
    best_id="sha256:best",
    seed_id="sha256:seed",
    num_trials=2,
    base_seed=7,
    ks=(1, 2),
    adapter_files=(("adapter.py", "sha256:a"),),
    version="0.1.0",
)
TEST_TASKS = ("x1", "x2")


@pytest.fixture
def url(make_ledger_url):
    return make_ledger_url()


@pytest.fixture
def ledger(url):
    ledger = open_ledger(url)
    yield ledger
    ledger.close()


def start(ledger, run_id="r1", contents=("c1", "c2"), ids=TEST_TASKS):
    """A run with frozen splits and a driver."""
    with ledger.write() as c:
        driver = acquire_lease(c, run_id, 1000.0)
        for candidate in ("sha256:best", "sha256:seed"):
            insert_candidate(c, candidate, "[]", {})
        insert_run(
            c,
            RunRecord(run_id, "n", 1.0, "{}", "d", "0.1.0", "sha256:seed", (), "a", "running", None, None),
        )
        digests = dict(zip(ids, contents, strict=True))
        splits = SplitSet(
            json.dumps({"holdout": True, "val_holdout": True, "warnings": []}),
            "digest",
            digest(sorted(contents)),
            digest(sorted(ids)),
            1.0,
            (),
        )
        rows = [("val", SplitTask(TaskRef("v1", "cv"), None, None))]
        rows += [("test", SplitTask(TaskRef(i, d), None, None)) for i, d in digests.items()]
        insert_splits(c, run_id, splits, rows)
    return driver


def open_(ledger, driver, request=REQUEST, **options) -> Ticket:
    return seal.open_attempt(ledger, driver, request, now=2000.0, **options)


def evaluation_key(driver, ticket, candidate="sha256:best", tag="FINAL") -> EvaluationKey:
    return EvaluationKey(driver.run_id, candidate, "test", 2, 7, tag, None, ticket.attempt_id)


def claim(ledger, driver, ticket, count=1, tag="FINAL", candidate="sha256:best"):
    """Claims the first trials of an evaluation of test, as evaluate does."""
    with ledger.write() as c:
        fence = open_evaluation(c, driver, evaluation_key(driver, ticket, candidate, tag), 2001.0)
        trials = [(t, k) for t in TEST_TASKS for k in (0, 1)][:count]
        claim_trials(c, fence, [Claim(t, k, 7 + k) for t, k in trials], 2001.0)
    return fence


def score_everything(ledger, driver, ticket):
    for candidate, tag in (("sha256:best", "FINAL"), ("sha256:seed", "FINAL_seed")):
        fence = claim(ledger, driver, ticket, 4, tag, candidate)
        results = [TrialResult(t, k, Scored(1.0)) for t in TEST_TASKS for k in (0, 1)]
        with ledger.write() as c:
            record_results(c, fence, results, 2002.0)
            finish_evaluation(c, fence, 2002.0)


def commit(ledger, driver, ticket, result='{"test":1.0}'):
    seal.commit(ledger, driver, ticket, result, now=2003.0)


def state(ledger, run_id="r1"):
    with ledger.read() as c:
        return seal.read_state(c, run_id)


def kinds(ledger, run_id="r1"):
    with ledger.read() as c:
        return [event.kind for event in attempts.read_seal_events(c, run_id)]


# --- sealed ---------------------------------------------------------------------------------------


def test_a_run_begins_sealed_and_asking_burns_nothing(ledger):
    start(ledger)
    with ledger.read() as c:
        assert isinstance(seal.reserve(c, "r1"), seal.Sealed)
        assert isinstance(seal.reserve(c, "r1"), seal.Sealed)
    assert kinds(ledger) == []


def test_test_tasks_do_not_leave_the_ledger_through_the_ordinary_door(ledger):
    start(ledger)
    with ledger.read() as c:
        assert [t.ref.id for t in read_split(c, "r1", "val")] == ["v1"]
        with pytest.raises(TestSealError):
            read_split(c, "r1", "test")


def test_the_database_itself_refuses_a_test_evaluation_without_an_attempt(ledger):
    driver = start(ledger)
    with pytest.raises(IntegrityError), ledger.write() as c:
        open_evaluation(c, driver, EvaluationKey("r1", "sha256:best", "test", 2, 7), 1.0)


# --- open -----------------------------------------------------------------------------------------


def test_opening_stores_the_whole_plan_before_the_first_test_task_leaves(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    found = state(ledger)
    assert isinstance(found, seal.Open)
    plan = TestPlan.from_json(found.attempt.plan)
    assert plan == TestPlan(
        "sha256:best",
        "sha256:seed",
        (("x1", "c1"), ("x2", "c2")),
        2,
        7,
        (1, 2),
        REQUEST.adapter_files,
        "0.1.0",
    )
    assert plan.digest == found.attempt.plan_digest == ticket.plan_digest
    assert {task.id for task in ticket.tasks} == set(TEST_TASKS)


def test_the_same_plan_again_is_the_same_attempt(ledger):
    driver = start(ledger)
    first = open_(ledger, driver)
    claim(ledger, driver, first)
    again = open_(ledger, driver)
    assert again == first
    assert kinds(ledger) == ["opened", "continued"]


def test_another_plan_before_any_claim_replaces_the_plan_and_is_the_same_look(ledger):
    driver = start(ledger)
    first = open_(ledger, driver)
    again = open_(ledger, driver, replace(REQUEST, num_trials=5))
    assert again.attempt_id == first.attempt_id
    assert again.plan_digest != first.plan_digest
    found = state(ledger)
    assert isinstance(found, seal.Open)
    assert (found.attempt.number, found.attempt.look) == (1, 1)
    assert kinds(ledger) == ["opened", "replanned"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"best_id": "sha256:other"}, "best_id"),
        ({"seed_id": "sha256:other"}, "seed_id"),
        ({"num_trials": 3}, "num_trials was 2, is 3"),
        ({"base_seed": 8}, "base_seed was 7, is 8"),
        ({"ks": (1,)}, "ks"),
        ({"adapter_files": (("adapter.py", "sha256:b"),)}, "adapter_files"),
        ({"version": "0.2.0"}, "version"),
    ],
)
def test_another_plan_is_refused_once_a_trial_was_claimed(ledger, change, named):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    claim(ledger, driver, ticket)
    with pytest.raises(TestSealError, match="another plan") as refusal:
        open_(ledger, driver, replace(REQUEST, **change))
    assert named in str(refusal.value)
    assert "continues the open attempt" in str(refusal.value)
    assert open_(ledger, driver) == ticket  # the open attempt can still be finished


def test_every_difference_is_named(ledger):
    old = TestPlan("a", "b", (("x", "1"),), 1, 0, (1,), (), "1")
    new = replace(old, num_trials=2, tasks=(("x", "2"),))
    assert [line.split()[0] for line in seal.name_differences(old, new)] == ["tasks", "num_trials"]


def test_a_driver_whose_epoch_is_over_opens_and_commits_nothing(ledger):
    old = start(ledger)
    ticket = open_(ledger, old)
    score_everything(ledger, old, ticket)
    with ledger.write() as c:
        release_lease(c, old, 2000.0)
        acquire_lease(c, "r1", 2001.0)
    with pytest.raises(FencedError):
        open_(ledger, old)
    with pytest.raises(FencedError):
        commit(ledger, old, ticket)
    assert isinstance(state(ledger), seal.Open)


def test_two_processes_that_both_saw_no_attempt_open_only_one(ledger, monkeypatch):
    driver = start(ledger)
    monkeypatch.setattr(seal, "read_state", lambda connection, run_id: seal.Sealed())
    open_(ledger, driver)
    with pytest.raises(IntegrityError):  # the check is blind here: the database still refuses
        open_(ledger, driver)
    with ledger.read() as c:
        assert len(attempts.read_attempts(c, "r1")) == 1


# --- tickets --------------------------------------------------------------------------------------


def test_a_ticket_admits_exactly_what_its_plan_covers(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    good = evaluation_key(driver, ticket)
    with ledger.read() as c:
        check_ticket(c, good, ticket)
        for changed in (
            replace(good, candidate_id="sha256:other"),
            replace(good, num_trials=3),
            replace(good, base_seed=8),
            replace(good, subset=("x1",)),
            replace(good, attempt_id=ticket.attempt_id + 1),
        ):
            with pytest.raises(TestSealError):
                check_ticket(c, changed, ticket)


def test_a_missing_or_forged_ticket_is_refused(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    key = evaluation_key(driver, ticket)
    with ledger.read() as c:
        for forged in (
            None,
            replace(ticket, attempt_id=99),
            replace(ticket, plan_digest="sha256:0"),
            replace(ticket, run_id="r2"),
            replace(ticket, tasks=ticket.tasks[:1]),
        ):
            with pytest.raises(TestSealError):
                check_ticket(c, key, forged)


def test_a_ticket_is_worth_nothing_after_the_commit(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    score_everything(ledger, driver, ticket)
    commit(ledger, driver, ticket)
    with ledger.read() as c, pytest.raises(TestSealError, match="committed"):
        check_ticket(c, evaluation_key(driver, ticket), ticket)


# --- committed ------------------------------------------------------------------------------------


def test_a_committed_run_answers_with_where_its_result_is(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    score_everything(ledger, driver, ticket)
    commit(ledger, driver, ticket)
    found = state(ledger)
    assert isinstance(found, seal.Committed)
    assert found.attempt.result == '{"test":1.0}'
    with ledger.read() as c, pytest.raises(TestSealError, match="scored once") as refusal:
        seal.reserve(c, "r1")
    assert "capevolve report r1" in str(refusal.value)
    with pytest.raises(TestSealError):
        open_(ledger, driver)


def test_an_attempt_with_unfinished_trials_cannot_be_committed(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    with pytest.raises(TestSealError, match="without a result"):
        commit(ledger, driver, ticket)
    claim(ledger, driver, ticket)
    with pytest.raises(TestSealError, match="without a result"):
        commit(ledger, driver, ticket)


def test_a_second_commit_is_refused_and_the_first_result_stays(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    score_everything(ledger, driver, ticket)
    commit(ledger, driver, ticket)
    with pytest.raises(TestSealError):
        commit(ledger, driver, ticket, '{"test":0.5}')
    found = state(ledger)
    assert isinstance(found, seal.Committed)
    assert found.attempt.result == '{"test":1.0}'


def test_the_result_and_the_burned_seal_are_one_transaction(ledger, hook):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    score_everything(ledger, driver, ticket)

    def fail(name):
        if name == "seal.committing":
            raise RuntimeError("the power went out between the result and the seal event")

    hook(fail)
    with pytest.raises(RuntimeError):
        commit(ledger, driver, ticket)
    hook(lambda name: None)
    found = state(ledger)
    assert isinstance(found, seal.Open)
    assert found.attempt.result is None
    commit(ledger, driver, ticket)
    assert isinstance(state(ledger), seal.Committed)


# --- override and looks ---------------------------------------------------------------------------


def test_an_override_is_a_new_attempt_and_a_new_look_on_record(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    score_everything(ledger, driver, ticket)
    commit(ledger, driver, ticket)
    second = open_(ledger, driver, override_reason="the scorer had a bug")
    found = state(ledger)
    assert isinstance(found, seal.Open)
    assert second.attempt_id != ticket.attempt_id
    assert (found.attempt.number, found.attempt.look) == (2, 2)
    assert found.attempt.override_reason == "the scorer had a bug"
    with ledger.read() as c:
        last = attempts.read_seal_events(c, "r1")[-1]
        assert json.loads(last.payload)["override"] == "the scorer had a bug"
        assert attempts.read_attempts(c, "r1")[0].result == '{"test":1.0}'  # the first look stays


def test_an_interrupted_override_is_continued_without_a_reason(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    score_everything(ledger, driver, ticket)
    commit(ledger, driver, ticket)
    second = open_(ledger, driver, override_reason="why")
    claim(ledger, driver, second)
    assert open_(ledger, driver) == second


def test_an_override_of_an_open_attempt_supersedes_it_and_its_look_counts(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    claim(ledger, driver, ticket)
    open_(ledger, driver, replace(REQUEST, num_trials=1), override_reason="wrong trials")
    with ledger.read() as c:
        old, new = attempts.read_attempts(c, "r1")
    assert (old.state, new.state) == ("superseded", "open")
    assert (old.look, new.look) == (1, 2)


def test_looks_are_counted_over_runs(ledger):
    for number in (1, 2, 3):
        open_(ledger, start(ledger, f"r{number}"))
        found = state(ledger, f"r{number}")
        assert isinstance(found, seal.Open)
        assert found.attempt.look == number


def test_renaming_ids_or_shuffling_does_not_reset_the_looks(ledger):
    open_(ledger, start(ledger, "r1", ("c1", "c2"), ("x1", "x2")))
    open_(ledger, start(ledger, "r2", ("c2", "c1"), ("y1", "y2")))  # same contents, other ids, other order
    open_(ledger, start(ledger, "r3", ("c3", "c4"), ("x2", "x1")))  # other contents under the old ids
    open_(ledger, start(ledger, "r4", ("c5", "c6"), ("z1", "z2")))  # a new test set
    looks = []
    for run_id in ("r1", "r2", "r3", "r4"):
        found = state(ledger, run_id)
        assert isinstance(found, seal.Open)
        looks.append(found.attempt.look)
    assert looks == [1, 2, 2, 1]


def test_max_looks_refuses_before_anything_is_opened(ledger):
    open_(ledger, start(ledger, "r1"), max_looks=1)
    driver = start(ledger, "r2")
    with pytest.raises(TestSealError, match="look 2"):
        open_(ledger, driver, max_looks=1)
    assert isinstance(state(ledger, "r2"), seal.Sealed)
    with pytest.raises(TestSealError, match="look 2"):
        open_(ledger, driver, max_looks=1, override_reason="please")


# --- the chain ------------------------------------------------------------------------------------


def edit(url, statement):
    """Changes the database behind the ledger's back."""
    engine = create_engine(url)
    with engine.begin() as c:
        c.execute(statement)
    engine.dispose()


def full_chain(ledger):
    driver = start(ledger)
    ticket = open_(ledger, driver)
    score_everything(ledger, driver, ticket)
    commit(ledger, driver, ticket)
    with ledger.read() as c:
        return attempts.read_seal_events(c, "r1")


def test_an_untouched_chain_holds_and_its_head_is_its_last_hash(ledger):
    chain = full_chain(ledger)
    seal.check_chain("r1", chain)
    with ledger.read() as c:
        assert seal.read_head(c, "r1") == chain[-1].hash
    assert chain[-1].hash.startswith("sha256:")


@pytest.mark.parametrize("column", ["kind", "payload", "at", "previous", "hash"])
def test_editing_any_column_of_a_link_breaks_the_chain(ledger, url, column):
    full_chain(ledger)
    value = 5.0 if column == "at" else "edited"
    edit(url, update(schema.seal_events).where(schema.seal_events.c.seq == 1).values({column: value}))
    with ledger.read() as c, pytest.raises(TamperError, match="chain"):
        seal.check_chain("r1", attempts.read_seal_events(c, "r1"))


def test_removing_a_link_in_the_middle_breaks_the_chain(ledger, url):
    full_chain(ledger)
    edit(url, text("DELETE FROM seal_events WHERE seq = 1"))
    with ledger.read() as c, pytest.raises(TamperError):
        seal.check_chain("r1", attempts.read_seal_events(c, "r1"))


def test_a_chain_of_another_run_does_not_pass_for_this_one(ledger):
    chain = full_chain(ledger)
    with pytest.raises(TamperError):
        seal.check_chain("r2", chain)
