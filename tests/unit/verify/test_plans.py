"""The candidate that a plan calls best, against the verdicts that were there when its result was committed."""

from __future__ import annotations

import pytest

from capevolve.errors import TamperError
from capevolve.evaluate.ticket import TestPlan
from capevolve.ledger.attempts import AttemptRecord
from capevolve.ledger.evidence import SealedDigests
from capevolve.ledger.proposals import VerdictRecord
from capevolve.model import Decision, Verdict
from capevolve.verify.history import VerifiedAttempt
from capevolve.verify.plans import check_best


def verdict(iteration, decision):
    judged = Verdict(decision, "paired", "", None, None, None, None, 0, 0, 0, 0)
    return VerdictRecord(iteration, f"c{iteration}", "seed", 1, 2, "{}", judged, 1.0)


VERDICTS = (verdict(1, Decision.ACCEPT), verdict(2, Decision.REJECT), verdict(3, Decision.ACCEPT))


def attempt(best, sealed=None):
    """An attempt whose plan scores `best`; `sealed` are the iterations with a verdict at its commit."""
    plan = TestPlan(best, "seed", (), 1, 0, (1,), (), "0.1.0")
    row = AttemptRecord(1, "r1", 1, plan.to_json(), plan.digest, "t", "i", 1, None, "open", 1.0, None, None)
    marks = None if sealed is None else {("verdicts", str(iteration)): "" for iteration in sealed}
    evidence = None if marks is None else SealedDigests("", marks)
    return VerifiedAttempt(row, plan, "splits", "", evidence)


@pytest.mark.parametrize(("best", "sealed"), [("seed", []), ("c1", [1]), ("c1", [1, 2]), ("c3", [1, 2, 3])])
def test_the_incumbent_at_the_commit_is_the_best_candidate(best, sealed):
    check_best(attempt(best, sealed), "seed", VERDICTS)


@pytest.mark.parametrize(("best", "sealed"), [("c1", []), ("c2", [1, 2]), ("c1", [1, 2, 3]), ("c3", [1, 2])])
def test_any_other_candidate_is_refused(best, sealed):
    with pytest.raises(TamperError, match="best_id"):
        check_best(attempt(best, sealed), "seed", VERDICTS)


@pytest.mark.parametrize("best", ["seed", "c1", "c3"])
def test_before_a_commit_every_incumbent_of_the_run_will_do(best):
    check_best(attempt(best), "seed", VERDICTS)


def test_a_candidate_that_was_never_the_incumbent_will_not():
    with pytest.raises(TamperError, match="never the incumbent"):
        check_best(attempt("c2"), "seed", VERDICTS)
