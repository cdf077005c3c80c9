"""A design as JSON, for programs: `capevolve plan --json`. One schema, with a version."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from capevolve.design.values import Design
from capevolve.spec import BudgetSpec


class PlanDocument(BaseModel):
    """`capevolve plan --json`, version 1. What is unknown or undefined is null, never 0."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_version: Literal[1] = 1
    project: str
    design: Design
    caps: BudgetSpec
    warnings: tuple[str, ...]
