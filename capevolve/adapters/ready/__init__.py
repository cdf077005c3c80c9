"""Ready adapters: tasks from a file, a target and a scorer named in `capevolve.yaml`; no class to write."""

from __future__ import annotations

from pathlib import Path

from capevolve.adapters.records import AdapterRef
from capevolve.spec import SPEC_NAME, ProjectSpec


def refer_to_adapter(root: Path, spec: ProjectSpec) -> AdapterRef:
    """Returns where a project's adapter is, with the sections of a ready one."""
    ready = spec.ready()
    if ready is None:
        return AdapterRef(root, spec.adapter or "adapter.py")
    return AdapterRef(root, SPEC_NAME, ready.model_dump_json())
