"""Connects capevolve to an agent. Replace the three methods with your own."""

import json
from pathlib import Path

from capevolve import Adapter, Rollout, Score, Task

HERE = Path(__file__).parent


class TicketAdapter(Adapter):
    """A toy agent that routes support tickets by the keywords it reads in `rules.json`."""

    def tasks(self, split):
        """All tasks; capevolve does the splitting."""
        lines = (HERE / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
        return [Task(**json.loads(line)) for line in lines if line.strip()]

    def run_target(self, task, ctx, *, seed):
        """One run of the agent: `ctx` is the folder of the candidate.

        Whatever is random in it takes `capevolve.task_seed(task, seed)`.
        """
        rules = json.loads((ctx / "rules.json").read_text(encoding="utf-8"))
        words = task.input.lower().split()
        queue = next((rules[word] for word in words if word in rules), "other")
        return Rollout(task_id=task.id, output=queue)

    def score(self, task, rollout):
        """A reward from 0 to 1, and words for the proposer."""
        right = rollout.output == task.target
        return Score(
            task_id=task.id,
            reward=1.0 if right else 0.0,
            feedback="" if right else f"routed to {rollout.output}",
        )
