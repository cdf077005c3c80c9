"""`final.json` from measurements: undefined is null with a reason, never 0 and never NaN."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from capevolve.ledger.runs import SplitSet
from capevolve.model import Measurement, Reason, TaskOutcomes, Unmeasured
from capevolve.result import INDICATIVE_BELOW, FinalResult, SealRecord, build_result

CRASH = Unmeasured(Reason.CRASH, "SIGSEGV")


def _measure(rows, candidate="sha256:best", clusters=None):
    tasks = tuple(
        TaskOutcomes(
            task_id,
            tuple(r for r in trials if isinstance(r, float)),
            tuple(r for r in trials if not isinstance(r, float)),
            (clusters or {}).get(task_id),
        )
        for task_id, trials in rows.items()
    )
    most = max((len(trials) for trials in rows.values()), default=1)
    return Measurement("1", candidate, "test", most, 0, tasks)


def _splits(holdout=True):
    payload = {"holdout": holdout, "val_holdout": True, "warnings": []}
    return SplitSet(json.dumps(payload), "sha256:s", "sha256:t", "sha256:i", 0.0, (("test", 4),))


def _build(best, seed=None, *, holdout=True, ks=(1, 2), looks=1, **seal):
    record = SealRecord(
        **{
            "look": looks,
            "looks": looks,
            "attempts": 1,
            "interrupted_trials": 0,
            "override_reason": None,
            "plan_digest": "sha256:p",
            "test_digest": "sha256:t",
            "chain_head": "sha256:h",
            **seal,
        }
    )
    return build_result(
        run_id="r1",
        version="0.1.0",
        best_id="sha256:best",
        seed_id="sha256:best" if seed is None else "sha256:seed",
        best=best,
        seed=seed,
        ks=ks,
        splits=_splits(holdout),
        seal=record,
    )


def test_both_candidates_and_the_paired_delta_on_the_same_tasks():
    best = _measure({"a": [1.0, 1.0], "b": [1.0, 0.0], "c": [0.0, 0.0]})
    seed = _measure({"a": [0.0, 0.0], "b": [1.0, 0.0], "c": [0.0, 1.0]}, "sha256:seed")
    result = _build(best, seed)
    assert (result.test.reward, result.test_baseline.reward) == (0.5, pytest.approx(1 / 3))
    assert (result.best_id, result.baseline_id) == ("sha256:best", "sha256:seed")
    assert (result.test.n_tasks, result.test.n_scored, result.test.coverage, result.test.n_trials) == (
        3,
        3,
        1.0,
        6,
    )
    delta = result.test_delta
    assert delta is not None
    assert delta.delta == pytest.approx(1 / 6)
    assert (delta.n, delta.improved, delta.worse, delta.same) == (3, 1, 1, 1)
    assert delta.ci95 is not None
    assert delta.ci95[0] < delta.delta < delta.ci95[1]
    assert result.test_delta_reason is None
    assert set(result.test.pass_k) == {"1", "2"}
    assert result.test.pass_k["2"].value == pytest.approx(1 / 3)
    assert result.test.pass_at_k["2"].value == pytest.approx(2 / 3)


def test_when_nothing_was_accepted_the_delta_is_null_with_a_reason_not_0():
    result = _build(_measure({"a": [1.0], "b": [0.0]}))
    assert result.test_delta is None
    assert result.test_delta_reason == "no_change"
    assert result.test == result.test_baseline


def test_when_nothing_was_measured_on_both_sides_the_delta_is_null_with_a_reason():
    result = _build(_measure({"a": [1.0], "b": [CRASH]}), _measure({"a": [CRASH], "b": [1.0]}, "sha256:seed"))
    assert (result.test_delta, result.test_delta_reason) == (None, "not_measured")


def test_when_nothing_was_measured_at_all_the_score_is_null_and_coverage_0():
    result = _build(_measure({"a": [CRASH], "b": [CRASH]}))
    assert (result.test.reward, result.test.stderr, result.test.coverage) == (None, None, 0.0)
    assert (result.test.n_missing, result.test.n_trials) == (2, 0)
    assert result.test.pass_k == {}


def test_tasks_that_one_side_lacks_are_named():
    best = _measure({"a": [1.0], "b": [1.0], "c": [CRASH]})
    seed = _measure({"a": [0.0], "b": [CRASH], "c": [0.0]}, "sha256:seed")
    delta = _build(best, seed).test_delta
    assert delta is not None
    assert delta.n == 1
    assert [task for task, _ in delta.dropped] == ["b", "c"]


def test_an_interval_that_is_undefined_is_null():
    delta = _build(_measure({"a": [1.0]}), _measure({"a": [0.0]}, "sha256:seed")).test_delta
    assert delta is not None
    assert (delta.stderr, delta.ci95, delta.p_t, delta.degenerate, delta.indicative) == (
        None,
        None,
        None,
        True,
        True,
    )


def test_few_tasks_make_the_interval_indicative():
    for n, indicative in ((INDICATIVE_BELOW - 1, True), (INDICATIVE_BELOW, False)):
        best = _measure({str(i): [1.0 if i % 2 else 0.5] for i in range(n)})
        seed = _measure({str(i): [0.25] for i in range(n)}, "sha256:seed")
        delta = _build(best, seed).test_delta
        assert delta is not None
        assert delta.indicative is indicative


def test_tasks_of_one_cluster_widen_the_interval():
    rows = {str(i): [1.0 if i < 4 else 0.0] for i in range(8)}
    seed_rows = {str(i): [0.0] for i in range(8)}
    clusters = {str(i): str(i // 2) for i in range(8)}
    plain = _build(_measure(rows), _measure(seed_rows, "sha256:seed")).test_delta
    clustered = _build(
        _measure(rows, clusters=clusters), _measure(seed_rows, "sha256:seed", clusters)
    ).test_delta
    assert plain is not None and clustered is not None
    assert plain.stderr is not None and clustered.stderr is not None
    assert clustered.stderr > plain.stderr
    assert clustered.delta == plain.delta


def test_a_k_that_was_not_measured_is_absent():
    assert set(_build(_measure({"a": [1.0]}), ks=(1, 2, 5)).test.pass_k) == {"1"}


def test_without_a_holdout_it_is_a_fit_metric_and_says_so():
    assert _build(_measure({"a": [1.0]}), holdout=False).kind == "fit_metric"
    assert _build(_measure({"a": [1.0]})).kind == "held_out"


def test_how_the_test_split_was_used_is_part_of_the_result():
    result = _build(_measure({"a": [1.0]}), looks=3, override_reason="scorer mended", interrupted_trials=2)
    assert result.test_looks == 3
    assert (result.seal.override_reason, result.seal.interrupted_trials) == ("scorer mended", 2)


@pytest.mark.parametrize("rows", [{"a": [1.0]}, {"a": [CRASH]}, {"a": [0.1, 0.2], "b": [CRASH, 0.7]}])
def test_the_text_is_strict_canonical_json_that_reads_back_the_same(rows):
    for result in (_build(_measure(rows)), _build(_measure(rows), _measure(rows, "sha256:seed"))):
        text = result.to_json()
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
        again = FinalResult.model_validate_json(text)
        assert again == result
        assert again.to_json() == text


def test_a_result_with_a_key_nobody_knows_is_not_read_as_if_it_were_known():
    values = json.loads(_build(_measure({"a": [1.0]})).to_json())
    for change in ({"extra": 1}, {"schema_version": 2}):
        with pytest.raises(ValidationError):
            FinalResult.model_validate({**values, **change})
