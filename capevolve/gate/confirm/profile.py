"""What the user chose for mode `confirm`: how large an error the run may make, and how it is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from capevolve.errors import UserError

ProfileName = Literal["default", "strict"]

FEWEST_TO_PART = 8
"""With fewer val tasks a part of them says too little to drop a candidate on: no race, no peek."""


@dataclass(frozen=True, slots=True)
class ConfirmProfile:
    """How mode `confirm` judges.

    Attributes:
        alpha_run: The chance, over the whole run, that any edit that changes nothing is accepted, at most.
        max_failed_confirmations: Slots M: confirmations that may fail. Each is tested at alpha_run / M; a
            failure uses its slot up, an acceptance gives it back, and without a slot nothing is accepted.
        race_frac: The share of val tasks that a candidate races on, one trial each.
        race_kill_p: A candidate whose race has a larger p-value is rejected.
        screen_p: A candidate whose screen over all tasks has a larger p-value is rejected.
        peek_frac: The share of val tasks on which the first look begins; 1 is no peek.
        peek_p: A confirmation whose peek has a larger p-value ends. A peek can only reject.
        looks: Fresh trials per task and arm of each look, in units of `look_trials`.
        look_split: The share of the slot's alpha that each look may spend; together at most 1.
        look_futility: A look other than the last with a larger p-value ends the confirmation.
        look_trials: Trials of one unit; None is the trials of an evaluation, `auto` sizes it so that the
            whole confirmation finds `effect` with a chance of 80 %, its early stops left aside: with the
            default looks about 70 %.
        effect: The improvement of the mean reward that `auto` sizes for.

    Raises:
        UserError: A value is out of its range.
    """

    alpha_run: float = 0.20
    max_failed_confirmations: int = 8
    race_frac: float = 0.5
    race_kill_p: float = 0.70
    screen_p: float = 0.35
    peek_frac: float = 0.5
    peek_p: float = 0.60
    looks: tuple[int, ...] = (1, 1, 2)
    look_split: tuple[float, ...] = (0.30, 0.30, 0.40)
    look_futility: tuple[float, ...] = (0.25, 0.12)
    look_trials: int | Literal["auto"] | None = None
    effect: float = 0.10

    def __post_init__(self) -> None:
        for key in ("alpha_run", "effect"):
            _check(key, 0.0 < getattr(self, key) < 1.0, "a number between 0 and 1")
        for key in ("race_frac", "race_kill_p", "screen_p", "peek_frac", "peek_p"):
            _check(key, 0.0 < getattr(self, key) <= 1.0, "a number above 0, at most 1")
        _check("max_failed_confirmations", self.max_failed_confirmations >= 1, "a whole number from 1")
        fits = bool(self.looks) and all(units >= 1 for units in self.looks)
        _check("looks", fits, "one whole number from 1 per look")
        fits = len(self.look_split) == len(self.looks) and all(share > 0.0 for share in self.look_split)
        _check("look_split", fits, "one share above 0 per look")
        _check("look_split", sum(self.look_split) <= 1.0 + 1e-9, "shares that are at most 1 together")
        fits = len(self.look_futility) == len(self.looks) - 1 and all(0 < p <= 1 for p in self.look_futility)
        _check("look_futility", fits, "one p-value above 0, at most 1, per look but the last")
        trials = self.look_trials
        _check("look_trials", trials is None or trials == "auto" or trials >= 1, "`auto` or a number from 1")

    @property
    def alpha(self) -> float:
        """The level of one slot."""
        return self.alpha_run / self.max_failed_confirmations

    @property
    def limits(self) -> tuple[float, ...]:
        """The p-value at or below which each look accepts."""
        return tuple(share * self.alpha for share in self.look_split)


def _check(key: str, is_fit: bool, wanted: str) -> None:
    if not is_fit:
        raise UserError("the gate cannot use this value", where=f"gate.confirm.{key}", fix=f"give {wanted}")


PROFILES: Mapping[ProfileName, ConfirmProfile] = MappingProxyType(
    {"default": ConfirmProfile(), "strict": ConfirmProfile(alpha_run=0.05, max_failed_confirmations=4)}
)
