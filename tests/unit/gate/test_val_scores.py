"""Which trials stand for a candidate on val: fresh ones where it has them, the selecting ones where not."""

from __future__ import annotations

import pytest

from capevolve.gate import GateSettings
from capevolve.gate.confirm.case import split_race
from capevolve.gate.confirm.history import Past
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.gate.confirm.seeds import StageTag, stage_seed
from capevolve.gate.val_scores import fill_tasks, list_val_keys, read_val_scores
from capevolve.ledger.evaluations import EvaluationKey
from capevolve.ledger.proposals import VerdictRecord
from capevolve.model import Decision, Reason, StageVerdict, TaskRef, Verdict

PROFILE = ConfirmProfile()
CONFIRM = GateSettings(mode="confirm", confirm=PROFILE)
IDS = tuple(f"t{i:02d}" for i in range(10))
REFS = tuple(TaskRef(i, f"sha256:{i}", "odd" if int(i[1:]) % 2 else None) for i in IDS)
SEED, TRIALS = 5, 2
ACCEPT, REJECT = Decision.ACCEPT, Decision.REJECT


def judged(number: int, candidate: str, incumbent: str, decision: Decision, *names: str) -> VerdictRecord:
    stages = tuple(
        StageVerdict(
            stage=name,
            p_value=0.5,
            reject_above=0.7,
            accept_at=0.01 if "look" in name else None,
            slot=1 if "look" in name else None,
            alpha=0.025 if "look" in name else None,
            num_trials=TRIALS if "look" in name else 1,
            base_seed=stage_seed(SEED, candidate, name),
            candidate_evaluation="8",
            incumbent_evaluation="9" if "look" in name else None,
        )
        for name in names
    )
    verdict = Verdict(decision, "confirm", "why", None, None, None, None, 0, 0, 0, 0, (), stages)
    return VerdictRecord(number, candidate, incumbent, 8, 9, "{}", verdict, 0.0)


def key(stage: str, subject: str, candidate: str | None = None, subset=None) -> EvaluationKey:
    candidate = candidate or subject
    arm = "candidate" if candidate == subject else "incumbent"
    trials = TRIALS if "look" in stage else 1
    return EvaluationKey(
        "r1", candidate, "val", trials, stage_seed(SEED, subject, stage), StageTag(stage, arm, subject).text, subset
    )  # fmt: skip


