"""pass^k (all of k trials pass) and pass@k (at least one of k trials passes)."""

from __future__ import annotations

import math


def pass_hat_k(passed: int, trials: int, k: int) -> float | None:
    """Returns pass^k of one task: the unbiased chance that k trials all pass, C(c, k) / C(n, k).

    Args:
        passed: Trials that passed, c.
        trials: Trials measured, n.
        k: Trials asked about.

    Returns:
        In [0, 1]; None for k < 1 or k > n. Source: Yao et al. (2024, tau-bench).
    """
    _check(passed, trials)
    if k < 1 or k > trials:
        return None
    return math.comb(passed, k) / math.comb(trials, k)


def pass_at_k(passed: int, trials: int, k: int) -> float | None:
    """Returns pass@k of one task: the unbiased chance that one of k trials passes, 1 - C(n-c, k) / C(n, k).

    Args:
        passed: Trials that passed, c.
        trials: Trials measured, n.
        k: Trials asked about.

    Returns:
        In [0, 1]; None for k < 1 or k > n. Source: Chen et al. (2021, Codex).
    """
    _check(passed, trials)
    if k < 1 or k > trials:
        return None
    ways = math.comb(trials, k)
    return (ways - math.comb(trials - passed, k)) / ways


def _check(passed: int, trials: int) -> None:
    if not 0 <= passed <= trials:
        raise ValueError(f"{passed} of {trials} trials cannot have passed")
