"""What a report says of a run in mode confirm: which trials a score rests on, and what the gate claims."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from capevolve.gate.from_spec import gate_settings
from capevolve.gate.record import find_ask, locate, read_past, record_verdict
from capevolve.gate.val_record import build_val
from capevolve.gate.val_scores import read_val_scores
from capevolve.ledger.evaluations import finish_evaluation, open_evaluation
from capevolve.ledger.trials import Claim, TrialResult, claim_trials, record_results
from capevolve.model import Decision, Reason
from capevolve.report import read_facts, render_html, render_markdown, render_status
from capevolve.report.rows import candidate_rows
from capevolve.report.sections import build_sections
from capevolve.report.values import ConfirmFacts

KNOBS = {
    "alpha_run": 0.4,
    "max_failed_confirmations": 3,
    "screen_p": 1.0,
    "race_kill_p": 0.9,
    "look_futility": [1.0, 1.0],
    "peek_frac": 1.0,
}


LOOKS = ("look-1", "look-2", "look-3")


def half(number: int, trial: int) -> float:
    """Every other task passes."""
    return number % 2


def more(number: int, trial: int) -> float:
    """Three of four tasks pass."""
    return float(number % 4 != 0)


def none(number: int, trial: int) -> float:
    return 0.0


def ones(number: int, trial: int) -> float:
    return 1.0


class Confirmation:
    """A story whose candidates go through mode confirm, stage by stage."""

    def __init__(self, story) -> None:
        self.story = story
        self.run = SimpleNamespace(
            id=story.run_id, spec=story.spec, ledger=story.ledger, driver=story.driver, clock=story.tick
        )
        self.ids = [ref.id for ref in story.refs["val"]]
        story.measure({i: (half(n, 0),) for n, i in enumerate(self.ids)})

    def write(self, key, world, *, finished=True, leave: int = 0) -> None:
        pairs = [
            (i, k)
            for i in self.ids
            for k in range(key.num_trials)
            if key.subset is None or i in key.subset
        ]  # fmt: skip
        with self.story.ledger.write() as connection:
            fence = open_evaluation(connection, self.story.driver, key, self.story.tick())
            claim_trials(
                connection, fence, [Claim(i, k, key.base_seed + k) for i, k in pairs], self.story.now
            )
            results = [
                TrialResult(i, k, self.story._outcome(world(self.ids.index(i), k)))
                for i, k in pairs[: len(pairs) - leave]
            ]
            record_results(connection, fence, results, self.story.tick())
            if finished and not leave:
                finish_evaluation(connection, fence, self.story.tick())

    def answer(self, mine, theirs=half, **options) -> str:
        match, ask = find_ask(self.run, self.story.iteration)
        self.write(locate(self.run.id, match, ask, "candidate"), mine, **options)
        if ask.both:
            self.write(locate(self.run.id, match, ask, "incumbent"), theirs, **options)
        return ask.stage

    def judge(self, text: str, mine, theirs=half):
        """A proposal whose trials give `mine`, a function or one for each stage; the incumbent's `theirs`."""
        candidate = self.story.propose(text, summary=text)
        while (ask := find_ask(self.run, self.story.iteration)[1]) is not None:
            self.answer(mine[ask.stage] if isinstance(mine, dict) else mine, theirs)
        record = record_verdict(self.run, self.story.iteration)
        if record.verdict.decision is Decision.ACCEPT:
            self.story.best_id = candidate
        return record.verdict

    def facts(self):
        return self.story.facts()

    def val_record(self):
        """What a finalize now would keep of val."""
        settings = gate_settings(self.story.spec.gate)
        with self.story.ledger.read() as connection:
            scores = read_val_scores(read_past(connection, self.run), settings, self.story.refs["val"])
        return build_val(self.story.best_id, self.story.seed_id, scores, fresh=True)


@pytest.fixture
def begin(tell):
    def make(folder: str = "project", **knobs) -> Confirmation:
        return Confirmation(tell(folder, sizes=(2, 12, 8), gate={"confirm": {**KNOBS, **knobs}}))

    return make


@pytest.fixture(scope="module")
def whole(story_type, tmp_path_factory) -> Iterator[Confirmation]:
    """Four edits: lost at the race, lost after it, not confirmed, confirmed by trials worse than its screen.

    Told once: the tests only read it.
    """
    gate = {"confirm": {**KNOBS, "screen_p": 0.5}}
    told = Confirmation(story_type(tmp_path_factory.mktemp("whole"), sizes=(2, 12, 8), gate=gate))
    assert told.judge("lost at once", none).rule == "race"
    assert told.judge("lost later", {"race": ones, "screen": none}).rule == "screen"
    assert (
        told.judge("not confirmed", {"race": more, "screen": more, **dict.fromkeys(LOOKS, half)}).rule
        == "confirm"
    )
    verdict = told.judge("confirmed", {"race": ones, "screen": ones, **dict.fromkeys(LOOKS, more)}, none)
    assert verdict.decision is Decision.ACCEPT
    yield told
    told.story.ledger.close()


