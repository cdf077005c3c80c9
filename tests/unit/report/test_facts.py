"""The numbers of a run, against what its trials say."""

from __future__ import annotations

import math
import os

import pytest
from sqlalchemy import update

from capevolve.errors import LedgerError, TamperError
from capevolve.ledger import schema
from capevolve.ledger.leases import LEASE_TTL_S
from capevolve.model import Decision, Reason
from capevolve.report import read_facts, render_markdown
from capevolve.stats import t_quantile


def test_the_baseline_has_its_error_its_n_and_its_coverage(tell):
    story = tell()
    story.measure(story.per_task("val", [0, 0, 0, 1, 0, 0, 1, Reason.CRASH]))
    score = story.facts().baseline.score
    assert score.mean == pytest.approx(2 / 7)
    se = math.sqrt(2 / 7 * 5 / 7 / 6)
    assert score.se == pytest.approx(se)
    assert score.interval.high == pytest.approx(2 / 7 + t_quantile(0.975, 6) * se)
    assert score.interval.low == 0.0  # rewards are not below 0
    assert (score.n_scored, score.n_tasks, score.coverage) == (7, 8, 7 / 8)
    assert (score.n_trials, score.n_missing, score.missing) == (7, 1, (("crash", 1),))


def test_tasks_that_all_pass_leave_the_error_undefined_but_not_the_interval(tell):
    story = tell()
    story.measure(story.same("val", 1.0))
    score = story.facts().baseline.score
    assert (score.mean, score.se, score.interval_kind) == (1.0, None, "wilson")
    assert score.interval.low == pytest.approx(8 / (8 + 1.959964**2), rel=1e-6)  # Wilson at 8 of 8
    assert score.interval.high == 1.0


def test_an_evaluation_under_way_has_progress_and_no_mean(tell):
    story = tell()
    story.measure(story.same("val", 1.0), in_flight=3)
    baseline = story.facts().baseline
    assert (baseline.done, baseline.total, baseline.score) == (5, 8, None)
    assert story.facts().trajectory == ()


def test_the_trajectory_follows_the_incumbent_and_not_the_candidates(tell):
    story = tell()
    story.improve()
    story.iterate("worse again", story.per_task("val", [0] * 8))
    facts = story.facts()
    assert [(p.iteration, p.score.mean) for p in facts.trajectory] == [
        (0, 0.25),
        (1, 0.25),
        (2, 0.75),
        (3, 0.75),
    ]
    assert [i.verdict.decision for i in facts.iterations] == [
        Decision.REJECT,
        Decision.ACCEPT,
        Decision.REJECT,
    ]
    assert [i.is_incumbent for i in facts.iterations] == [False, True, False]
    assert facts.best_val.score.mean == 0.75


def test_subsets_train_and_other_trial_counts_do_not_become_val(tell):
    story = tell()
    story.measure(story.same("train", 1.0), split="train")
    story.measure(story.same("val", 1.0), tag="probe")
    story.measure(story.same("val", 1.0, 1.0), num_trials=2)
    assert story.facts().baseline is None


def test_the_matrix_tells_failed_from_not_measured(tell):
    story = tell()
    story.measure(story.per_task("val", [0, Reason.TIMEOUT, 1, 0, 0, 0, 0, 0]))
    story.propose("next")
    story.measure({"val-0": (1.0,)}, story.propose("next"), finish=False)
    matrix = story.facts().matrix
    cells = {row.task_id: row.cells for row in matrix.rows}
    assert [column.iteration for column in matrix.columns] == [0, 1]
    assert cells["val-0"][0].mean == 0.0 and cells["val-0"][0].note == ""
    assert cells["val-1"][0].mean is None and cells["val-1"][0].note == "without a reward: 1 timeout"
    assert cells["val-1"][1].mean is None and cells["val-1"][1].note == "no trial was run"


def test_spend_keeps_unknown_apart_from_nothing(tell):
    story = tell()
    story.measure_seed()
    story.cost = None
    story.iterate("x", story.per_task("val", [0] * 8), cost=None, tokens=None)
    story.propose("y", status="failed", cost=0.5, tokens=7)
    target, proposer = story.facts().spend
    assert (target.calls, target.cost_usd, target.unpriced, target.tokens) == (
        16,
        pytest.approx(0.08),
        8,
        1600,
    )
    assert (proposer.calls, proposer.cost_usd, proposer.unpriced, proposer.tokens) == (2, 0.5, 1, 7)


def test_nothing_reported_is_unknown(tell):
    story = tell()
    story.cost = story.tokens = None
    story.measure_seed()
    target, proposer = story.facts().spend
    assert (target.calls, target.cost_usd, target.tokens) == (8, None, None)
    assert (proposer.calls, proposer.cost_usd, proposer.tokens) == (0, None, None)


def test_the_shrunken_mean_lies_between_the_best_and_the_rest(tell):
    story = tell()
    story.improve()
    assert story.facts().shrinkage is None  # three candidates are too few
    story.iterate("fourth", story.per_task("val", [0, 1, 0, 0, 0, 1, 0, 0]))
    shrunk = story.facts().shrinkage
    assert shrunk.n == 4
    assert (0.25 + 0.125 + 0.75 + 0.25) / 4 < shrunk.value < 0.75


def test_a_result_comes_with_its_tasks_and_its_gap(tell):
    story = tell()
    story.improve()
    assert story.facts().splits.test_ids is None
    story.conclude()
    facts = story.facts()
    final = facts.final
    assert final.best.mean == final.result.test.reward == 0.625
    assert final.best.se == final.result.test.stderr
    assert final.best.interval.low == pytest.approx(0.625 - t_quantile(0.975, 7) * final.best.se)
    assert final.gap.value == pytest.approx(0.625 - 0.75)
    assert final.gap.se == pytest.approx(math.hypot(final.best.se, facts.best_val.score.se))
    assert [task.delta.value for task in final.tasks] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0]
    assert sum(task.delta.value for task in final.tasks) / 8 == final.result.test_delta.delta
    assert facts.splits.test_ids == tuple(f"test-{n}" for n in range(8))


