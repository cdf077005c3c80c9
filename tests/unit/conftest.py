"""A short way to write a measurement down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from capevolve.model import Measurement, Reason, TaskOutcomes, Unmeasured

Rows = dict[str, Sequence[float | Reason]]


@pytest.fixture(scope="session")
def measure() -> Callable[..., Measurement]:
    """Builds a val measurement from {task id: rewards, or the reason of an unmeasured trial}."""

    def build(rows: Rows, clusters: dict[str, str] | None = None, **changes) -> Measurement:
        tasks = tuple(
            TaskOutcomes(
                task_id,
                tuple(float(t) for t in trials if not isinstance(t, Reason)),
                tuple(Unmeasured(t) for t in trials if isinstance(t, Reason)),
                (clusters or {}).get(task_id),
            )
            for task_id, trials in rows.items()
        )
        plain = {"evaluation_id": "e1", "candidate_id": "c1", "split": "val", "num_trials": 1}
        return Measurement(**{**plain, "base_seed": 0, "tasks": tasks, **changes})

    return build
