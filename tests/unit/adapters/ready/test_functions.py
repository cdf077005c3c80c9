"""Python functions as targets and scorers, in real hosts."""

from __future__ import annotations

import json

import pytest

from capevolve.errors import AdapterError
from capevolve.model import Reason, Scored, Task, task_seed

PYTHON = {"kind": "python", "function": "agent:answer"}
SEEN = "{'x': [str(candidate_dir), seed]}"


def output(reply):
    return json.loads(reply.payload)["output"]


@pytest.mark.parametrize("word", ["def", "async def"])
def test_a_function_gets_the_input_the_folder_and_the_seed(ready, word):
    ready.write("agent.py", f"{word} answer(input, candidate_dir, seed):\n    return [input, {SEEN}]\n")
    reply = ready.run(ready.ref(PYTHON), [2])[2]
    assert output(reply) == ["word 2", {"x": [str(ready.candidate), task_seed(Task("t2"), 9)]}]


def test_a_function_that_asks_for_the_task_gets_it_without_its_target(ready):
    source = "def answer(task, candidate_dir, seed):\n    return [task.id, task.input, task.target, task.metadata]\n"
    ready.write("agent.py", source)
    ref = ready.ref(PYTHON, tasks={"file": "tasks.jsonl", "metadata": ["family"]})
    assert output(ready.run(ref)[0]) == ["t0", "word 0", None, {"family": "f"}]


def test_the_scorer_sees_the_target_and_the_answer(ready):
    ready.write("agent.py", "def answer(input, candidate_dir, seed):\n    return input.upper()\n")
    ready.write(
        "scorer.py",
        "async def score(task, answer):\n    return 0.5, f'{task.target} {answer} {task.metadata}'\n",
    )
    reply = ready.run(ready.ref(PYTHON, {"kind": "python", "function": "scorer:score"}), [3])[3]
    assert (reply.outcome, reply.feedback) == (Scored(0.5), "3 WORD 3 {}")


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("raise capevolve.AgentFailure('no')", Scored(0.0)),
        ("raise OSError('down')", Reason.INFRA),
        ("return capevolve.Rollout('t0', output='0', cost_usd=0.5)", Scored(1.0)),
        ("return capevolve.Rollout('t0', error='down')", Reason.INFRA),
        ("import os; os._exit(3)", Reason.CRASH),
        ("import time; time.sleep(30)", Reason.TIMEOUT),
    ],
)
def test_what_a_function_raises_or_returns_means_what_it_does_in_an_adapter(ready, body, outcome):
    ready.write("agent.py", f"import capevolve\ndef answer(input, candidate_dir, seed):\n    {body}\n")
    got = ready.run(ready.ref(PYTHON), timeout_s=1.5)[0].outcome
    assert (got if isinstance(outcome, Scored) else got.reason) == outcome


def test_a_scorer_that_returns_no_number_is_named(ready):
    ready.write("agent.py", "def answer(input, candidate_dir, seed):\n    return 1\n")
    for body, reason in (
        ("None", Reason.INVALID_SCORE),
        ("1.5", Reason.INVALID_SCORE),
        ("1 / 0", Reason.SCORER_ERROR),
    ):
        ready.write("scorer.py", f"def score(task, answer):\n    return {body}\n")
        got = ready.run(ready.ref(PYTHON, {"kind": "python", "function": "scorer:score"}))[0].outcome
        assert got.reason == reason


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("", "no function 'answer' in agent"),
        ("answer = 3", "no function 'answer' in agent"),
        ("def answer(input): pass", "agent:answer cannot be called with three arguments"),
        ("def answer(a, b, c, d): pass", "agent:answer cannot be called with three arguments"),
        ("import no_such_module", "no_such_module"),
        ("def answer(input, candidate_dir, seed): pass\n1 / 0", "ZeroDivisionError"),
        ("def answer(", "SyntaxError"),
    ],
)
def test_a_function_that_cannot_be_used_is_named_before_a_trial(ready, source, problem):
    ready.write("agent.py", source)
    with pytest.raises(AdapterError) as caught:
        ready.list(ready.ref(PYTHON))
    assert problem in caught.value.what


def test_a_missing_module_and_a_scorer_of_one_argument_are_named(ready):
    with pytest.raises(AdapterError, match="no module 'agent'"):
        ready.list(ready.ref(PYTHON))
    ready.write("agent.py", "def answer(input, candidate_dir, seed): pass\ndef score(answer): pass\n")
    with pytest.raises(AdapterError, match="agent:score cannot be called with two arguments"):
        ready.list(ready.ref(PYTHON, {"kind": "python", "function": "agent:score"}))


def test_the_digest_covers_both_functions_and_what_they_import(ready):
    ready.write("agent.py", "def answer(input, candidate_dir, seed):\n    return 1\n")
    ready.write("rules/__init__.py", "")
    ready.write("rules/judge.py", "def score(task, answer):\n    import late\n    return late.x\n")
    ready.write("late.py", "x = 1\n")
    ref = ready.ref(PYTHON, {"kind": "python", "function": "rules.judge:score"})
    before = ready.list(ref).facts
    assert [name for name, _ in before.files] == [
        "agent.py",
        "late.py",
        "rules/__init__.py",
        "rules/judge.py",
    ]
    ready.write("late.py", "x = 0\n")
    assert ready.list(ref).facts.digest != before.digest


def test_a_target_and_a_scorer_of_one_module_share_it_even_under_a_standard_name(ready):
    source = (
        "state = []\n"
        "def answer(input, candidate_dir, seed):\n    state.append(input)\n    return 1\n"
        "def score(task, answer):\n    return float(state == [task.input])\n"
    )
    ready.write("queue.py", source)
    ref = ready.ref(
        {"kind": "python", "function": "queue:answer"}, {"kind": "python", "function": "queue:score"}
    )
    assert ready.run(ref)[0].outcome == Scored(1.0)


def test_targets_unfit_for_the_scorer_are_refused_when_tasks_are_listed(ready):
    ready.write("agent.py", "def answer(input, candidate_dir, seed): pass\n")
    tasks = {"file": "tasks.jsonl", "target": "input"}
    with pytest.raises(AdapterError, match="the target of task 't0' is not a JSON object"):
        ready.list(ready.ref(PYTHON, "json_subset", tasks))


def test_sections_that_are_not_valid_are_refused_in_the_host_too(ready):
    from capevolve.adapters.records import AdapterRef

    with pytest.raises(AdapterError, match="not valid"):
        ready.list(AdapterRef(ready.root, "capevolve.yaml", '{"tasks": {}}'))
