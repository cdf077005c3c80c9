"""The comparison of evaluators: it measures all alike, counts what was recorded, takes a third."""

from __future__ import annotations

import json

import pytest

from benchmarks import comparison
from benchmarks.comparison import describe, describe_iterations, interleave, load_evaluator
from benchmarks.contenders import Capevolve, Plain, Timing, Workload

SMALL = Workload("small", ((0.0, 0.0), (0.0, 0.01)), 2)


def test_the_critical_path_is_the_longest_trial_or_the_share_of_a_slot():
    assert Workload("w", ((0.05,) * 5,) * 64, 16).critical_path == pytest.approx(1.0)
    assert Workload("w", ((0.05, 3.0),), 16).critical_path == 3.0


def test_every_repetition_measures_all_in_another_order_and_an_empty_folder():
    order = []

    def measure(each, folder):
        assert not list(folder.iterdir())
        order.append(each.name)
        return len(order)

    evaluators = [Plain(), Capevolve(), Capevolve(asynchronous=True)]
    found = interleave(evaluators, 3, measure)
    names = ["plain", "capevolve", "capevolve async"]
    assert order == names + names[1:] + names[:1] + names[2:] + names[:2]
    assert found == {"plain": [1, 6, 8], "capevolve": [2, 4, 9], "capevolve async": [3, 5, 7]}


def test_the_plain_evaluator_keeps_a_line_per_rollout_and_a_result(tmp_path):
    timing = Plain().evaluate(SMALL, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    assert {(row["task_id"], row["trial"]) for row in rows} == {("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1)}
    assert timing.recorded == 4
    assert timing.wall >= 0.01
    assert json.loads((tmp_path / "result.json").read_text()) == {"mean": 1.0, "n": 4}


def test_the_engine_is_asked_for_the_same_rollouts(tmp_path):
    timing = Capevolve(asynchronous=True).evaluate(SMALL, tmp_path)
    assert timing.recorded == SMALL.rollouts
    assert 0 < timing.first <= timing.wall


def test_the_engine_makes_whole_iterations(tmp_path):
    walls = Capevolve().iterate(Workload("w", ((0.0,),) * 4, 1), tmp_path, 1)
    assert len(walls) == 1
    assert walls[0] > 0


def test_lost_rollouts_are_shouted():
    lines = describe(SMALL, {"plain": [Timing(1.0, 0.1, 1, 1.0, 4)], "other": [Timing(2.0, 0.1, 1, 2.0, 3)]})
    assert "RECORDED ONLY" not in lines[1]
    assert "RECORDED ONLY [3]" in lines[2]
    assert "2.00 [2.00, 2.00] x plain" in lines[2]


def test_growth_is_the_last_iteration_over_the_second():
    lines = describe_iterations(SMALL, {"plain": [[9.0, 1.0, *[2.0] * 13, 3.0]]})
    assert "iteration 16 / iteration 2: 3.00" in lines[1]


def test_a_third_is_found_by_its_dotted_path(monkeypatch, capsys):
    assert load_evaluator("benchmarks.contenders:Plain").name == "plain"
    monkeypatch.setattr("sys.argv", ["comparison", "noop", "--scale", "0.001", "--repetitions", "1"])
    monkeypatch.setattr(comparison, "Capevolve", lambda asynchronous=False: Plain())
    comparison.main()
    assert capsys.readouterr().out.startswith("noop: 20 rollouts at 2\n  plain: ")
