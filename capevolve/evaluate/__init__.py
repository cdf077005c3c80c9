"""Evaluation: a candidate on a split, trial by trial, into the ledger and out as a measurement.

The engine is imported when it is first asked for: who only reads measurements needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capevolve.evaluate.evaluation import EvaluationRequest, evaluate, evaluate_together

__all__ = ["EvaluationRequest", "evaluate", "evaluate_together"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("capevolve.evaluate.evaluation"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
