"""What the user chose for the gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from capevolve.errors import UserError

Mode = Literal["paired", "significant", "threshold", "strict"]


@dataclass(frozen=True, slots=True)
class GateSettings:
    """How a gate judges.

    Attributes:
        mode: One of `MODES`.
        k_se: For `paired` and `significant`: how many standard errors an improvement must exceed, in
            [0, 10]. It fixes the one-sided level 1 - Phi(k_se).
        threshold: For `threshold`: the margin an improvement must exceed, in [0, 1).
        min_coverage: The share of tasks that must be measured on either side, in [0, 1].
        multiplier: `t` carries k_se over to Student's t at the same level, never below k_se, because the
            error is estimated from the same few deltas; `normal` is k_se itself, as in cap-evolve.
        no_regression: Also reject an edit that breaks a task the incumbent passed reliably, beyond noise.

    Raises:
        UserError: A value is out of its range.
    """

    mode: Mode = "paired"
    k_se: float = 1.0
    threshold: float = 0.0
    min_coverage: float = 0.6
    multiplier: Literal["t", "normal"] = "t"
    no_regression: bool = False

    def __post_init__(self) -> None:
        _check_choice("mode", self.mode, get_args(Mode))
        _check_choice("multiplier", self.multiplier, ("t", "normal"))
        if not 0.0 <= self.k_se <= 10.0:
            raise _refuse("k_se", self.k_se, "a number from 0 to 10")
        if not 0.0 <= self.threshold < 1.0:
            raise _refuse("threshold", self.threshold, "a number from 0 to below 1")
        if not 0.0 <= self.min_coverage <= 1.0:
            raise _refuse("min_coverage", self.min_coverage, "a number from 0 to 1")


def _check_choice(key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(
            f"{value!r} is not a gate {key}", where=f"gate.{key}", fix=f"use one of: {', '.join(known)}"
        )


def _refuse(key: str, value: float, wanted: str) -> UserError:
    return UserError(f"the gate cannot use {value!r}", where=f"gate.{key}", fix=f"give {wanted}")
