"""Designs whose gate can never accept, found before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass

from capevolve.design.standin import list_stages, size_look
from capevolve.errors import UserError
from capevolve.gate.confirm.case import count_part
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.gate.confirm.seeds import PEEK, RACE
from capevolve.gate.confirm.sizing import refuse_hopeless
from capevolve.gate.evidence import FEWEST_PAIRS
from capevolve.gate.from_spec import gate_settings
from capevolve.spec import ProjectSpec
from capevolve.stats import exceeds, smallest_p

OVERRIDE = "--allow-hopeless-gate"

_BOUND = 0.25


@dataclass(frozen=True, slots=True)
class Hopeless:
    """Why a gate can never accept, which key says so, and what to change."""

    what: str
    where: str
    fix: str


def refuse_hopeless_gate(spec: ProjectSpec, n_val: int, *, val_units: int | None = None) -> None:
    """Refuses a design whose gate can never accept, whatever the candidate.

    Args:
        spec: The project's.
        n_val: Val tasks.
        val_units: Independent units among them (clusters); None: every task is one.

    Raises:
        UserError: There is no outcome of val that this gate accepts, and the search would ask for one.
    """
    found = find_hopeless(spec, n_val, val_units=val_units)
    if found is not None:
        raise UserError(found.what, where=found.where, fix=f"{found.fix} {OVERRIDE} goes on all the same.")


def find_hopeless(spec: ProjectSpec, n_val: int, *, val_units: int | None = None) -> Hopeless | None:
    """Returns why the gate can never accept; None when it can, and where no candidate is ever judged.

    What depends on the rewards is left out: a verdict that graded rewards could reach is possible.

    Raises:
        UserError: A setting of the gate is out of its range.
    """
    settings = gate_settings(spec.gate)
    if spec.search.max_iterations == 0:
        return None
    if n_val < FEWEST_PAIRS:
        count = f"{n_val} val task{'' if n_val == 1 else 's'}"
        return Hopeless(
            f"This gate can never accept: with {count} every verdict is indecisive.",
            "splits",
            f"Give val at least {FEWEST_PAIRS} tasks.",
        )
    if settings.mode in ("paired", "significant") and val_units == 1:
        return Hopeless(
            f"This gate can never accept: all {n_val} val tasks lie in one cluster, which leaves the error "
            "of a gain undefined.",
            "splits",
            "Give val tasks of two clusters, or use gate: confirm, which judges on these tasks.",
        )
    if settings.confirm is None:
        return None
    return _find_in_stages(settings.confirm, n_val, spec.evaluation.num_trials)


def _find_in_stages(profile: ConfirmProfile, n_val: int, num_trials: int) -> Hopeless | None:
    """Walks a perfect candidate, all passes against all failures, through the stages."""
    look_trials = size_look(profile, num_trials, n_val, _BOUND)
    try:
        refuse_hopeless(profile, n_val, look_trials)
    except UserError as error:
        return Hopeless(error.what, error.where or "gate.confirm", error.fix or "")
    stages = list_stages(profile, n_val, look_trials)
    screening = [stage for stage in stages if not stage.both]
    seen = 0
    for stage in screening:
        seen += n_val if stage.task_ids is None else len(stage.task_ids)
        if seen < FEWEST_PAIRS:
            return Hopeless(
                f"This gate can never accept: a race on {seen} task leaves every verdict indecisive.",
                "gate.confirm.race_frac",
                f"Let at least {FEWEST_PAIRS} of the {n_val} val tasks race.",
            )
        key = "race_kill_p" if stage.stage == RACE else "screen_p"
        limit, smallest = getattr(profile, key), smallest_p(seen, 1, num_trials)
        if exceeds(smallest, limit, limit):
            return _stopped(stage.stage, smallest, limit, key)
    return _find_futile(profile, n_val, look_trials)


def _find_futile(profile: ConfirmProfile, n_val: int, look_trials: int) -> Hopeless | None:
    trials = profile.looks[0] * look_trials
    n_peeked = count_part(profile.peek_frac, n_val)
    smallest = smallest_p(n_peeked, trials, trials)
    if n_peeked >= FEWEST_PAIRS and exceeds(smallest, profile.peek_p, profile.peek_p):
        return _stopped(PEEK, smallest, profile.peek_p, "peek_p")
    trials = 0
    for number, (units, limit) in enumerate(zip(profile.looks, profile.look_futility, strict=False), 1):
        trials += units * look_trials
        smallest = smallest_p(n_val, trials, trials)
        accept_at = profile.limits[number - 1]
        if exceeds(smallest, limit, limit) and exceeds(smallest, accept_at, accept_at):
            return _stopped(f"look {number}", smallest, limit, "look_futility")
    return None


def _stopped(stage: str, smallest: float, limit: float, key: str) -> Hopeless:
    return Hopeless(
        f"This gate can never accept: the {stage} rejects p-values above {limit:.2g}, and the smallest it "
        f"can see is {smallest:.2g}.",
        f"gate.confirm.{key}",
        f"Give val more tasks, or raise gate.confirm.{key}.",
    )
