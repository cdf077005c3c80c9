"""The spec of a project: `capevolve.yaml`, read strictly, as frozen models."""

from capevolve.spec.loading import SPEC_NAME, LoadedSpec, ledger_url, load_spec, read_pinned_ids
from capevolve.spec.models import (
    BudgetSpec,
    CommandProposerSpec,
    EvaluationSpec,
    GateSpec,
    PinnedIds,
    ProjectSpec,
    ScriptProposerSpec,
    SealSpec,
    SearchSpec,
    SplitsSpec,
)

__all__ = [
    "SPEC_NAME",
    "BudgetSpec",
    "CommandProposerSpec",
    "EvaluationSpec",
    "GateSpec",
    "LoadedSpec",
    "PinnedIds",
    "ProjectSpec",
    "ScriptProposerSpec",
    "SealSpec",
    "SearchSpec",
    "SplitsSpec",
    "ledger_url",
    "load_spec",
    "read_pinned_ids",
]
