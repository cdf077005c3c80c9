"""An adapter as cap-evolve projects write it; only the name of the package in the import is new."""

import random
from pathlib import Path

from capevolve import CapabilityAdapter, Rollout, Score, Task

BASE = 0.25
HABITS = {"step by step": 0.3, "check your result": 0.25, "only the number": 0.15}
"""Instructions that the stand-in agent understands, and how much likelier each makes a right answer."""


class Adapter(CapabilityAdapter):
    def tasks(self, split: str) -> list[Task]:
        return [
            Task(id=f"{left}x{right}", input=f"{left} * {right}", target=left * right)
            for left in (13, 17, 19, 23)
            for right in (6, 7, 8, 9, 11, 12)
        ]

    def run_target(self, task: Task, ctx: Path, *, seed: int = 0) -> Rollout:
        prompt = (Path(ctx) / "prompt.md").read_text(encoding="utf-8").lower()
        chance = BASE + sum(gain for habit, gain in HABITS.items() if habit in prompt)
        left, _, right = task.input.split()
        product = int(left) * int(right)
        slips = random.Random(f"{seed}:{task.id}").random() >= chance
        output = product + 10 if slips else product
        return Rollout(task_id=task.id, output=output, trace=f"chance of a right answer: {chance:.2f}")

    def score(self, task: Task, rollout: Rollout) -> Score:
        reward = 1.0 if rollout.output == task.target else 0.0
        feedback = "correct" if reward else f"expected {task.target}, got {rollout.output}"
        return Score(task_id=task.id, reward=reward, feedback=feedback, trial_rewards=[reward])
