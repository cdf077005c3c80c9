"""`capevolve plan`: what a project's design can show and what it costs, before any call of the target."""

from __future__ import annotations

import asyncio
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from capevolve.cli.console import out, show_note
from capevolve.cli.preflight import (
    describe_plan,
    describe_sizes,
    plan_splits,
    read_known,
    refuse_hopeless,
    show_warnings,
)
from capevolve.design import Design, Figure, Price, Variance, design_of, read_sizes
from capevolve.design.document import PlanDocument
from capevolve.errors import LedgerError, UserError
from capevolve.proposers.proposal import load_proposer
from capevolve.runs import open_project_ledger
from capevolve.spec import LoadedSpec, load_spec
from capevolve.splits import SplitPlan


@dataclass(frozen=True, slots=True)
class Stated:
    """What the user says instead of what was measured; None leaves the measured.

    Attributes:
        effect: The improvement of the mean reward to find, between 0 and 1.
        seconds, usd: What one rollout takes.
    """

    effect: float | None = None
    seconds: float | None = None
    usd: float | None = None


def plan_project(project: Path, stated: Stated, *, allow_hopeless_gate: bool, as_json: bool) -> None:
    """Shows the design of a project.

    Raises:
        UserError: The project cannot be planned, or its gate can never accept.
    """
    _check_stated(stated)
    loaded = load_spec(project)
    for note in loaded.notes:
        show_note(note)
    plan = asyncio.run(plan_splits(loaded))
    if not allow_hopeless_gate:
        refuse_hopeless(loaded.spec, plan)
    design = draw_design(loaded, plan, stated)
    if as_json:
        sys.stdout.write(build_document(loaded, plan, design).model_dump_json(indent=2) + "\n")
        return
    out.print(f"{loaded.spec.name}: {describe_sizes(plan)}", markup=False)
    for line in describe_plan(loaded.spec, design):
        out.print(f"  {line}", markup=False)
    show_warnings(plan, design)


def _check_stated(stated: Stated) -> None:
    if stated.effect is not None and not 0.0 < stated.effect < 1.0:
        raise UserError(
            f"An effect of {stated.effect:g} cannot be found.",
            where="--effect",
            fix="Give an improvement of the mean reward between 0 and 1, such as 0.05.",
        )
    for option, value in (("--seconds-per-rollout", stated.seconds), ("--usd-per-rollout", stated.usd)):
        if value is not None and not (math.isfinite(value) and value >= 0.0):
            raise UserError(f"A rollout cannot take {value:g}.", where=option, fix="Give a number from 0.")


def draw_design(loaded: LoadedSpec, plan: SplitPlan, stated: Stated) -> Design:
    """The design of a project, on what its earlier runs measured and the user states."""
    variance, price = _read_known(loaded)
    return design_of(
        loaded.spec,
        read_sizes(plan),
        variance,
        _state(price, stated),
        wanted=stated.effect,
        needs_evidence=_find_needs_evidence(loaded),
    )


def _read_known(loaded: LoadedSpec) -> tuple[Variance, Price]:
    """What earlier runs measured; a ledger that is missing or unreadable is no obstacle to planning."""
    try:
        ledger = open_project_ledger(loaded, create=False)
    except LedgerError as error:
        show_note(f"planned without measurements: {error.what}")
        return Variance(), Price()
    try:
        return read_known(ledger, loaded.spec.name)
    finally:
        ledger.close()


def _state(price: Price, stated: Stated) -> Price:
    if stated.seconds is not None:
        price = replace(price, seconds=Figure(stated.seconds, "stated"))
    if stated.usd is not None:
        price = replace(price, usd=Figure(stated.usd, "stated"))
    return price


def _find_needs_evidence(loaded: LoadedSpec) -> bool | None:
    """Whether the proposer wants train evidence; None while there is no proposer that could be asked."""
    try:
        return load_proposer(loaded.root, loaded.spec).needs_evidence
    except UserError as error:
        show_note(f"planned without a proposer: {error.what}")
        return None


def build_document(loaded: LoadedSpec, plan: SplitPlan, design: Design) -> PlanDocument:
    """The plan as JSON."""
    return PlanDocument(
        project=loaded.spec.name, design=design, caps=loaded.spec.budget, warnings=plan.warnings
    )