# --- scores ---------------------------------------------------------------------------------------


def test_a_candidate_dropped_at_the_race_has_a_score_of_part_of_the_val_tasks(whole):
    facts = whole.facts()
    iteration = facts.iterations[0]
    score = iteration.evaluation.score
    assert (score.n_scored, score.n_tasks, score.coverage) == (6, 12, 0.5)
    assert (score.mean, score.num_trials, score.n_trials, score.n_missing) == (0.0, 1, 6, 0)
    assert (iteration.evaluation.done, iteration.evaluation.total) == (6, 6)
    row = candidate_rows(facts)[1]
    assert row.n == "6 of 12 (50 %)"
    assert row.val.startswith("0.000 ±")
    assert row.verdict == "reject"
    assert "its race" in row.reason


def test_a_candidate_dropped_at_the_screen_has_one_trial_of_every_val_task(whole):
    score = whole.facts().iterations[1].evaluation.score
    assert (score.n_scored, score.n_tasks, score.num_trials, score.n_trials) == (12, 12, 1, 12)


def test_a_candidate_that_was_not_confirmed_has_its_fresh_trials(whole):
    iteration = whole.facts().iterations[2]
    score = iteration.evaluation.score
    assert score.mean == 0.5  # half of the tasks, and not the three quarters that selected it
    assert (score.n_scored, score.num_trials, score.n_trials) == (12, 4, 48)


def test_an_accepted_candidate_has_the_fresh_trials_that_confirmed_it_and_not_the_lucky_ones(whole):
    facts = whole.facts()
    best = facts.iterations[3].evaluation
    assert best.candidate_id == facts.best_id
    assert facts.best_val == best
    assert (best.score.mean, best.score.num_trials, best.score.n_trials) == (0.75, 1, 12)
    assert "fresh trials that confirmed it" in render_markdown(facts)


def test_the_seed_candidates_score_gathers_the_fresh_trials_of_every_confirmation_against_it(whole):
    baseline = whole.facts().baseline.score
    # One trial of its own, four beside the candidate that failed, one beside the accepted one.
    assert (baseline.num_trials, baseline.n_trials) == (6, 72)
    assert baseline.mean == pytest.approx((5 * 0.5 + 1 * 0.0) / 6)


def test_the_matrix_shows_what_was_not_asked_as_not_run(whole):
    matrix = whole.facts().matrix
    assert [column.iteration for column in matrix.columns] == [0, 1, 2, 3, 4]
    raced = [row.cells[1] for row in matrix.rows]
    assert sum(cell.mean is None for cell in raced) == 6
    assert {cell.note for cell in raced if cell.mean is None} == {"no trial was run"}
    assert {cell.n_trials for cell in raced} == {0, 1}
    assert all(cell.n_trials == 1 for cell in (row.cells[2] for row in matrix.rows))


def test_the_trajectory_follows_the_records(whole):
    points = whole.facts().trajectory
    assert [point.iteration for point in points] == [0, 1, 2, 3, 4]
    assert points[-1].score.mean == 0.75


def test_a_candidate_under_confirmation_has_progress_and_no_score(begin):
    told = begin()
    told.story.propose("under way")
    assert told.facts().iterations[0].evaluation is None
    told.answer(more, leave=2)
    facts = told.facts().iterations[0].evaluation
    assert (facts.done, facts.total, facts.score) == (4, 6, None)


def test_between_two_stages_a_candidate_has_no_score_although_every_trial_has_its_result(begin):
    told = begin()
    told.story.propose("under way")
    told.answer(more)
    told.answer(more)
    facts = told.facts()
    evaluation = facts.iterations[0].evaluation
    assert (evaluation.done, evaluation.total, evaluation.score) == (12, 12, None)
    assert facts.iterations[0].verdict is None
    assert candidate_rows(facts)[1].val == "measuring: 12 of 12 trials"
    assert facts.baseline.score.n_trials == 12


def test_trials_of_the_incumbent_beside_a_candidate_under_confirmation_wait_for_its_verdict(begin):
    told = begin()
    told.story.propose("under way")
    for _ in range(3):
        told.answer(more, none)
    facts = told.facts()
    assert (facts.baseline.done, facts.baseline.score.n_trials) == (12, 12)
    assert facts.iterations[0].evaluation.total == 12 + 12


def test_trials_without_a_reward_are_missing_and_disclosed(begin):
    told = begin()
    lost = lambda number, trial: Reason.INFRA if number == 3 else more(number, trial)  # noqa: E731
    verdict = told.judge("edit", lost, lambda number, trial: 0.0)
    assert verdict.decision is Decision.ACCEPT
    score = told.facts().best_val.score
    assert (score.n_scored, score.n_missing) == (11, score.num_trials)
    texts = [d.text for d in told.facts().disclosures if d.kind == "missing"]
    assert any("the best candidate on val was measured on 11 of 12 tasks" in text for text in texts)


