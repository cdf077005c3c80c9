"""What earlier verdicts leave behind: slots used up, and which trials make up an incumbent's record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capevolve.gate import GateSettings
from capevolve.gate.confirm.case import plan_stages
from capevolve.gate.confirm.history import (
    Past,
    build_case,
    count_failures,
    full_key,
    list_record_keys,
    read_record,
    stage_key,
)
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.gate.confirm.seeds import AA, StageTag, fresh_seed
from capevolve.ledger.evaluations import EvaluationKey
from capevolve.ledger.proposals import VerdictRecord
from capevolve.model import Decision, StageVerdict, Verdict

ACCEPT, REJECT, INDECISIVE = Decision.ACCEPT, Decision.REJECT, Decision.INDECISIVE
CONFIRM = GateSettings(mode="confirm", confirm=ConfirmProfile(peek_frac=1.0))
PAIRED = GateSettings()
IDS = tuple(f"t{i:02d}" for i in range(10))
TRIALS, SEED = 3, 7


def stage(name: str, subject: str, p: float | None = 0.5, slot: int | None = None, trials: int = 1):
    look = name.startswith("look-")
    return StageVerdict(
        stage=name,
        p_value=p,
        reject_above=0.5,
        accept_at=0.01 if look else None,
        slot=(slot or 1) if look else None,
        alpha=0.025 if look else None,
        num_trials=trials,
        base_seed=fresh_seed(SEED, subject, name) if look else SEED,
        candidate_evaluation="8",
        incumbent_evaluation="9" if look else None,
    )


def judged(iteration: int, candidate: str, incumbent: str, decision: Decision, *stages) -> VerdictRecord:
    """A verdict; a stage is a name, or (name, p-value)."""
    named = [item if isinstance(item, tuple) else (item, 0.5) for item in stages]
    found = tuple(stage(name, candidate, p, trials=TRIALS if "look" in name else 1) for name, p in named)
    rule = "confirm" if found and found[-1].slot else "race"
    verdict = Verdict(decision, rule, "why", None, None, None, None, 0, 0, 0, 0, (), found)
    return VerdictRecord(iteration, candidate, incumbent, 8, 9, "{}", verdict, 0.0)


def past(*verdicts: VerdictRecord, find=None) -> Past:
    known = find or {}
    return Past("r1", "seed", TRIALS, SEED, verdicts, known.get)


def look(subject: str, number: int, arm: str, candidate: str) -> EvaluationKey:
    name = f"look-{number}"
    tag = StageTag(name, arm, subject).text
    return EvaluationKey("r1", candidate, "val", TRIALS, fresh_seed(SEED, subject, name), tag)


FULL = EvaluationKey("r1", "seed", "val", TRIALS, SEED)
LOST_RACE = judged(1, "a", "seed", REJECT, "race")
LOST_SCREEN = judged(2, "b", "seed", REJECT, "race", "screen")
FAILED = judged(3, "c", "seed", REJECT, "race", "screen", "look-1", "look-2")
KEPT = judged(4, "d", "seed", INDECISIVE, "race", "screen", ("look-1", None))
WON = judged(5, "e", "seed", ACCEPT, "race", "screen", "look-1")
AFTER = judged(6, "f", "e", REJECT, "race", "screen", "look-1")


# --- slots ----------------------------------------------------------------------------------------


def test_only_a_confirmation_that_computed_a_p_value_and_did_not_accept_uses_a_slot():
    for record, used in ((LOST_RACE, 0), (LOST_SCREEN, 0), (FAILED, 1), (KEPT, 0), (WON, 0), (AFTER, 1)):
        assert count_failures([record]) == used, record.candidate_id
    assert count_failures([LOST_RACE, LOST_SCREEN, FAILED, KEPT, WON, AFTER]) == 2
    assert count_failures([]) == 0


def test_an_indecisive_look_after_a_p_value_uses_its_slot():
    assert count_failures([judged(1, "a", "seed", INDECISIVE, "screen", "look-1", ("look-2", None))]) == 1


# --- the record -----------------------------------------------------------------------------------


def test_the_seed_candidates_record_begins_with_its_full_evaluation():
    assert list_record_keys(past(), "seed", CONFIRM) == (FULL,)
    assert full_key(past(), "seed") == FULL


def test_confirmations_that_never_came_to_a_look_leave_nothing():
    assert list_record_keys(past(LOST_RACE, LOST_SCREEN), "seed", CONFIRM) == (FULL,)


def test_the_incumbents_fresh_trials_of_every_confirmation_against_it_join_its_record():
    keys = list_record_keys(past(LOST_RACE, FAILED, KEPT, WON), "seed", CONFIRM)
    assert keys == (
        FULL,
        look("c", 1, "incumbent", "seed"),
        look("c", 2, "incumbent", "seed"),
        look("d", 1, "incumbent", "seed"),
        look("e", 1, "incumbent", "seed"),
    )


def test_the_trials_of_a_peek_join_the_record_by_their_tasks():
    peek = replace(stage("look-1", "p", 0.9), stage="peek", accept_at=None, task_ids=IDS[:5])
    verdict = judged(1, "p", "seed", REJECT, "race", "screen")
    verdict = replace(verdict, verdict=replace(verdict.verdict, stages=(*verdict.verdict.stages, peek)))
    full, half = list_record_keys(past(verdict), "seed", CONFIRM)
    assert full == FULL
    assert (half.tag, half.subset) == ("peek/incumbent/p", IDS[:5])


def test_an_accepted_candidates_record_is_what_confirmed_it_and_not_what_selected_it():
    keys = list_record_keys(past(FAILED, WON), "e", CONFIRM)
    assert keys == (look("e", 1, "candidate", "e"),)


def test_later_confirmations_against_an_accepted_candidate_join_its_record_and_no_longer_the_seeds():
    run = past(FAILED, WON, AFTER)
    assert list_record_keys(run, "e", CONFIRM) == (
        look("e", 1, "candidate", "e"),
        look("f", 1, "incumbent", "e"),
    )
    assert look("f", 1, "incumbent", "e") not in list_record_keys(run, "seed", CONFIRM)
    assert len(list_record_keys(run, "seed", CONFIRM)) == 4


def test_a_candidate_that_failed_has_no_record():
    assert list_record_keys(past(FAILED, LOST_RACE), "c", CONFIRM) == ()


@pytest.mark.parametrize("candidate", ["seed", "e", "c"])
def test_in_every_other_mode_the_record_is_the_full_evaluation(candidate: str):
    expected = replace(FULL, candidate_id=candidate)
    assert list_record_keys(past(FAILED, WON, AFTER), candidate, PAIRED) == (expected,)


def test_a_record_is_read_over_the_val_tasks_with_every_trial(measure):
    rows = {i: [0.0] * TRIALS for i in IDS}
    fresh = {i: [1.0] * TRIALS for i in reversed(IDS)}
    known = {
        FULL: measure(rows, evaluation_id="1", candidate_id="seed", num_trials=TRIALS),
        look("c", 1, "incumbent", "seed"): measure(fresh, candidate_id="seed", num_trials=TRIALS),
        look("c", 2, "incumbent", "seed"): measure(fresh, candidate_id="seed", num_trials=TRIALS),
    }
    record = read_record(past(FAILED, find=known), "seed", CONFIRM, IDS)
    assert record is not None
    assert tuple(task.task_id for task in record.tasks) == IDS
    assert {task.rewards for task in record.tasks} == {(0.0,) * 3 + (1.0,) * 6}
    assert (record.evaluation_id, record.num_trials) == ("1", 9)


def test_a_record_of_which_an_evaluation_is_missing_is_no_record(measure):
    rows = {i: [0.0] for i in IDS}
    known = {FULL: measure(rows, candidate_id="seed")}
    assert read_record(past(find=known), "seed", CONFIRM, IDS) is not None
    assert read_record(past(FAILED, find=known), "seed", CONFIRM, IDS) is None
    assert read_record(past(), "seed", CONFIRM, IDS) is None
    assert read_record(past(), "nobody", CONFIRM, IDS) is None


def test_the_candidates_that_were_judged_are_known():
    assert past(FAILED, WON).judged == {"seed", "c", "e"}


# --- the case -------------------------------------------------------------------------------------


class Run:
    """A run under way: `measured` is what its ledger has of the candidate's stages."""

    def __init__(self, measure, profile=None, subject="c1", candidate="c1"):
        self.measure, self.profile = measure, profile or ConfirmProfile(peek_frac=1.0)
        self.subject, self.candidate = subject, candidate
        self.measured: dict[EvaluationKey, object] = {}

    @property
    def record(self):
        return self.measure({i: [0.0, 1.0] for i in IDS}, candidate_id="seed", num_trials=2)

    def case(self, *verdicts):
        return build_case(
            past(*verdicts, find=self.measured),
            self.profile,
            self.record,
            subject=self.subject,
            candidate_id=self.candidate,
            incumbent_id="seed",
        )

    def add(self, name: str, *arms: str) -> None:
        (ask,) = [ask for ask in plan_stages(self.case()) if ask.stage == name]
        for arm in arms:
            candidate = self.candidate if arm == "candidate" else "seed"
            key = stage_key("r1", ask, StageTag(name, arm, self.subject), candidate)
            rows = {i: [1.0] * ask.num_trials for i in ask.task_ids or IDS}
            self.measured[key] = self.measure(rows, evaluation_id=f"{name} {arm}", candidate_id=candidate)

    def stages(self, *verdicts) -> list[str]:
        return [evidence.stage for evidence in self.case(*verdicts).evidence]


