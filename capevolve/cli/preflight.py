"""What is looked at, and shown, before a run spends anything."""

from __future__ import annotations

from capevolve import start
from capevolve.adapters.listing import list_tasks
from capevolve.adapters.ready import refer_to_adapter
from capevolve.candidates import read_tree
from capevolve.cli.console import err, show_warning
from capevolve.design import (
    Design,
    Price,
    Variance,
    describe_design,
    design_of,
    read_price,
    read_sizes,
    read_variance,
    refuse_hopeless_gate,
)
from capevolve.ledger.store import Ledger
from capevolve.proposers.proposal import load_proposer
from capevolve.runs import open_project_ledger
from capevolve.spec import LoadedSpec, ProjectSpec
from capevolve.splits import SplitPlan


async def look_ahead(loaded: LoadedSpec, run_id: str, *, allow_hopeless_gate: bool = False) -> None:
    """Proves what can be proved without calling the target, and shows the plan with its bill.

    Raises:
        UserError: The project cannot run: its seed candidate, adapter, splits or proposer; or its gate can
            never accept.
    """
    read_tree(loaded.root / loaded.spec.seed_candidate)
    plan = await plan_splits(loaded)
    needs_evidence = prove_proposer(loaded)
    if not allow_hopeless_gate:
        refuse_hopeless(loaded.spec, plan)
    ledger = open_project_ledger(loaded, create=True)
    try:
        known = read_known(ledger, loaded.spec.name)
    finally:
        ledger.close()
    design = design_of(loaded.spec, read_sizes(plan), *known, needs_evidence=needs_evidence)
    err.print(f"run {run_id}: {loaded.spec.name}, {describe_sizes(plan)}", markup=False)
    for line in describe_plan(loaded.spec, design):
        err.print(f"  {line}", markup=False)
    show_warnings(plan, design)


async def plan_splits(loaded: LoadedSpec) -> SplitPlan:
    """The splits that a run started now would freeze; the adapter is only asked for its tasks.

    Raises:
        AdapterError: The adapter cannot be loaded, or its tasks are unfit.
        SplitError: The tasks cannot be split as asked.
    """
    listing = await list_tasks(
        refer_to_adapter(loaded.root, loaded.spec), timeout_s=loaded.spec.evaluation.timeout_s
    )
    return start.plan_splits(listing.tasks, loaded.split_settings())


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


def refuse_hopeless(spec: ProjectSpec, plan: SplitPlan) -> None:
    """Refuses a gate that can never accept on these splits.

    Raises:
        UserError: It cannot.
    """
    sizes = read_sizes(plan)
    refuse_hopeless_gate(spec, sizes.val, val_units=sizes.val_units)


def read_known(ledger: Ledger, name: str) -> tuple[Variance, Price]:
    """What earlier runs of the project measured: the noise, and what a rollout takes."""
    with ledger.read() as connection:
        return read_variance(connection, name), read_price(connection, name)


def describe_sizes(plan: SplitPlan) -> str:
    """The sizes of the splits in words."""
    sizes = f"{len(plan.train)} train, {len(plan.val)} val, {len(plan.test)} test"
    return f"{sizes}, {len(plan.unused)} unused" if plan.unused else sizes


def describe_plan(spec: ProjectSpec, design: Design) -> list[str]:
    """What the design can show, what it costs, its caps, and the error of its gate."""
    caps = [f"{name} {value:g}" for name, value in spec.budget.model_dump().items() if value is not None]
    lines = [
        *describe_design(design),
        f"caps: {', '.join(caps)}" if caps else "caps: none but the iterations",
    ]
    return lines if design.gate_error is None else [*lines, design.gate_error]


def show_warnings(plan: SplitPlan, design: Design) -> None:
    """What a reader of the numbers must know, on standard error."""
    hopeless = [] if design.hopeless is None else [design.hopeless]
    for warning in (*plan.warnings, *design.cautions, *hopeless):
        show_warning(warning)
