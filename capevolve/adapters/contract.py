"""What a user writes so that capevolve can drive their agent: three methods, `def` or `async def`.

An adapter may subclass `Adapter` or merely look like it. It is loaded and called only in child processes
(`adapters/host.py`), never in the process that drives a run.

Three more methods are called where an adapter has them, with the names and shapes of cap-evolve; each may be
`async def`, and `evaluation.batch_size: 0` calls none of them:

`run_trials(tasks, ctx, *, n_trials, base_seed)` returns `{task id: [Rollout, ...]}`: of each task the
rollouts of the seeds `base_seed` to `base_seed + n_trials - 1`. `run_batch(tasks, ctx, *, seed)` returns
`{task id: Rollout}` or a list parallel to `tasks`. The first of these that an adapter has is called instead
of `run_target`. `score_batch(tasks, rollouts)` takes the `{task id: Rollout}` of one seed and returns
`{task id: Score}` or a list parallel to `tasks`; what it leaves out is scored by `score`.

A call holds at most `evaluation.batch_size` trials and has the limit of one, `evaluation.timeout_s`. Say of a
trial what is its own: `Rollout.error` where it could not be run. A call of several trials that raises, that
crashes or hangs costs each of them another call, alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capevolve.model import Rollout, Score, Task


class Adapter(ABC):
    """Connects capevolve to an agent and its evaluation."""

    @abstractmethod
    def tasks(self, split: str) -> Sequence[Task]:
        """Returns the tasks; capevolve asks with `split="all"` and does the splitting itself.

        The same call returns the same tasks: the order is irrelevant, ids and content are not.
        """

    @abstractmethod
    def run_target(self, task: Task, ctx: Any, *, seed: int) -> Rollout | Awaitable[Rollout]:
        """Runs the agent once on one task.

        Args:
            task: The evaluation case.
            ctx: What `live` yielded: by default the path of the candidate's directory.
            seed: The trial's seed, the same for every task of trial k. Forward `task_seed(task, seed)` to
                whatever is random in the agent: with one seed for all tasks a trial's luck is the same on all
                of them, and every standard error is too small.

        Raises:
            AgentFailure: The agent itself failed; the trial scores 0. Any other exception, like a
                `Rollout.error`, is an infrastructure failure: missing data.
            RateLimitedError: The provider asks to be called less often; the trial is tried again later. A
                client's own error with status 429 says the same.
        """

    @abstractmethod
    def score(self, task: Task, rollout: Rollout) -> Score | Awaitable[Score]:
        """Scores one rollout in [0, 1]. The same rollout always gets the same score."""

    def materialize(self, candidate_dir: Path, edits: Mapping[str, str] | None = None) -> None:
        """Writes edits, `{relative path: text}`, into a candidate's directory, and touches nothing else."""
        for name, text in (edits or {}).items():
            path = candidate_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def apply(self, candidate_dir: Path, edits: Mapping[str, str] | None = None) -> None:
        """Makes a candidate the one the target uses. Kept for cap-evolve adapters; prefer `live`."""
        self.materialize(candidate_dir, edits)

    @contextmanager
    def live(self, candidate_dir: Path) -> Iterator[Any]:
        """Makes a candidate live while trials run, and yields the `ctx` that `run_target` receives."""
        self.apply(candidate_dir)
        yield candidate_dir


CapabilityAdapter = Adapter
"""The name cap-evolve gives to `Adapter`."""
