"""What is looked at, and shown, before a run spends anything."""

from __future__ import annotations

from capevolve.adapters.listing import list_tasks
from capevolve.adapters.records import AdapterRef
from capevolve.candidates import read_tree
from capevolve.cli.console import err, show_warning
from capevolve.gate import chance_of_any_false_accept
from capevolve.gate.record import gate_settings
from capevolve.proposers.proposal import load_proposer
from capevolve.spec import LoadedSpec, ProjectSpec
from capevolve.splits import SplitPlan, make_splits
from capevolve.start import list_rows


async def look_ahead(loaded: LoadedSpec, run_id: str) -> None:
    """Proves what can be proved without calling the target, and shows the plan with its bill.

    Raises:
        UserError: The project cannot run: its seed candidate, adapter, splits or proposer.
    """
    read_tree(loaded.root / loaded.spec.seed_candidate)
    listing = await list_tasks(
        AdapterRef(loaded.root, loaded.spec.adapter), timeout_s=loaded.spec.evaluation.timeout_s
    )
    plan = make_splits(list_rows(listing.tasks, loaded.spec.splits.group_by), loaded.split_settings())
    needs_evidence = prove_proposer(loaded)
    err.print(f"run {run_id}: {loaded.spec.name}, {describe_sizes(plan)}", markup=False)
    for line in describe_plan(loaded.spec, plan, needs_evidence=needs_evidence):
        err.print(f"  {line}", markup=False)
    for warning in plan.warnings:
        show_warning(warning)


def prove_proposer(loaded: LoadedSpec) -> bool:
    """Checks that the proposer can be started; returns whether it wants train evidence.

    Raises:
        UserError: It cannot.
    """
    if loaded.spec.search.max_iterations == 0:
        return False
    proposer = load_proposer(loaded.root, loaded.spec)
    proposer.check()
    return proposer.needs_evidence


def describe_sizes(plan: SplitPlan) -> str:
    """The sizes of the splits in words."""
    sizes = f"{len(plan.train)} train, {len(plan.val)} val, {len(plan.test)} test"
    return f"{sizes}, {len(plan.unused)} unused" if plan.unused else sizes


def describe_plan(spec: ProjectSpec, plan: SplitPlan, *, needs_evidence: bool) -> list[str]:
    """The bill of a run at most, and what its gate costs."""
    trials, most = spec.evaluation.num_trials, spec.search.max_iterations
    search = len(plan.val) * trials * (1 + most)
    if needs_evidence:
        search += len(plan.train) * trials * max(1, most)
    final = 2 * len(plan.test) * spec.seal_trials()
    lines = [f"at most {search + final} calls of the target: {search} to search, {final} for the test number"]
    caps = [f"{name} {value:g}" for name, value in spec.budget.model_dump().items() if value is not None]
    lines.append(f"caps: {', '.join(caps)}" if caps else "caps: none but the iterations")
    chance = chance_of_any_false_accept(gate_settings(spec.gate), most)
    if chance:
        lines.append(
            f"gate {spec.gate.mode}: if all {most} edits changed nothing, one would still be accepted "
            f"with a chance of {chance:.0%}; the sealed test is the judge"
        )
    return lines
