"""Evidence that may be looked at after every task: a bet against "the candidate is no better"."""

from __future__ import annotations

import math
from collections.abc import Sequence


def betting_e_value(deltas: Sequence[float], stake: float = 0.3) -> float | None:
    """Returns the e-value of betting a fixed share of the capital on every delta in turn.

    If no delta is positive in expectation, given those before it, then the chance that the e-value ever
    reaches 1 / alpha is at most alpha, however often it is looked at: min(1, 1 / e) is a p-value at every
    look.

    Formula: prod_i (1 + stake * d_i)

    Args:
        deltas: Paired deltas d_i of independent units, each in [-1, 1], in the order they came in; shape
            (n,).
        stake: The share of the capital that is bet, in [0, 1). Fixed before the first delta is seen.

    Returns:
        In [0, inf): 1 is no evidence, more is evidence for the candidate.

    Undefined: None for no deltas.

    Caution: Weaker than the exact tests when there is one look only. The stake must not be chosen from the
        same deltas; a task that is looked at twice is not independent of itself.

    Raises:
        ValueError: A delta is not in [-1, 1], or the stake not in [0, 1).

    Source: Ville (1939); Waudby-Smith and Ramdas (2024), betting.
    """
    if not 0.0 <= stake < 1.0:
        raise ValueError(f"a stake is at least 0 and below 1, not {stake!r}")
    for delta in deltas:
        if not -1.0 <= delta <= 1.0:
            raise ValueError(f"not a delta between -1 and 1: {delta!r}")
    return math.prod(1.0 + stake * delta for delta in deltas) if deltas else None
