"""Evaluation: a candidate on a split, trial by trial, into the ledger and out as a measurement."""

from capevolve.evaluate.evaluation import EvaluationRequest, evaluate, evaluate_together

__all__ = ["EvaluationRequest", "evaluate", "evaluate_together"]