def parts(subject: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    raced, rest = split_race(IDS, PROFILE, SEED, subject)
    return tuple(sorted(raced)), tuple(sorted(rest))


FULL = EvaluationKey("r1", "seed", "val", TRIALS, SEED)
RACED = judged(1, "a", "seed", REJECT, "race")
SCREENED = judged(2, "b", "seed", REJECT, "race", "screen")
FAILED = judged(3, "c", "seed", REJECT, "race", "screen", "look-1", "look-2")
WON = judged(4, "d", "seed", ACCEPT, "race", "screen", "look-1")
AFTER = judged(5, "e", "d", REJECT, "race", "screen", "look-1")
ALL = (RACED, SCREENED, FAILED, WON, AFTER)


def past(known=None, verdicts=ALL) -> Past:
    return Past("r1", "seed", TRIALS, SEED, verdicts, (known or {}).get)


def test_a_candidate_dropped_at_the_race_has_its_race():
    assert list_val_keys(past(), CONFIRM, RACED, IDS) == (key("race", "a", subset=parts("a")[0]),)


def test_a_candidate_dropped_at_the_screen_has_race_and_screen():
    raced, rest = parts("b")
    assert list_val_keys(past(), CONFIRM, SCREENED, IDS) == (
        key("race", "b", subset=raced),
        key("screen", "b", subset=rest),
    )


def test_without_a_race_the_screen_is_of_all_tasks():
    record = judged(1, "a", "seed", REJECT, "screen")
    assert list_val_keys(past(), CONFIRM, record, IDS[:5]) == (key("screen", "a"),)


def test_a_candidate_that_was_not_confirmed_has_its_fresh_trials_and_not_those_that_selected_it():
    assert list_val_keys(past(), CONFIRM, FAILED, IDS) == (key("look-1", "c"), key("look-2", "c"))


def test_an_accepted_candidate_has_its_record_with_later_confirmations_against_it():
    assert list_val_keys(past(), CONFIRM, WON, IDS) == (key("look-1", "d"), key("look-1", "e", "d"))
    assert list_val_keys(past(verdicts=ALL[:4]), CONFIRM, WON, IDS) == (key("look-1", "d"),)


@pytest.mark.parametrize("record", ALL)
def test_in_every_other_mode_a_candidate_has_its_full_evaluation(record):
    expected = EvaluationKey("r1", record.candidate_id, "val", TRIALS, SEED)
    assert list_val_keys(past(), GateSettings(), record, IDS) == (expected,)


@pytest.fixture
def known(measure):
    """Every evaluation of the run: a stage's trials give its own reward, so that it shows where they went."""

    def of(reward: float, key_: EvaluationKey):
        rows = {i: [reward] * key_.num_trials for i in key_.subset or IDS}
        clusters = {ref.id: ref.cluster for ref in REFS if ref.cluster}
        return measure(rows, clusters, candidate_id=key_.candidate_id, num_trials=key_.num_trials)

    found = {FULL: of(0.5, FULL)}
    rewards = {"race": 0.1, "screen": 0.2, "look-1": 0.6, "look-2": 0.8}
    for record in ALL:
        subject = record.candidate_id
        raced, rest = parts(subject)
        for stage in record.verdict.stages:
            subset = {"race": raced, "screen": rest}.get(stage.stage)
            mine = key(stage.stage, subject, subset=subset)
            found[mine] = of(rewards[stage.stage], mine)
            if stage.slot is not None:
                theirs = key(stage.stage, subject, record.incumbent_id)
                found[theirs] = of(0.4, theirs)
    return found


def test_the_scores_of_a_run_are_of_the_seed_candidate_and_of_all_that_were_judged(known):
    scores = read_val_scores(past(known), CONFIRM, REFS)
    assert set(scores) == {"seed", "a", "b", "c", "d", "e"}
    for candidate, measurement in scores.items():
        assert measurement.candidate_id == candidate
        assert tuple(task.task_id for task in measurement.tasks) == IDS
    rewards = {name: {task.rewards for task in found.tasks} for name, found in scores.items()}
    assert rewards["seed"] == {(0.5,) * 2 + (0.4,) * 6}  # its evaluation, two looks of c, one of d
    assert rewards["a"] == {(0.1,), ()}
    assert rewards["b"] == {(0.1,), (0.2,)}
    assert rewards["c"] == {(0.6, 0.6, 0.8, 0.8)}
    assert rewards["d"] == {(0.6, 0.6, 0.4, 0.4)}
    assert rewards["e"] == {(0.6, 0.6)}


def test_tasks_that_a_dropped_candidate_was_not_asked_have_no_trial_and_stay_in_their_place(known):
    tasks = read_val_scores(past(known), CONFIRM, REFS)["a"].tasks
    raced = parts("a")[0]
    for task, ref in zip(tasks, REFS, strict=True):
        assert (task.task_id, task.cluster) == (ref.id, ref.cluster)
        assert bool(task.rewards) == (ref.id in raced)
        assert task.unmeasured == ()


def test_the_trials_per_task_are_those_that_a_task_was_asked(known):
    scores = read_val_scores(past(known), CONFIRM, REFS)
    asked = {name: found.num_trials for name, found in scores.items()}
    assert asked == {"seed": 8, "a": 1, "b": 1, "c": 4, "d": 4, "e": 2}


def test_a_candidate_of_which_nothing_is_measured_has_no_score(known):
    del known[key("race", "a", subset=parts("a")[0])]
    assert "a" not in read_val_scores(past(known), CONFIRM, REFS)
    assert read_val_scores(past({}), CONFIRM, REFS) == {}


def test_verdicts_that_are_left_out_leave_no_trace(known):
    scores = read_val_scores(past(known, ALL[:3]), CONFIRM, REFS)
    assert set(scores) == {"seed", "a", "b", "c"}
    assert {task.rewards for task in scores["seed"].tasks} == {(0.5,) * 2 + (0.4,) * 4}


def test_filling_keeps_what_was_measured_and_what_was_lost(measure):
    given = measure({"t01": [Reason.INFRA, 1.0], "t00": [0.0]})
    filled = fill_tasks(given, REFS[:3])
    assert [task.task_id for task in filled.tasks] == ["t00", "t01", "t02"]
    assert filled.tasks[1] == given.tasks[0]
    assert (filled.tasks[2].rewards, filled.tasks[2].unmeasured) == ((), ())
