"""`capevolve check`: the spec, the tasks, the splits and a few real calls, each problem with its fix."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from capevolve.adapters.check import CALLS, Finding, check_adapter
from capevolve.adapters.listing import list_tasks
from capevolve.adapters.ready import refer_to_adapter
from capevolve.candidates import find_changes, read_tree
from capevolve.cli.console import out, show_note
from capevolve.cli.preflight import describe_sizes, prove_proposer
from capevolve.errors import AdapterError
from capevolve.spec import LoadedSpec, load_spec
from capevolve.start import plan_splits


def check_project(project: Path) -> None:
    """Checks a project and says what it found.

    Raises:
        UserError: Something is wrong; nothing more could be checked.
        AdapterError: A problem was found.
    """
    loaded = load_spec(project)
    for note in loaded.notes:
        show_note(note)
    findings = asyncio.run(_check(loaded))
    problems = [finding for finding in findings if finding.fix is not None]
    if problems:
        raise AdapterError(
            f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'} found.",
            where=refer_to_adapter(loaded.root, loaded.spec).target,
            fix="Mend them and check again.",
        )
    out.print("The project is fit to run.", style="green")


async def _check(loaded: LoadedSpec) -> list[Finding]:
    adapter = refer_to_adapter(loaded.root, loaded.spec)
    limit = loaded.spec.evaluation.timeout_s
    tree = read_tree(loaded.root / loaded.spec.seed_candidate)
    _show(Finding(f"the seed candidate holds {len(tree.candidate.files)} files"))
    listing = await list_tasks(adapter, timeout_s=limit)
    count = len(listing.tasks)
    _show(Finding(f"{listing.facts.file} loads; it lists {count} tasks, twice the same, ids unique"))
    plan = plan_splits(listing.tasks, loaded.split_settings())
    _show(Finding(f"splits: {describe_sizes(plan)}"))
    for warning in plan.warnings:
        _show(Finding(warning, warning=True))
    prove_proposer(loaded)
    listed = {task.id: task for task in listing.tasks}
    task = listed[(plan.train or plan.val)[0].id]
    show_note(f"calling the target {CALLS} times on train task {task.id!r} ...")
    with tempfile.TemporaryDirectory(prefix="capevolve-check-") as scratch:
        folder = Path(scratch) / "candidate"
        shutil.copytree(loaded.root / loaded.spec.seed_candidate, folder)
        checked = await check_adapter(adapter, folder, task, seed=loaded.spec.base_seed(), timeout_s=limit)
        changed = find_changes(folder, tree.candidate)
    findings = list(checked.findings)
    if changed:
        findings.append(
            Finding(
                f"the target changed the candidate's files: {', '.join(changed)}",
                "Let it write elsewhere: a candidate is what the agent reads.",
            )
        )
    for finding in findings:
        _show(finding)
    return findings


def _show(finding: Finding) -> None:
    if finding.fix is not None:
        out.print(f"✗ {finding.what}\n  next: {finding.fix}", style="red", markup=False)
    else:
        mark, style = ("!", "yellow") if finding.warning else ("✓", "none")
        out.print(f"{mark} {finding.what}", style=style, markup=False)