def test_a_new_case_knows_the_run_and_has_no_evidence(measure):
    case = Run(measure).case(FAILED, AFTER, KEPT)
    assert (case.subject, case.run_seed, case.look_trials, case.failures) == ("c1", SEED, TRIALS, 2)
    assert case.evidence == ()


def test_evidence_is_what_was_measured_stage_by_stage(measure):
    run = Run(measure)
    assert run.stages() == []
    run.add("race", "candidate")
    assert run.stages() == ["race"]
    run.add("screen", "candidate")
    run.add("look-1", "candidate", "incumbent")
    race, screen, first = run.case().evidence
    assert (race.candidate.evaluation_id, race.incumbent) == ("race candidate", None)
    assert screen.incumbent is None
    assert (first.candidate.evaluation_id, first.incumbent.evaluation_id) == (
        "look-1 candidate",
        "look-1 incumbent",
    )


@pytest.mark.parametrize("arm", ["candidate", "incumbent"])
def test_a_look_of_which_one_arm_is_missing_is_no_evidence(measure, arm: str):
    run = Run(measure)
    run.add("race", "candidate")
    run.add("screen", "candidate")
    run.add("look-1", arm)
    assert run.stages() == ["race", "screen"]


def test_evidence_ends_at_the_first_stage_that_was_not_measured(measure):
    run = Run(measure)
    run.add("race", "candidate")
    run.add("look-1", "candidate", "incumbent")
    run.add("look-2", "candidate", "incumbent")
    assert run.stages() == ["race"]
    run.add("screen", "candidate")
    assert run.stages() == ["race", "screen", "look-1", "look-2"]