def test_clusters_of_test_widen_its_interval(tell):
    clusters = {f"test-{n}": f"c{n // 2}" for n in range(8)}
    story = tell(clusters=clusters)
    story.improve()
    story.conclude()
    final = story.facts().final
    assert final.result.test_delta.df == 3
    assert final.best.interval.high == pytest.approx(min(1, 0.625 + t_quantile(0.975, 3) * final.best.se))


def test_an_open_attempt_shows_its_claims_and_no_task(tell):
    story = tell()
    story.improve()
    ticket = story.open_attempt()
    arm = {"split": "test", "tag": "FINAL", "attempt_id": ticket.attempt_id}
    story.measure({"test-0": (1.0,), "test-1": (1.0,)}, story.best_id, in_flight=1, **arm)
    facts = story.facts()
    assert facts.seal.name == "open"
    assert (facts.seal.attempts[0].claimed, facts.seal.attempts[0].planned) == (2, 16)
    assert facts.final is None
    assert facts.splits.test_ids is None
    assert "test-0" not in repr(facts)


def test_a_further_look_keeps_the_earlier_result_until_it_has_its_own(tell):
    story = tell()
    story.improve()
    story.conclude()
    story.resume()
    story.open_attempt("the scorer had a bug")
    facts = story.facts()
    assert facts.seal.name == "open"
    assert facts.final.attempt == 1
    assert any(banner.kind == "not_finalised" for banner in facts.banners)
    assert "the scorer had a bug" in facts.banners[0].text


def test_looks_of_other_runs_are_told(tell):
    first = tell()
    first.improve()
    first.conclude()
    second = tell(run_id="demo-2", ledger=first.ledger)
    second.improve()
    second.conclude()
    assert [story.facts().seal.looks for story in (first, second)] == [2, 2]
    kinds = [{banner.kind for banner in story.facts().banners} for story in (first, second)]
    assert kinds == [set(), {"looks"}]
    assert not any("scored once" in render_markdown(story.facts()) for story in (first, second))


def test_a_result_that_the_search_outgrew_is_marked(tell):
    story = tell()
    story.improve()
    story.conclude()
    story.resume()
    story.iterate("perfect", story.per_task("val", [1] * 8))
    facts = story.facts()
    assert facts.best_id != facts.final.result.best_id
    assert "outdated" in {banner.kind for banner in facts.banners}


def test_a_result_that_was_tampered_with_is_refused(tell):
    story = tell()
    story.improve()
    story.conclude()
    with story.ledger.write() as connection:
        connection.execute(update(schema.attempts).values(result='{"reward": 1}'))
    with pytest.raises(TamperError, match="cannot be read"):
        story.facts()


def test_an_unknown_run_is_named(tell):
    with pytest.raises(LedgerError, match="knows no run 'other'"):
        read_facts(tell().ledger, "other", now=0.0)


def test_what_splits_share_is_computed_from_their_tasks(tell):
    shared = {"train": ["a", "b", "c"], "val": ["a", "b", "d"], "test": ["a", "e"]}
    story = tell(ids=shared, holdout=False)
    assert [(o.first, o.second, o.ids, o.contents) for o in story.facts().splits.overlaps] == [
        ("train", "val", 2, 2)
    ]
    story.measure(story.same("val", 1.0))
    story.finalize(story.same("test", 1.0))
    pairs = {(o.first, o.second): o.ids for o in story.facts().splits.overlaps}
    assert pairs == {("train", "val"): 2, ("train", "test"): 1, ("val", "test"): 1}


def _set_lease(story, **values) -> None:
    with story.ledger.write() as connection:
        connection.execute(update(schema.leases).values(**values))


def test_a_live_driver_is_running(tell):
    info = tell().facts().info
    assert info.liveness == "running"
    assert (info.driver.pid, info.driver.heartbeat_age_s) == (os.getpid(), 1.0)


def test_a_driver_whose_process_is_gone_has_crashed_at_once(tell):
    story = tell()
    _set_lease(story, pid_started_at=1.0)  # this PID belongs to another process now
    assert story.facts().info.liveness == "crashed"


def test_a_process_without_heartbeat_is_stalled(tell):
    assert tell().facts(later=LEASE_TTL_S + 1).info.liveness == "stalled"


def test_another_host_without_heartbeat_has_crashed(tell):
    story = tell()
    _set_lease(story, host="elsewhere")
    assert story.facts().info.liveness == "running"
    assert story.facts(later=LEASE_TTL_S + 1).info.liveness == "crashed"


def test_a_run_that_was_stopped_or_given_back_can_be_resumed(tell):
    story = tell()
    story.end("stopped", "the cap on time is reached")
    info = story.facts().info
    assert (info.liveness, info.stop_reason) == ("stopped", "the cap on time is reached")
    story.resume()
    assert story.facts().info.liveness == "running"


def test_a_driver_that_gave_the_lease_back_without_a_word_has_not_crashed(tell):
    story = tell()
    _set_lease(story, released_at=story.now)
    assert story.facts().info.liveness == "stopped"


def test_a_run_that_nobody_drove_never_started(tell):
    story = tell()
    with story.ledger.write() as connection:
        connection.execute(schema.leases.delete())
    assert story.facts().info.liveness == "never started"


def test_a_finished_run_is_finished(tell):
    story = tell()
    story.end()
    assert story.facts(later=10_000).info.liveness == "finished"
