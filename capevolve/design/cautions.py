"""What a reader of a design must know: each caution a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from capevolve.design.comparison import find_bar
from capevolve.design.hurdles import count
from capevolve.design.values import Bill, Resolution, Sizes, Variance
from capevolve.gate.evidence import FEWEST_PAIRS
from capevolve.gate.modes import find_level
from capevolve.gate.settings import GateSettings
from capevolve.spec import ProjectSpec
from capevolve.stats import exceeds

ONE_TRIAL = (
    "one trial per task: the noise within tasks stays unmeasured. Honest for a target that always answers "
    "alike (declare it: evaluation.deterministic); for any other set evaluation.num_trials to 3 or more."
)

WASTED_TRIALS = (
    "the target is declared deterministic, and several trials per task are planned: the second says nothing "
    "that the first did not. Set evaluation.num_trials and seal.num_trials to 1 and take more tasks."
)

_CERTIFIES = {"gate": "the gate", "all_stages": "the gate", "test": "the sealed test"}


def list_cautions(
    spec: ProjectSpec,
    settings: GateSettings,
    sizes: Sizes,
    variance: Variance,
    effects: Sequence[Resolution],
    bill: Bill,
) -> tuple[str, ...]:
    """Returns what a reader of the design must know."""
    found = list_trial_cautions(spec)
    found += _list_noise(variance)
    found += _list_pass_fail(settings, sizes, spec.evaluation.num_trials)
    found += _list_headroom(variance, effects)
    found += _list_caps(spec, bill)
    return tuple(found)


def list_trial_cautions(spec: ProjectSpec) -> list[str]:
    """Returns what must be known of the number of trials."""
    trials = spec.evaluation.num_trials
    if spec.evaluation.deterministic:
        return [WASTED_TRIALS] if max(trials, spec.seal_trials()) > 1 else []
    return [ONE_TRIAL] if trials == 1 else []


def _list_noise(variance: Variance) -> list[str]:
    if variance.source == "measured" or variance.within > 0.0 or variance.mean is None:
        return []
    return [
        f"every trial of the seed candidate on run {variance.run_id} had the reward {variance.mean:g}, which "
        "leaves no room for noise; a better candidate may have some, and then smaller effects are missed."
    ]


def _list_pass_fail(settings: GateSettings, sizes: Sizes, trials: int) -> list[str]:
    """For `paired`: rewards of 0 and 1 are too coarse a lattice to exceed the bar on very few tasks.

    On them mean / SE of n deltas in steps of 1 / k is at most n k - 1, reached when all tasks gain in full
    but for one trial; when every task gains alike SE is 0, and sign_flip's p-value is at least 2^-n.
    """
    n = sizes.val
    if settings.mode != "paired" or n < FEWEST_PAIRS or sizes.val_units < n:
        return []
    most = n * trials - 1
    bar, level = find_bar(settings, n), find_level(settings)
    if exceeds(most, bar, most + bar) or not exceeds(0.5**n, level, level):
        return []
    return [
        f"if rewards are only 0 or 1 this gate can never accept: {count(n, 'val task')} x "
        f"{count(trials, 'trial')} cannot exceed {bar:.1f} standard errors. More tasks or trials mend it."
    ]


def _list_headroom(variance: Variance, effects: Sequence[Resolution]) -> list[str]:
    mean = variance.mean
    if mean is None:
        return []
    short = [
        _CERTIFIES[effect.name]
        for effect in effects
        if effect.name in _CERTIFIES and effect.effect is not None and exceeds(effect.effect, 1.0 - mean, 1.0)
    ]
    if not short:
        return []
    return [
        f"the seed candidate scored {mean:.3f} on run {variance.run_id}: the {1.0 - mean:.3f} that is left "
        f"is less than {' and '.join(short)} can be relied on to find."
    ]


def _list_caps(spec: ProjectSpec, bill: Bill) -> list[str]:
    cap = spec.budget.max_calls
    if cap is None or spec.search.max_iterations == 0:
        return []
    once = sum(part.least for part in bill.parts if part.name in ("baseline", "aa_control", "train_evidence"))
    final = sum(part.most for part in bill.parts if part.name == "test")
    needed = once + bill.candidate_least + final
    if cap >= needed:
        return []
    return [
        f"budget.max_calls {cap} is used up before any candidate is judged: {needed} calls lead to a first "
        "verdict and the test number."
    ]
