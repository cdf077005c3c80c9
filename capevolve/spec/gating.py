"""What the spec says of the gate."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from capevolve.spec.fields import Fraction, Fractions, LookTrials, NotNegative, Positive, Positives
from capevolve.spec.section import Section


class ConfirmSpec(Section):
    """How mode confirm spends its error; a knob that is left out is the profile's."""

    profile: Literal["default", "strict"] = Field(
        "default",
        description="default: alpha_run 0.2 over 8 failed confirmations; strict: 0.05 over 4. "
        "`confirm: strict` is short for it.",
    )
    alpha_run: Fraction | None = Field(
        None, description="Chance that the run accepts any edit that changes nothing, at most."
    )
    max_failed_confirmations: Positive | None = Field(
        None, description="Confirmations that may fail; each is tested at alpha_run divided by this."
    )
    race_frac: Fraction | None = Field(
        None, description="Share of the val tasks that a candidate races on; 0.5."
    )
    race_kill_p: Fraction | None = Field(None, description="A race with a larger p-value is lost; 0.7.")
    screen_p: Fraction | None = Field(None, description="A screen with a larger p-value is lost; 0.35.")
    peek_frac: Fraction | None = Field(
        None, description="Share of the val tasks on which the first look begins; 0.5, and 1 is no peek."
    )
    peek_p: Fraction | None = Field(
        None, description="A peek with a larger p-value ends the confirmation; it can only reject; 0.6."
    )
    looks: Positives | None = Field(
        None, description="Fresh trials per task and arm of each look, in units of look_trials; 1, 1, 2."
    )
    look_split: Fractions | None = Field(
        None, description="Share of a slot's alpha that each look may spend; 0.3, 0.3, 0.4."
    )
    look_futility: Fractions | None = Field(
        None, description="A look but the last with a larger p-value ends the confirmation; 0.25, 0.12."
    )
    look_trials: LookTrials | None = Field(
        None,
        description="Trials of one unit; left out: evaluation.num_trials; auto: sized from the incumbent's "
        "measured variance to find `effect` with a chance of about 70 %.",
    )
    effect: Fraction | None = Field(None, description="The improvement that auto sizes for; 0.1.")


class GateSpec(Section):
    """When a proposal replaces the incumbent."""

    mode: Literal["paired", "significant", "threshold", "strict", "confirm"] = Field(
        "paired",
        description="The rule: paired, significant (unpaired), threshold, strict (any gain), or confirm "
        "(fresh trials, a stated error over the whole run). `gate: confirm` is short for it.",
    )
    k_se: NotNegative = Field(1.0, description="Standard errors by which a gain must exceed 0.")
    threshold: float = Field(0.0, description="The gain that mode threshold demands.")
    min_coverage: Fraction = Field(
        0.6, description="Share of the tasks that must be measured, else the verdict is indecisive."
    )
    multiplier: Literal["t", "normal"] = Field(
        "t",
        description="k_se carried over to Student's t at the same level, or k_se itself as in cap-evolve.",
    )
    no_regression: bool = Field(
        False,
        description="Also reject an edit that breaks a task the incumbent passed reliably, beyond noise.",
    )
    aa_control: bool = Field(
        False,
        description="At the start put a copy of the seed candidate through the gate on fresh trials, and "
        "stop when the gate accepts or vetoes it.",
    )
    confirm: ConfirmSpec | None = Field(None, description="For mode confirm: how it spends its error.")

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: object) -> object:
        """`gate: confirm` and `confirm: strict` written out."""
        if isinstance(data, str):
            data = {"mode": data}
        if not isinstance(data, dict) or data.get("confirm") is None:
            return data
        confirm = data["confirm"]
        return {
            "mode": "confirm",
            **data,
            "confirm": {"profile": confirm} if isinstance(confirm, str) else confirm,
        }

    @model_validator(mode="after")
    def _confirm_has_its_mode(self) -> Self:
        if self.confirm is not None and self.mode != "confirm":
            raise ValueError(f"gives gate.confirm for mode confirm, and mode is {self.mode}")
        return self