# --- the gate's claim -----------------------------------------------------------------------------


def test_the_gate_states_its_bound_and_how_many_slots_failed(whole):
    facts = whole.facts()
    assert facts.gate.mode == "confirm"
    assert facts.gate.confirm == ConfirmFacts(alpha_run=0.4, slots=3, failed=1)
    assert facts.gate.looks == 4
    assert facts.gate.false_accept is None
    assert facts.gate.any_false_accept == 0.4  # the bound, and no estimate
    (text,) = [d.text for d in facts.disclosures if d.kind == "gate_claim"]
    assert "at most 40 %; 1 of 3 confirmations that may fail did" in text
    assert "it does not cover edits that fit them and no others" in text
    assert "sealed test" in text
    assert "gate_cost" not in {d.kind for d in facts.disclosures}


def test_before_the_first_verdict_the_claim_stands_and_nothing_failed(begin):
    facts = begin().facts()
    assert facts.gate.confirm == ConfirmFacts(0.4, 3, 0)
    (text,) = [d.text for d in facts.disclosures if d.kind == "gate_claim"]
    assert "0 of 3 confirmations" in text


def test_the_table_of_candidates_names_the_knobs_of_confirm(whole):
    section = next(s for s in build_sections(whole.facts()) if s.key == "candidates")
    assert "Gate: mode confirm, alpha_run 0.4, 1 of 3 slots used, min_coverage 0.6." in section.lines[0]
    assert "k_se" not in section.lines[0]


def test_the_other_modes_have_no_claim(tell):
    story = tell(gate={"mode": "threshold", "threshold": 0.1})
    facts = story.facts()
    assert facts.gate.confirm is None
    assert "gate_claim" not in {d.kind for d in facts.disclosures}


def test_a_confirmed_mean_is_said_to_be_fresh_and_still_biased(whole):
    (text,) = [d.text for d in whole.facts().disclosures if d.kind == "selected"]
    assert "rests on fresh trials and not on those that selected it" in text
    assert "still biased upward, if less" in text
    assert "0.750 ±" in text
    assert "selected maximum" not in text


def test_a_run_without_an_acceptance_discloses_no_selection(begin):
    told = begin()
    told.judge("lost", none)
    kinds = {d.kind for d in told.facts().disclosures}
    assert "selected" not in kinds
    assert "no_accept" in kinds


def test_every_surface_can_be_rendered(whole):
    facts = whole.facts()
    for text in (render_markdown(facts), render_html(facts)):
        assert "alpha_run 0.4" in text
        assert "nan" not in text.replace("nance", "")
        assert "None" not in text


# --- status and result ----------------------------------------------------------------------------


def test_status_says_the_same_as_the_report(whole):
    facts = whole.facts()
    status = render_status(facts)
    assert [i["state"] for i in status["iterations"]] == ["reject", "reject", "reject", "accept, incumbent"]
    for stated, iteration in zip(status["iterations"], facts.iterations, strict=True):
        score = iteration.evaluation.score
        assert stated["val"]["score"]["reward"] == score.mean
        assert stated["val"]["score"]["n_scored"] == score.n_scored
        assert stated["val"]["score"]["num_trials"] == score.num_trials
        assert stated["val"]["trials_done"] == stated["val"]["trials_total"] == score.n_trials
        assert stated["verdict"]["p_value"] == iteration.verdict.p_value
        assert stated["verdict"]["bar"] is None
    assert status["incumbent_val"] == status["iterations"][3]["val"]
    assert status["baseline_val"]["score"]["n_trials"] == facts.baseline.score.n_trials
    assert [d["text"] for d in status["disclosures"] if d["kind"] == "gate_claim"] == [
        d.text for d in facts.disclosures if d.kind == "gate_claim"
    ]


def test_what_a_result_would_keep_of_val_is_what_the_report_shows(whole):
    facts, val = whole.facts(), whole.val_record()
    for kept, shown in ((val.best, facts.best_val.score), (val.baseline, facts.baseline.score)):
        assert kept.reward == pytest.approx(shown.mean)
        assert (kept.n_tasks, kept.n_scored, kept.n_trials) == (shown.n_tasks, shown.n_scored, shown.n_trials)
        assert math.isclose(kept.stderr, shown.se)
    assert (val.selected, val.fresh) == (True, True)
    # Shrunk over all that were asked every val task; the one lost at the race was not.
    assert facts.shrinkage.n == val.candidates == 4
    assert (val.shrunken, val.weight) == (
        pytest.approx(facts.shrinkage.value),
        pytest.approx(facts.shrinkage.weight),
    )


def test_reading_the_facts_twice_gives_the_same(whole):
    first = read_facts(whole.story.ledger, whole.story.run_id, now=5.0)
    assert read_facts(whole.story.ledger, whole.story.run_id, now=5.0) == first
