"""Which keys a resumed run may take from a changed spec: limits, never what defines a number."""

from __future__ import annotations

import json
from typing import Any

from capevolve.canonical import canonical_json
from capevolve.errors import SpecError
from capevolve.spec.models import CommandProposerSpec, ProjectSpec
from capevolve.spec.ready import CommandTargetSpec

CHANGEABLE = (
    "name",
    "ledger",
    "proposer",
    "search",
    "budget",
    "evaluation.concurrency",
    "evaluation.timeout_s",
    "evaluation.grace_s",
    "evaluation.retries",
    "evaluation.retry_wait_s",
    "evaluation.trials_per_host",
    "evaluation.batch_size",
    "evaluation.memory_mb",
    "evaluation.max_trace_kb",
    "evaluation.deterministic",
    "evaluation.max_interruptions",
    "evaluation.requests_per_minute",
    "evaluation.tokens_per_minute",
    "evaluation.prefect_limit",
    "evaluation.adaptive",
    "evaluation.rate_limit_retries",
    "seal.max_test_looks",
    "seal.interrupted",
)


KEPT: dict[tuple[str, str], object] = {
    ("evaluation", "timeout_is"): "infra",
    ("evaluation", "batch_size"): 0,
}
"""Keys that a run keeps unless its file sets them, with what a spec means that was stored without them.

Their defaults are for new runs: an older run must not change its meaning under the same file.
"""


def spec_json(spec: ProjectSpec) -> str:
    """The spec as canonical JSON, without what may hold a secret: the ledger's URL, every `env`."""
    return canonical_json(
        spec.model_dump(mode="json", exclude={"ledger": True, "proposer": {"env"}, "target": {"env"}})
    )


def parse_spec(text: str) -> ProjectSpec:
    """Reads a stored spec back; keys that were not known when it was stored mean their default, or `KEPT`."""
    data = json.loads(text)
    for (section, key), meaning in KEPT.items():
        data.setdefault(section, {}).setdefault(key, meaning)
    return ProjectSpec.model_validate_json(json.dumps(data))


def restore_secrets(stored: ProjectSpec, current: ProjectSpec) -> ProjectSpec:
    """A stored spec with what is never stored taken from the current one."""
    proposer, target = stored.proposer, stored.target
    if isinstance(proposer, CommandProposerSpec) and isinstance(current.proposer, CommandProposerSpec):
        proposer = proposer.model_copy(update={"env": current.proposer.env})
    if isinstance(target, CommandTargetSpec) and isinstance(current.target, CommandTargetSpec):
        target = target.model_copy(update={"env": current.target.env})
    return stored.model_copy(update={"ledger": current.ledger, "proposer": proposer, "target": target})


def resume_spec(run_id: str, stored: str, current: ProjectSpec) -> ProjectSpec:
    """The stored spec with the changeable keys of the current one.

    Raises:
        SpecError: Another key differs.
    """
    merged, now = json.loads(spec_json(parse_spec(stored))), json.loads(spec_json(current))
    for section, key in KEPT:
        if key not in getattr(current, section).model_fields_set:
            now[section][key] = merged[section][key]
    for path in CHANGEABLE:
        _copy_key(now, merged, path.split("."))
    changes = _name_changes(merged, now)
    if changes:
        raise SpecError(
            f"The spec differs from the one run {run_id} was started with: {'; '.join(changes)}.",
            where="capevolve.yaml",
            fix="Restore these keys to resume the run, or start a new run.",
        )
    return restore_secrets(parse_spec(canonical_json(merged)), current)


def _copy_key(source: Any, target: Any, path: list[str]) -> None:
    *outer, last = path
    for key in outer:
        source, target = source[key], target[key]
    if last in source:
        target[last] = source[last]


def _name_changes(old: Any, new: Any, path: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        changes = []
        for key in sorted(old.keys() | new.keys()):
            changes += _name_changes(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
        return changes
    return [] if old == new else [f"{path} was {json.dumps(old)}, is {json.dumps(new)}"]
