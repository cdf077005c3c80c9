"""The spec of a project: `capevolve.yaml`, read strictly, as frozen models."""

from capevolve.spec.gating import ConfirmSpec, GateSpec
from capevolve.spec.loading import SPEC_NAME, LoadedSpec, ledger_url, load_spec, read_pinned_ids
from capevolve.spec.models import (
    BudgetSpec,
    CommandProposerSpec,
    EvaluationSpec,
    ProjectSpec,
    ScriptProposerSpec,
    SealSpec,
    SearchSpec,
)
from capevolve.spec.ready import ReadySpec
from capevolve.spec.splitting import PinnedIds, SplitsSpec

__all__ = [
    "SPEC_NAME",
    "BudgetSpec",
    "CommandProposerSpec",
    "ConfirmSpec",
    "EvaluationSpec",
    "GateSpec",
    "LoadedSpec",
    "PinnedIds",
    "ProjectSpec",
    "ReadySpec",
    "ScriptProposerSpec",
    "SealSpec",
    "SearchSpec",
    "SplitsSpec",
    "ledger_url",
    "load_spec",
    "read_pinned_ids",
]
