"""How flow runs and capevolve runs find each other."""

from __future__ import annotations

from prefect.runtime import flow_run


def resolve_run_id(run: str | None) -> str:
    """The run a flow run works on: the one named, else one named after the flow run itself.

    So a retried flow run finds its own run again.
    """
    return run or str(flow_run.id)


def name_run() -> str:
    """The flow run's readable name."""
    parameters = flow_run.parameters
    return f"{flow_run.flow_name}-{parameters.get('run') or flow_run.id}"
