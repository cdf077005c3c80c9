"""The proposer of this example: edits the agent's skill from the train failures in its brief.

It knows no answers and reads no tasks but those of the brief. Its operators make ideas; the ideas are raced
on those train tasks; the best is written, refined by what helps on top of it. No better one: no proposal.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent import Skill, format_skill, parse_skill
from course import Course, Lesson
from operators import (
    Idea,
    add_diverse,
    add_failures,
    ignore_words,
    mine_words,
    set_minimum_similarity,
    shuffle_examples,
    swap_examples,
)

# One idea at most is taken from each stage, on top of those taken before.
STAGES = (
    (mine_words,),
    (add_failures, add_diverse, swap_examples),
    (ignore_words,),
    (set_minimum_similarity,),
    (shuffle_examples,),
)
BECAUSE = ", because "
"""What separates the edit from the reason in a summary."""


def propose(skill: Skill, course: Course, rng: random.Random) -> Idea | None:
    """The best new idea; None when none beats the skill as it is."""
    start = course.value(skill)
    best, value = Idea(skill, "", ""), start
    for stage in STAGES:
        ideas = [idea for operator in stage for idea in operator(best.skill, course, rng)]
        top = max(ideas, key=lambda idea: course.value(idea.skill), default=None)
        # Mined words are taken even if they help nobody yet: the examples that need them come after.
        if top and course.value(top.skill) + (stage == (mine_words,)) > value:
            joined = (f"{a}; {b}" if a else b for a, b in ((best.edit, top.edit), (best.why, top.why)))
            best, value = Idea(top.skill, *joined), course.value(top.skill)
    if value <= start or best.edit in course.tried:
        return None
    before, after = (course.count_right(s) for s in (skill, best.skill))
    return replace(best, why=f"{best.why} (train tasks right without their own example: {before} -> {after})")


def read_course(brief_text: str) -> Course:
    """The train tasks of a brief, and the edits that were tried in vain since the last that was accepted."""
    brief = json.loads(brief_text)
    tried: list[str] = []
    for attempt in brief["history"]:
        tried = [] if attempt["decision"] == "accept" else [*tried, attempt["summary"].split(BECAUSE)[0]]
    told = sorted(brief["tasks"], key=lambda task: str(task["task_id"]))
    return Course([Lesson(t["task_id"], t["input"], t["target"]) for t in told], tried)


def main(environ: Mapping[str, str]) -> None:
    """Edits the candidate in place and says what was done."""
    course = read_course(Path(environ["CAPEVOLVE_BRIEF"]).read_text(encoding="utf-8"))
    file = Path(environ["CAPEVOLVE_CANDIDATE"]) / "skill.json"
    skill = parse_skill(file.read_text(encoding="utf-8"))
    rng = random.Random(f"{environ['CAPEVOLVE_SEED']}:{environ['CAPEVOLVE_ITERATION']}")
    idea = propose(skill, course, rng)
    if idea is None:
        print("no idea beats the skill as it is")
        return
    file.write_text(format_skill(idea.skill), encoding="utf-8")
    # It asks no model: the cost is known, and it is nothing.
    note = {"summary": f"{idea.edit}{BECAUSE}{idea.why}", "cost_usd": 0.0, "tokens": 0}
    Path(environ["CAPEVOLVE_PROPOSAL"]).write_text(json.dumps(note), encoding="utf-8")


if __name__ == "__main__":
    main(os.environ)
