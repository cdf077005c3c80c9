"""The smallest p-value that a design can give, before anything is spent on it."""

from __future__ import annotations

import math
import sys


def smallest_p(n_tasks: int, k_candidate: int, k_incumbent: int) -> float:
    """Returns the smallest p-value that `within_task_permutation` can give on 0/1 rewards.

    It is reached when the candidate passes every trial and the incumbent fails every one. A test at a smaller
    level can never accept, however good the candidate is.

    Formula: C(k_c + k_i, k_c)^-n

    Args:
        n_tasks: Tasks n that are measured in both arms.
        k_candidate: Measured trials k_c per task of the candidate.
        k_incumbent: Measured trials k_i per task of the incumbent.

    Returns:
        In (0, 1]. 1 when a count is below 1: without trials in both arms nothing can be rejected. What is
        smaller than a float can hold is the smallest normal float, as in the test itself.

    Undefined: never.

    Caution: It is what all tasks together can give. Tasks that both arms always pass, or always fail, add
        nothing, so what a real pair of candidates can reach is larger.

    Source: closed form of the exact test; Tarone (1990) on why the attainable level matters.
    """
    if min(n_tasks, k_candidate, k_incumbent) < 1:
        return 1.0
    labellings = math.log(math.comb(k_candidate + k_incumbent, k_candidate))
    return max(math.exp(-n_tasks * labellings), sys.float_info.min)
