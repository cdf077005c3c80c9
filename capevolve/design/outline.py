"""A project's design as a whole: what it can show, what it costs, what to beware of. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from capevolve.design.bill import draw_bill
from capevolve.design.cautions import list_cautions
from capevolve.design.comparison import gate_hurdle
from capevolve.design.confirmation import confirm_hurdles
from capevolve.design.hopeless import find_hopeless
from capevolve.design.hurdles import Hurdle, new_tasks_hurdle, permutation_hurdle
from capevolve.design.standin import size_look
from capevolve.design.values import FINAL_LEVEL, Design, Price, Sizes, Variance
from capevolve.gate.confirm.profile import PROFILES
from capevolve.gate.disclosure import describe_error
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.settings import GateSettings
from capevolve.model import TaskRef
from capevolve.spec import ProjectSpec
from capevolve.splits import SplitPlan
from capevolve.stats.moments import cluster_key

WANTED = PROFILES["default"].effect
"""The effect to plan for where none is named: what `gate.confirm.effect` is when left out."""


def read_sizes(plan: SplitPlan) -> Sizes:
    """Returns the sizes of a split plan."""
    return Sizes(
        train=len(plan.train),
        val=len(plan.val),
        test=len(plan.test),
        val_units=_count_units(plan.val),
        test_units=_count_units(plan.test),
        holdout=plan.holdout,
    )


def _count_units(refs: Iterable[TaskRef]) -> int:
    return len({cluster_key(ref.id, ref.cluster) for ref in refs})


def design_of(
    spec: ProjectSpec,
    sizes: Sizes,
    variance: Variance,
    price: Price,
    *,
    wanted: float | None = None,
    needs_evidence: bool | None = None,
) -> Design:
    """Returns what a design can show and what it costs.

    Args:
        spec: The project's.
        sizes: Tasks per split.
        variance: The noise to plan with.
        price: What a rollout takes.
        wanted: The effect to say the needs of, in (0, 1); None is that of `gate.confirm`, else `WANTED`.
        needs_evidence: Whether the proposer wants train evidence; None is unknown.

    Raises:
        UserError: A setting of the gate is out of its range.
    """
    settings = gate_settings(spec.gate)
    profile, trials = settings.confirm, spec.evaluation.num_trials
    look_trials = None if profile is None else size_look(profile, trials, sizes.val, variance.within)
    hurdles = _list_hurdles(spec, settings, sizes, variance, look_trials)
    effects = tuple(hurdle.resolve() for hurdle in hurdles)
    if wanted is None:
        wanted = WANTED if profile is None else profile.effect
    hopeless = find_hopeless(spec, sizes.val, val_units=sizes.val_units)
    bill = draw_bill(
        spec, sizes, price, profile=profile, look_trials=look_trials, needs_evidence=needs_evidence
    )
    return Design(
        mode=settings.mode,
        num_trials=trials,
        seal_trials=spec.seal_trials(),
        look_trials=look_trials,
        max_iterations=spec.search.max_iterations,
        concurrency=spec.evaluation.concurrency,
        sizes=sizes,
        variance=variance,
        price=price,
        effects=effects,
        wanted=wanted,
        needs=tuple(hurdle.need(wanted) for hurdle in hurdles if hurdle.name != "screen"),
        bill=bill,
        gate_error=_describe_gate_error(settings, spec.search.max_iterations, sizes.val, trials),
        cautions=list_cautions(spec, settings, sizes, variance, effects, bill),
        hopeless=None if hopeless is None else hopeless.what,
    )


def _list_hurdles(
    spec: ProjectSpec,
    settings: GateSettings,
    sizes: Sizes,
    variance: Variance,
    look_trials: int | None,
) -> list[Hurdle]:
    """What a candidate has to pass, in order, down to the sealed test."""
    trials, within, profile = spec.evaluation.num_trials, variance.within, settings.confirm
    if profile is None or look_trials is None:
        hurdles = [gate_hurdle(settings, sizes.val, sizes.val_units, trials, variance)]
    else:
        hurdles = confirm_hurdles(profile, sizes.val, trials, look_trials, within)
    return [
        *hurdles,
        permutation_hurdle("test", sizes.test, spec.seal_trials(), FINAL_LEVEL, within),
        new_tasks_hurdle(sizes.test, sizes.test_units, spec.seal_trials(), variance),
    ]


def _describe_gate_error(
    settings: GateSettings, n_candidates: int, n_val: int, num_trials: int
) -> str | None:
    if min(n_candidates, n_val) < 1:
        return None
    return describe_error(settings, n_candidates, n_val, num_trials)