def test_trials_of_another_candidates_confirmation_are_no_evidence(measure):
    run, other = Run(measure), Run(measure, subject="c2", candidate="c2")
    other.add("race", "candidate")
    other.add("screen", "candidate")
    other.add("look-1", "candidate", "incumbent")
    run.measured = other.measured
    assert run.stages() == []


def test_a_control_judges_the_seed_candidate_under_a_name_of_its_own(measure):
    run = Run(measure, subject=AA, candidate="seed")
    for name in ("race", "screen"):
        run.add(name, "candidate")
    run.add("look-1", "candidate", "incumbent")
    assert run.stages() == ["race", "screen", "look-1"]
    assert len(run.measured) == 4  # both arms of the look are the seed candidate and still two evaluations
    assert {key.candidate_id for key in run.measured} == {"seed"}
    assert all(key.base_seed != SEED for key in run.measured)


def test_auto_sizes_the_looks_from_the_incumbents_record(measure):
    large, small = (
        replace(ConfirmProfile(peek_frac=1.0), look_trials="auto", effect=effect) for effect in (0.5, 0.1)
    )
    # 2 * 0.5 * (z + z)^2 / (10 * effect^2) over the 4 units of the looks, rounded up.
    assert Run(measure, large).case().look_trials == 2
    assert Run(measure, small).case().look_trials == 26


def test_the_tasks_of_a_stage_are_part_of_its_evaluations_identity(measure):
    race = plan_stages(Run(measure).case())[0]
    key = stage_key("r1", race, StageTag("race", "candidate", "c1"), "c1")
    assert key.subset == tuple(sorted(race.task_ids))
    shuffled = replace(race, task_ids=race.task_ids[::-1])
    assert stage_key("r1", shuffled, StageTag("race", "candidate", "c1"), "c1") == key
