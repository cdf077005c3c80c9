"""What the user chose for the gate."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal, get_args

from capevolve.errors import UserError
from capevolve.gate.confirm.profile import ConfirmProfile

Mode = Literal["paired", "significant", "threshold", "strict", "confirm"]


EDITION = 3
"""The rules' edition that new verdicts follow."""

_PEEKS_SINCE = 3


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
        confirm: For `confirm`: its errors and its stages; None for every other mode.
        edition: Of the rules, so that a verdict is judged again as it was: 1 rejected where every trial of
            both sides had the same reward, 2 abstains; before 3 a confirmation had no peek.

    Raises:
        UserError: A value is out of its range.
    """

    mode: Mode = "paired"
    k_se: float = 1.0
    threshold: float = 0.0
    min_coverage: float = 0.6
    multiplier: Literal["t", "normal"] = "t"
    no_regression: bool = False
    confirm: ConfirmProfile | None = None
    edition: int = EDITION

    def __post_init__(self) -> None:
        _check_choice("mode", self.mode, get_args(Mode))
        if self.edition not in range(1, EDITION + 1):
            raise _refuse("edition", self.edition, f"a whole number from 1 to {EDITION}")
        _check_choice("multiplier", self.multiplier, ("t", "normal"))
        if (self.mode == "confirm") != (self.confirm is not None):
            raise UserError(
                "a confirm profile goes with mode confirm", where="gate", fix="give both or neither"
            )
        if not 0.0 <= self.k_se <= 10.0:
            raise _refuse("k_se", self.k_se, "a number from 0 to 10")
        if not 0.0 <= self.threshold < 1.0:
            raise _refuse("threshold", self.threshold, "a number from 0 to below 1")
        if not 0.0 <= self.min_coverage <= 1.0:
            raise _refuse("min_coverage", self.min_coverage, "a number from 0 to 1")


def parse_settings(text: str) -> GateSettings:
    """Reads stored settings back; knobs that were not known when they were stored do what was done then.

    Raises:
        TypeError: There is a knob that does not exist.
        UserError: A value is out of its range.
    """
    values = {"edition": 1, **json.loads(text)}
    stored = values.get("confirm")
    if stored is not None:
        lists = {key: tuple(value) for key, value in stored.items() if isinstance(value, list)}
        values["confirm"] = ConfirmProfile(**{**stored, **lists})
    return date_settings(GateSettings(**values), values["edition"])


def date_settings(settings: GateSettings, edition: int) -> GateSettings:
    """Returns the settings as an edition of the rules had them."""
    profile = settings.confirm
    if profile is not None and edition < _PEEKS_SINCE:
        profile = replace(profile, peek_frac=1.0)
    return replace(settings, confirm=profile, edition=edition)


def _check_choice(key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(
            f"{value!r} is not a gate {key}", where=f"gate.{key}", fix=f"use one of: {', '.join(known)}"
        )


def _refuse(key: str, value: float, wanted: str) -> UserError:
    return UserError(f"the gate cannot use {value!r}", where=f"gate.{key}", fix=f"give {wanted}")
