"""A target that answers only when its prompt holds a marker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import capevolve
from capevolve import Rollout, Score, Task

MARKER = "[ANSWER]"
WORDS = (
    "anchor", "basket", "candle", "drawer", "engine", "feather",
    "garden", "hammer", "island", "jacket", "kettle", "ladder",
)  # fmt: skip


class Adapter(capevolve.Adapter):
    def tasks(self, split: str) -> list[Task]:
        return [Task(id=word, input=word, target=word.upper()) for word in WORDS]

    def run_target(self, task: Task, ctx: Any, *, seed: int) -> Rollout:
        prompt = (Path(ctx) / "prompt.md").read_text(encoding="utf-8")
        output = str(task.input).upper() if MARKER in prompt else "I would rather not say."
        return Rollout(task_id=task.id, output=output)

    def score(self, task: Task, rollout: Rollout) -> Score:
        if rollout.output == task.target:
            return Score(task_id=task.id, reward=1.0, feedback="Right.")
        feedback = f"Expected {task.target!r}, got {rollout.output!r}."
        return Score(task_id=task.id, reward=0.0, feedback=feedback)
