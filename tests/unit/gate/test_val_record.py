"""What a result keeps of val, and the selected mean with its selection accounted for."""

from __future__ import annotations

import pytest

from capevolve.gate.val_record import ValRecord, build_val, shrink_scores
from capevolve.model import Reason

IDS = [f"t{i}" for i in range(6)]


@pytest.fixture
def score(measure):
    """A measurement in which the first `passed` of six tasks pass."""

    def build(passed: int, **changes):
        return measure({i: [float(n < passed)] for n, i in enumerate(IDS)}, **changes)

    return build


@pytest.fixture
def scores(score):
    return {"seed": score(2), "a": score(1), "b": score(5), "c": score(3)}


def test_a_record_has_the_best_and_the_seed_candidate_with_their_errors(measure):
    best = measure({"t0": [1.0, 1.0], "t1": [1.0, 0.0], "t2": [Reason.INFRA, 0.0]}, num_trials=2)
    seed = measure({"t0": [1.0], "t1": [Reason.INFRA], "t2": [0.0]})
    record = build_val("b", "seed", {"b": best, "seed": seed}, fresh=False)
    assert record.best.reward == pytest.approx(0.5)
    assert (record.best.n_tasks, record.best.n_scored, record.best.n_trials) == (3, 3, 5)
    assert (record.baseline.reward, record.baseline.n_tasks, record.baseline.n_scored) == (0.5, 3, 2)
    assert record.baseline.stderr == pytest.approx(0.5)
    assert record.candidates == 2


def test_a_val_without_a_measured_trial_is_undefined_and_not_0(measure):
    nothing = measure({i: [Reason.INFRA] for i in IDS})
    record = build_val("seed", "seed", {"seed": nothing}, fresh=False)
    assert (record.best.reward, record.best.stderr, record.best.n_scored) == (None, None, 0)


@pytest.mark.parametrize(
    ("best", "confirm", "selected", "fresh"),
    [("b", False, True, False), ("b", True, True, True), ("seed", True, False, False), ("seed", False, False, False)],
)  # fmt: skip
def test_only_a_candidate_that_was_chosen_is_selected_and_only_a_confirmed_one_is_fresh(
    scores, best, confirm, selected, fresh
):
    record = build_val(best, "seed", scores, fresh=confirm)
    assert (record.selected, record.fresh) == (selected, fresh)
    assert (record.best == record.baseline) == (best == "seed")


def test_a_candidate_that_was_not_measured_leaves_no_record(scores):
    assert build_val("x", "seed", scores, fresh=False) is None
    del scores["seed"]
    assert build_val("b", "seed", scores, fresh=False) is None


def test_the_selected_mean_is_pulled_towards_the_mean_of_all(scores):
    record = build_val("b", "seed", scores, fresh=False)
    mean = (2 + 1 + 5 + 3) / 24
    assert mean < record.shrunken < 5 / 6
    assert record.shrunken == pytest.approx(mean + record.weight * (5 / 6 - mean))
    assert 0.0 < record.weight < 1.0
    assert record.candidates == 4


def test_fewer_than_four_candidates_are_not_shrunk_and_still_counted(scores):
    del scores["a"]
    record = build_val("b", "seed", scores, fresh=False)
    assert (record.shrunken, record.weight, record.candidates) == (None, None, 3)


def test_a_candidate_that_was_not_asked_every_task_is_not_pulled_towards(scores, measure):
    full = shrink_scores("b", scores)
    partly = measure({**{i: [1.0] for i in IDS[:3]}, **{i: [] for i in IDS[3:]}})
    assert shrink_scores("b", {**scores, "raced": partly}) == full
    lost = measure({**{i: [1.0] for i in IDS[:3]}, IDS[3]: [0.0], **{i: [Reason.INFRA] for i in IDS[4:]}})
    asked = shrink_scores("b", {**scores, "lost": lost})
    assert asked.n == 5
    assert asked != full


def test_a_best_candidate_without_an_error_is_not_shrunk(scores, measure):
    assert shrink_scores("one", {**scores, "one": measure({"t0": [1.0]})}) is None


def test_a_record_is_stored_and_read_back_with_nothing_added(scores):
    record = build_val("b", "seed", scores, fresh=True)
    assert ValRecord.model_validate_json(record.model_dump_json()) == record
    assert set(record.model_dump()) == {
        "best", "baseline", "selected", "fresh", "shrunken", "weight", "candidates",
    }  # fmt: skip
    with pytest.raises(ValueError, match="surprise"):
        ValRecord.model_validate({**record.model_dump(), "surprise": 1})
