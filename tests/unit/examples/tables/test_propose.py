import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from capevolve.canonical import digest
from capevolve.gate import GateSettings, judge
from capevolve.model import Measurement, TaskOutcomes
from capevolve.splits import PerSplit, SplitSettings, TaskRow, make_splits


@pytest.fixture(scope="module")
def splits(tables):
    tasks = {task.id: task for task in tables.adapter.Adapter().tasks("all")}
    rows = [TaskRow(t.id, digest([t.input, t.target, t.metadata])) for t in tasks.values()]
    plan = make_splits(rows, SplitSettings(seed=0, ratios=PerSplit(0.4, 0.3, 0.3)))
    parts = {name: [tasks[ref.id] for ref in getattr(plan, name)] for name in ("train", "val", "test")}
    return SimpleNamespace(**parts)


@pytest.fixture(scope="module")
def seed_text(tables):
    return (tables.folder / "seed" / "skill.json").read_text(encoding="utf-8")


def rate(tables, skill_text, tasks):
    agent = tables.agent.open_agent(skill_text)
    return [tables.adapter.judge(agent.answer(task.input).sql, task.target)[0] for task in tasks]


def write_brief(tasks, history=()):
    told = [{"task_id": t.id, "input": t.input, "target": t.target, "metadata": t.metadata} for t in tasks]
    return json.dumps({"schema": 1, "tasks": told, "history": list(history)})


def run_main(tables, folder, brief, skill_text, *, seed=0, iteration=1):
    """One call of the program; the edited text and the note, or None."""
    candidate = Path(folder) / f"candidate-{len(list(Path(folder).iterdir()))}"
    candidate.mkdir()
    (candidate / "skill.json").write_text(skill_text, encoding="utf-8")
    brief_file, note = candidate.with_suffix(".brief"), candidate.with_suffix(".note")
    brief_file.write_text(brief, encoding="utf-8")
    environment = {
        "CAPEVOLVE_BRIEF": str(brief_file),
        "CAPEVOLVE_CANDIDATE": str(candidate),
        "CAPEVOLVE_PROPOSAL": str(note),
        "CAPEVOLVE_SEED": str(seed),
        "CAPEVOLVE_ITERATION": str(iteration),
    }
    tables.propose.main(environment)
    assert [file.name for file in candidate.iterdir()] == ["skill.json"]
    text = (candidate / "skill.json").read_text(encoding="utf-8")
    return text, json.loads(note.read_text(encoding="utf-8")) if note.exists() else None


def test_a_proposal_answers_more_train_tasks_and_says_what_it_did(tables, splits, seed_text, tmp_path):
    start = time.monotonic()
    text, note = run_main(tables, tmp_path, write_brief(splits.train), seed_text)
    assert time.monotonic() - start < 5
    assert sum(rate(tables, text, splits.train)) > sum(rate(tables, seed_text, splits.train)) + 5
    assert (note["cost_usd"], note["tokens"]) == (0.0, 0)
    assert "add " in note["summary"] and tables.propose.BECAUSE in note["summary"]


def test_new_examples_are_train_tasks_word_for_word(tables, splits, seed_text, tmp_path):
    text, _ = run_main(tables, tmp_path, write_brief(splits.train), seed_text)
    old = tables.agent.parse_skill(seed_text).examples
    new = [e for e in tables.agent.parse_skill(text).examples if e not in old]
    assert new
    assert {(e.question, e.sql) for e in new} <= {(t.input, t.target) for t in splits.train}


def test_the_same_seed_proposes_the_same_and_another_something_else(tables, splits, seed_text, tmp_path):
    brief = write_brief(splits.train)
    one, again, other = (run_main(tables, tmp_path, brief, seed_text, seed=s) for s in (7, 7, 8))
    assert one == again
    assert one[0] != other[0]
    assert run_main(tables, tmp_path, write_brief(splits.train[::-1]), seed_text, seed=7) == one


def test_what_was_rejected_is_not_proposed_again(tables, splits, seed_text, tmp_path):
    _, note = run_main(tables, tmp_path, write_brief(splits.train), seed_text)
    attempt = {"iteration": 1, "candidate": "c", "decision": "reject", "summary": note["summary"]}
    course = tables.propose.read_course(write_brief(splits.train, [attempt]))
    edit = note["summary"].split(tables.propose.BECAUSE)[0]
    assert course.tried == {edit}
    _, second = run_main(tables, tmp_path, write_brief(splits.train, [attempt]), seed_text)
    named = [t for t in splits.train if t.id in edit]
    forms = {tables.course.find_form(t.target) for t in named}
    assert named
    assert second is not None
    added = second["summary"].split(tables.propose.BECAUSE)[0]
    assert not [t.id for t in splits.train if t.id in added and tables.course.find_form(t.target) in forms]


def test_an_accepted_edit_clears_what_was_tried_before(tables, splits):
    attempts = [{"decision": "reject", "summary": "a, because b"}, {"decision": "accept", "summary": "c"}]
    assert tables.propose.read_course(write_brief(splits.train, attempts)).tried == frozenset()


def test_nothing_is_edited_when_no_idea_is_better(tables, splits, seed_text, tmp_path):
    solved = [t for t in splits.train if rate(tables, seed_text, [t]) == [1.0]]
    text, note = run_main(tables, tmp_path, write_brief(solved), seed_text)
    assert text == seed_text
    assert note is None


