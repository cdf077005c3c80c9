"""What a run costs: rollouts first, then time and money where a rollout's price is known."""

from __future__ import annotations

from capevolve.design.standin import count_rollouts, list_stages
from capevolve.design.values import Bill, Figure, Part, Price, Range, Sizes
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.spec import ProjectSpec


def draw_bill(
    spec: ProjectSpec,
    sizes: Sizes,
    price: Price,
    *,
    profile: ConfirmProfile | None,
    look_trials: int | None,
    needs_evidence: bool | None,
) -> Bill:
    """Returns what a run costs at least and at most.

    Args:
        profile: Of mode `confirm`; None for the other modes.
        look_trials: Trials of one unit of a look; None for the other modes.
        needs_evidence: Whether the proposer wants every incumbent evaluated on train; None is unknown: it is
            left out of the least and counted in the most.
    """
    trials, most = spec.evaluation.num_trials, spec.search.max_iterations
    candidate_least = candidate_most = sizes.val * trials
    if profile is not None and look_trials is not None:
        stages = list_stages(profile, sizes.val, look_trials)
        candidate_least = count_rollouts(stages[0], sizes.val)
        candidate_most = sum(count_rollouts(stage, sizes.val) for stage in stages)
    evidence = sizes.train * trials
    rejected = min(most, spec.search.stall) if spec.search.stall else most
    parts = [
        Part("baseline", sizes.val * trials, sizes.val * trials),
        Part(
            "train_evidence",
            evidence if needs_evidence and most else 0,
            0 if needs_evidence is False else evidence * most,
        ),
        Part("candidates", candidate_least * rejected, candidate_most * most),
        Part("test", sizes.test * spec.seal_trials(), 2 * sizes.test * spec.seal_trials()),
    ]
    if spec.gate.aa_control:
        parts.insert(1, Part("aa_control", candidate_least, candidate_most))
    least, highest = sum(part.least for part in parts), sum(part.most for part in parts)
    return Bill(
        parts=tuple(part for part in parts if part.most),
        candidate_least=candidate_least,
        candidate_most=candidate_most,
        least=least,
        most=highest,
        seconds=_multiply(price.seconds, least, highest, 1.0 / spec.evaluation.concurrency),
        usd=_multiply(price.usd, least, highest, 1.0),
    )


def _multiply(figure: Figure, least: int, most: int, factor: float) -> Range | None:
    if figure.value is None:
        return None
    return Range(least * figure.value * factor, most * figure.value * factor)
