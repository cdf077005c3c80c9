"""pass^k (all of k trials pass) and pass@k (at least one of k trials passes)."""

from __future__ import annotations

import math


def pass_hat_k(passed: int, trials: int, k: int) -> float | None:
    """Returns pass^k of one task: the unbiased estimate of the chance that k trials all pass.

    Formula: C(c, k) / C(n, k)

    Args:
        passed: Trials that passed, c. Elsewhere a trial passes when its reward is at least 1 - 1e-9.
        trials: Trials measured, n.
        k: Trials asked about.

    Returns:
        In [0, 1].

    Undefined: None for k < 1 and k > n: n trials say nothing unbiased about more than n.

    Caution: With k = n it is 0 or 1 on each task, so only its mean over many tasks says something. Graded
        rewards below the pass mark count as failures.

    Raises:
        ValueError: `passed` is not in 0 to `trials`.

    Source: Yao et al. (2024, tau-bench).
    """
    _check(passed, trials)
    if k < 1 or k > trials:
        return None
    return math.comb(passed, k) / math.comb(trials, k)


def pass_at_k(passed: int, trials: int, k: int) -> float | None:
    """Returns pass@k of one task: the unbiased estimate of the chance that at least one of k trials passes.

    Formula: 1 - C(n - c, k) / C(n, k)

    Args:
        passed: Trials that passed, c. Elsewhere a trial passes when its reward is at least 1 - 1e-9.
        trials: Trials measured, n.
        k: Trials asked about.

    Returns:
        In [0, 1].

    Undefined: None for k < 1 and k > n.

    Caution: It is what a user gets who can tell the passing trial from the others. Where nobody can, pass^k
        or the mean reward is the honest figure.

    Raises:
        ValueError: `passed` is not in 0 to `trials`.

    Source: Chen et al. (2021, Codex).
    """
    _check(passed, trials)
    if k < 1 or k > trials:
        return None
    ways = math.comb(trials, k)
    return (ways - math.comb(trials - passed, k)) / ways


def _check(passed: int, trials: int) -> None:
    if not 0 <= passed <= trials:
        raise ValueError(f"{passed} of {trials} trials cannot have passed")