def test_nothing_is_edited_without_train_tasks(tables, seed_text, tmp_path):
    assert run_main(tables, tmp_path, write_brief([]), seed_text) == (seed_text, None)


def test_the_program_reads_no_tasks_but_those_of_its_brief(tables, splits, seed_text, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(tables.folder, project, ignore=shutil.ignore_patterns("__pycache__", ".capevolve"))
    (project / "tasks.jsonl").unlink()
    candidate, brief, note = tmp_path / "candidate", tmp_path / "brief.json", tmp_path / "note.json"
    candidate.mkdir()
    (candidate / "skill.json").write_text(seed_text, encoding="utf-8")
    brief.write_text(write_brief(splits.train), encoding="utf-8")
    environment = {
        **os.environ,
        "CAPEVOLVE_BRIEF": str(brief),
        "CAPEVOLVE_CANDIDATE": str(candidate),
        "CAPEVOLVE_PROPOSAL": str(note),
        "CAPEVOLVE_PROJECT": str(project),
        "CAPEVOLVE_SEED": "0",
        "CAPEVOLVE_ITERATION": "1",
    }
    argv = [sys.executable, str(project / "propose.py")]
    subprocess.run(argv, cwd=candidate, env=environment, check=True, timeout=60)
    expected = run_main(tables, tmp_path, brief.read_text(encoding="utf-8"), seed_text)
    assert (candidate / "skill.json").read_text(encoding="utf-8") == expected[0]
    assert json.loads(note.read_text(encoding="utf-8")) == expected[1]


def test_words_that_begin_like_a_value_are_mined_into_its_slot(tables, seed_text):
    lesson = tables.course.Lesson("t", "How many foggy days?", "SELECT 1 FROM weather WHERE weather = 'fog'")
    skill = tables.agent.parse_skill(seed_text)
    course = tables.course.Course([lesson])
    [idea] = tables.operators.mine_words(skill, course, random.Random(0))
    assert idea.skill.words["weather"]["foggy"] == "fog"
    assert not list(tables.operators.mine_words(idea.skill, course, random.Random(0)))


def test_words_that_help_nobody_are_no_proposal(tables, seed_text):
    lesson = tables.course.Lesson("t", "How many foggy days?", "SELECT 1 FROM weather WHERE weather = 'fog'")
    example = tables.agent.Example(lesson.question, lesson.sql)
    skill = replace(tables.agent.parse_skill(seed_text), examples=(example,))
    assert tables.propose.propose(skill, tables.course.Course([lesson]), random.Random(0)) is None


def test_the_same_edit_is_not_proposed_twice(tables, splits, seed_text):
    skill = tables.agent.parse_skill(seed_text)
    course = tables.propose.read_course(write_brief(splits.train))
    idea = tables.propose.propose(skill, course, random.Random(0))
    course.tried = frozenset({idea.edit})
    assert tables.propose.propose(skill, course, random.Random(0)) is None


def test_a_task_known_only_by_heart_counts_half(tables, seed_text):
    lesson = tables.course.Lesson("t", "Which code?", "SELECT iata FROM airports LIMIT 1")
    known = tables.agent.Example(lesson.question, lesson.sql)
    twin = tables.agent.Example("Which code, please?", lesson.sql)
    skill = tables.agent.parse_skill(seed_text)
    course = tables.course.Course([lesson])
    worth = [course.value(replace(skill, examples=examples)) for examples in ((), (known,), (known, twin))]
    assert worth == [0, 1, 2]
    assert [course.count_right(replace(skill, examples=e)) for e in ((known,), (known, twin))] == [0, 1]


def test_no_operator_exceeds_the_limit_of_examples(tables, splits, seed_text):
    skill = tables.agent.parse_skill(seed_text)
    full = replace(skill, examples=tuple(tables.agent.Example(t.input, t.target) for t in splits.train[:14]))
    course = tables.propose.read_course(write_brief(splits.train))
    for stage in tables.propose.STAGES:
        for operator in stage:
            for idea in operator(full, course, random.Random(1)):
                assert len(idea.skill.examples) <= tables.agent.MAX_EXAMPLES


def test_eight_gated_iterations_carry_over_to_the_test_split(tables, splits, seed_text, tmp_path):
    incumbent, history = seed_text, []
    for iteration in range(1, 9):
        brief = write_brief(splits.train, history)
        text, note = run_main(tables, tmp_path, brief, incumbent, iteration=iteration)
        decision = "empty"
        if note is not None:
            decision = judge(
                measure(tables, text, splits.val), measure(tables, incumbent, splits.val), GateSettings()
            )
            decision = decision.decision.value
        history.append({"decision": decision, "summary": note["summary"] if note else ""})
        incumbent = text if decision == "accept" else incumbent
    before, after = (mean(rate(tables, text, splits.test)) for text in (seed_text, incumbent))
    assert [attempt["decision"] for attempt in history].count("accept") >= 3
    assert mean(rate(tables, incumbent, splits.val)) >= 0.5
    assert before <= 0.12 and after >= 0.45


def mean(values):
    return sum(values) / len(values)


def measure(tables, skill_text, tasks):
    rewards = rate(tables, skill_text, tasks)
    outcomes = tuple(TaskOutcomes(t.id, (r,)) for t, r in zip(tasks, rewards, strict=True))
    return Measurement(digest(skill_text), digest(skill_text), "val", 1, 0, outcomes)
