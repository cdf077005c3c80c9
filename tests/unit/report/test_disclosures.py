from __future__ import annotations

import pytest

from capevolve.evaluate.congestion import Change
from capevolve.evaluate.course import record_changes
from capevolve.model import Reason
from capevolve.report.disclosures import disclose_timeouts


def texts(story) -> dict[str, str]:
    return {disclosure.kind: disclosure.text for disclosure in story.facts().disclosures}


def test_the_gate_says_what_it_costs(tell):
    story = tell()
    story.measure_seed()
    assert texts(story)["gate_cost"].endswith("passes 16 % of the time per look.")
    for n in range(10):
        story.iterate(f"c{n}", story.per_task("val", [0] * 8))
    assert (
        "of runs with 10 such candidates, as many as were judged here, 48 % accept at least one"
        in (texts(story)["gate_cost"])
    )


def test_indecisive_verdicts_are_no_looks(tell):
    story = tell()
    story.measure_seed()
    story.iterate("lost", story.per_task("val", [Reason.INFRA] * 8))
    assert story.facts().gate.looks == 0


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (
            {"mode": "strict"},
            "Gate mode strict is not controlled over a run: an edit that changes nothing passes 50 %",
        ),
        ({"mode": "threshold", "threshold": 0.1}, "depends on the noise"),
        ({"mode": "paired", "k_se": 2.0}, "passes 2 % of the time"),
    ],
)
def test_each_gate_mode_has_its_own_cost(tell, gate, words):
    assert words in texts(tell(gate=gate))["gate_cost"]


def test_one_trial_is_disclosed_and_several_are_not(tell):
    assert "One trial per task on val and test" in texts(tell("one"))["one_trial"]
    assert "one_trial" not in texts(tell("three", num_trials=3))
    assert "on val:" in texts(tell("mixed", seal={"num_trials": 3}))["one_trial"]


def test_small_splits_are_disclosed(tell):
    spoken = [d.text for d in tell(sizes=(2, 3, 4)).facts().disclosures if d.kind == "splits"]
    assert spoken == [
        "val has 3 tasks: verdicts are of low confidence.",
        "test has 4 tasks: the final number is indicative.",
    ]


def test_warnings_of_the_splits_are_repeated_once(tell):
    warning = "val has 3 tasks: verdicts are of low confidence."
    story = tell(sizes=(2, 3, 9), warnings=[warning, "train has 1 task with the content of another one."])
    spoken = [d.text for d in story.facts().disclosures if d.kind == "splits"]
    assert spoken == [warning, "train has 1 task with the content of another one."]


def test_few_test_tasks_make_the_result_indicative(tell):
    story = tell(sizes=(4, 8, 7))
    story.improve()
    story.finalize(story.per_task("test", [1] * 7), story.per_task("test", [0, 1, 0, 0, 1, 1, 1]))
    assert "Only 7 test tasks" in texts(story)["indicative"]
    enough = tell("enough", run_id="other")
    enough.improve()
    enough.conclude()
    assert "indicative" not in texts(enough)


def test_tasks_that_all_moved_alike_leave_the_error_undefined(tell):
    story = tell()
    story.improve()
    story.finalize(story.same("test", 1.0), story.same("test", 0.0))
    assert "error and the interval of the delta are undefined" in texts(story)["degenerate"]
    assert story.facts().final.result.test_delta.ci95 is None


def test_nothing_measured_on_both_sides_leaves_the_delta_undefined(tell):
    story = tell()
    story.improve()
    story.finalize(story.same("test", Reason.INFRA), story.same("test", 0.0))
    assert "the delta is undefined" in texts(story)["no_delta"]
    assert story.facts().final.tasks[0].note == "best: without a reward: 1 infra"


def test_an_attempt_that_was_dropped_is_told(tell):
    story = tell()
    story.improve()
    ticket = story.open_attempt()
    arm = {"split": "test", "tag": "FINAL", "attempt_id": ticket.attempt_id}
    story.measure({"test-0": (1.0,)}, story.best_id, in_flight=1, **arm)
    story.iterate("perfect", story.per_task("val", [1] * 8))
    story.conclude(override="another candidate")
    assert "dropped after 1 of 16 test trials" in texts(story)["superseded"]
    assert "another candidate" in texts(story)["override"]
    assert story.facts().seal.attempts[0].claimed == 1


def test_banners_come_first(tell):
    story = tell(holdout=False)
    story.improve()
    kinds = [disclosure.banner for disclosure in story.facts().disclosures]
    assert kinds[0] is True
    assert kinds == sorted(kinds, reverse=True)


def test_trials_that_scored_0_for_being_slow_are_counted(tell):
    assert disclose_timeouts(0, 300.0) == ()
    (said,) = disclose_timeouts(3, 300.0)
    assert said.text.startswith("3 trials on train and val scored 0 because the agent was over its limit")
    assert "timeouts" not in texts(tell())


def test_rate_limits_and_how_far_the_concurrency_fell_are_told(tell):
    story = tell()
    story.measure_seed()
    assert "rate_limited" not in texts(story)
    changes = [
        Change(5.0, 16, 8, 20.0, 20.0, 1, 8),
        Change(60.0, 8, 4, 1.0, None, 2, 4),
        Change(90.0, 4, 5, 0.0, None, 0, 4),
    ]
    with story.ledger.write() as connection:
        record_changes(connection, story.run_id, 1, 16, changes)
    assert texts(story)["rate_limited"] == (
        "The target was rate limited 3 times: concurrency fell to 4 of 16; the longest wait asked for was 20 s."
    )
