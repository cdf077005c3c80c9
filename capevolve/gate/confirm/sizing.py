"""How many fresh trials a look takes, and whether a confirmation can accept anything at all."""

from __future__ import annotations

import math

from capevolve.errors import UserError
from capevolve.gate.confirm.profile import ConfirmProfile
from capevolve.model import Measurement
from capevolve.stats import exceeds, planning_variance, smallest_p, trials_needed

MOST_TRIALS = 64
"""`auto` sizes no unit beyond this: an effect that needs more is not found on so few tasks."""

# The sizing leaves the looks' early stops aside: with the default looks a wanted power of .8 is about .7.


def find_look_trials(profile: ConfirmProfile, num_trials: int, record: Measurement | None) -> int:
    """Returns the trials per task and arm of one unit of a look, at least 1.

    Args:
        num_trials: The trials of an evaluation, which are one unit unless the profile says otherwise.
        record: The incumbent's measurement, whose within-task variance `auto` plans with; where it has one
            trial per task only, the variance is bounded and the looks are larger than they would need to be.
    """
    if profile.look_trials is None:
        return num_trials
    if profile.look_trials != "auto":
        return profile.look_trials
    n = 0 if record is None else sum(bool(task.rewards) for task in record.tasks)
    variance = planning_variance(record).value
    wanted = trials_needed(profile.effect, variance, n, alpha=profile.limits[-1])
    if wanted is None:
        return num_trials
    units = math.ceil(wanted / sum(profile.looks))
    return min(MOST_TRIALS, max(1, units, _find_fewest(profile, n)))


def _find_fewest(profile: ConfirmProfile, n_tasks: int) -> int:
    """The smallest unit with which the confirmation can accept; `MOST_TRIALS` where none can."""
    fit = (unit for unit in range(1, MOST_TRIALS) if _can_accept(profile, n_tasks, unit))
    return next(fit, MOST_TRIALS)


def _can_accept(profile: ConfirmProfile, n_tasks: int, look_trials: int) -> bool:
    limit = profile.limits[-1]
    return not exceeds(find_smallest_p(profile, n_tasks, look_trials), limit, limit)


def find_smallest_p(profile: ConfirmProfile, n_tasks: int, look_trials: int) -> float:
    """Returns the smallest p-value that a full confirmation can end with."""
    trials = look_trials * sum(profile.looks)
    return smallest_p(n_tasks, trials, trials)


def refuse_hopeless(profile: ConfirmProfile, n_tasks: int, look_trials: int) -> None:
    """Refuses a design whose confirmations could not accept even a perfect candidate.

    Raises:
        UserError: The smallest attainable p-value exceeds the last look's level.
    """
    if _can_accept(profile, n_tasks, look_trials):
        return
    smallest, limit = find_smallest_p(profile, n_tasks, look_trials), profile.limits[-1]
    trials = look_trials * sum(profile.looks)
    raise UserError(
        f"This gate can never accept: {n_tasks} val task{'' if n_tasks == 1 else 's'} with {trials} fresh "
        f"trials per arm cannot give a p-value below {smallest:.2g}, and the last look asks for {limit:.2g}.",
        where="gate.confirm",
        fix="Give val more tasks, or raise gate.confirm.look_trials.",
    )
