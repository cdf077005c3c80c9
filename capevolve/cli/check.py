"""`capevolve check`: the spec, the tasks, the splits and a few real calls, each problem with its fix."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from capevolve.adapters.check import MOST_CALLS, AdapterCheck, CallCount, check_adapter
from capevolve.adapters.findings import Finding, Level
from capevolve.adapters.listing import list_tasks
from capevolve.adapters.ready import refer_to_adapter
from capevolve.candidates import Candidate, Tree, find_changes, read_tree
from capevolve.cli.console import out, show_note
from capevolve.cli.preflight import describe_sizes, prove_proposer
from capevolve.design.cautions import list_trial_cautions
from capevolve.errors import AdapterError
from capevolve.proposers.proposal import find_forbidden
from capevolve.spec import LoadedSpec, load_spec
from capevolve.splits import SplitPlan
from capevolve.start import plan_splits

_MARKS = {
    Level.PROOF: ("✓", "none"),
    Level.NOTE: ("·", "dim"),
    Level.WARNING: ("!", "yellow"),
    Level.PROBLEM: ("✗", "red"),
}


class CheckDocument(BaseModel):
    """`capevolve check --json`, version 1. What is unknown is null, never 0."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_version: Literal[1] = 1
    project: str
    ok: bool
    findings: tuple[Finding, ...]
    calls: CallCount


def check_project(project: Path, *, as_json: bool = False) -> None:
    """Checks a project and says what it found.

    Raises:
        UserError: Something is wrong; nothing more could be checked.
        AdapterError: A problem was found.
    """
    loaded = load_spec(project)
    for note in loaded.notes:
        show_note(note)
    checked = asyncio.run(_check(loaded, (lambda _: None) if as_json else _show))
    if as_json:
        document = CheckDocument(
            project=loaded.spec.name, ok=checked.ok, findings=checked.findings, calls=checked.calls
        )
        sys.stdout.write(document.model_dump_json(indent=2) + "\n")
    else:
        out.print(describe_calls(checked.calls), markup=False)
    count = sum(finding.level is Level.PROBLEM for finding in checked.findings)
    if count:
        raise AdapterError(
            f"{count} {'problem' if count == 1 else 'problems'} found.",
            where=refer_to_adapter(loaded.root, loaded.spec).target,
            fix="Mend them and check again.",
        )
    if not as_json:
        out.print("The project is fit to run.", style="green")


async def _check(loaded: LoadedSpec, show: Callable[[Finding], None]) -> AdapterCheck:
    """Shows each finding as soon as it is known, and returns all."""
    findings: list[Finding] = []

    def tell(*found: Finding) -> None:
        for finding in found:
            show(finding)
        findings.extend(found)

    adapter = refer_to_adapter(loaded.root, loaded.spec)
    tree = read_tree(loaded.root / loaded.spec.seed_candidate)
    tell(Finding(f"the seed candidate holds {len(tree.candidate.files)} files"))
    listing = await list_tasks(adapter, timeout_s=loaded.spec.evaluation.timeout_s)
    count = len(listing.tasks)
    tell(Finding(f"{listing.facts.file} loads; it lists {count} tasks, twice the same, ids unique"))
    plan = plan_splits(listing.tasks, loaded.split_settings())
    tell(*_judge_design(loaded, plan))
    prove_proposer(loaded)
    task = {task.id: task for task in listing.tasks}[(plan.train or plan.val)[0].id]
    show_note(f"calling the target up to {MOST_CALLS} times on task {task.id!r} ...")
    with tempfile.TemporaryDirectory(prefix="capevolve-check-") as scratch:
        folder = Path(scratch) / "candidate"
        shutil.copytree(loaded.root / loaded.spec.seed_candidate, folder)
        checked = await check_adapter(
            adapter,
            folder,
            task,
            seed=loaded.spec.base_seed(),
            timeout_s=loaded.spec.evaluation.timeout_s,
            deterministic=loaded.spec.evaluation.deterministic,
            editable=_list_editable(tree, loaded.spec.editable),
            memory_mb=loaded.spec.evaluation.memory_mb,
        )
        changed = find_changes(folder, tree.candidate)
    tell(*checked.findings)
    if changed:
        fix = "Let it write elsewhere: a candidate is what the agent reads."
        what = f"the target changed the candidate's files: {', '.join(changed)}"
        tell(Finding(what, Level.PROBLEM, fix))
    return AdapterCheck(tuple(findings), checked.calls)


def _judge_design(loaded: LoadedSpec, plan: SplitPlan) -> list[Finding]:
    fix = "Change `splits` in capevolve.yaml, or know it when you read the numbers."
    found = [Finding(f"splits: {describe_sizes(plan)}")]
    found += [Finding(warning, Level.WARNING, fix) for warning in plan.warnings]
    fix = "Change `evaluation` in capevolve.yaml."
    return found + [Finding(words, Level.WARNING, fix) for words in list_trial_cautions(loaded.spec)]


def _list_editable(tree: Tree, patterns: tuple[str, ...]) -> list[str]:
    """The files of the seed candidate that a proposal may touch."""
    kept = set(find_forbidden(Candidate("", ()), tree.candidate, patterns))
    return [file.path for file in tree.candidate.files if file.path not in kept]


def describe_calls(calls: CallCount) -> str:
    """What a check called and what that cost."""
    cost = "cost not reported" if calls.cost_usd is None else f"cost {calls.cost_usd:.6f} USD"
    tokens = "" if calls.tokens is None else f", {calls.tokens} tokens"
    return f"{calls.target} calls of the target ({cost}{tokens}), {calls.scorer} of the scorer"


def _show(finding: Finding) -> None:
    mark, style = _MARKS[finding.level]
    fix = "" if finding.fix is None else f"\n  next: {finding.fix}"
    out.print(f"{mark} {finding.what}{fix}", style=style, markup=False)
