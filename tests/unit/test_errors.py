"""Every error says what, where and what next, and survives a trip to another process."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from capevolve import errors
from capevolve.errors import (
    AdapterError,
    BudgetExhaustedError,
    CapevolveError,
    FencedError,
    HonestyError,
    LeaseHeldError,
    LedgerError,
    OutsideError,
    RateLimitedError,
    SpecError,
    SplitError,
    TamperError,
    TestSealError,
    TrainGateError,
    UserError,
)

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, CapevolveError)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_where_and_next_are_three_lines_of_text(kind):
    assert str(kind("It broke.")) == "It broke."
    full = kind("It broke.", where="file, line 3", fix="Mend it.")
    assert str(full) == "It broke.\n  where: file, line 3\n  next:  Mend it."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_an_error_comes_back_whole_from_another_process(kind, protocol):
    error = kind("It broke.", where="here", fix="Mend it.")
    for again in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (again.what, again.where, again.fix) == ("It broke.", "here", "Mend it.")
        assert str(again) == str(error)


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (1, [CapevolveError]),
        (2, [UserError, SpecError, AdapterError, SplitError]),
        (3, [HonestyError, TestSealError, TrainGateError, TamperError]),
        (4, [LedgerError, LeaseHeldError, FencedError]),
        (5, [OutsideError, RateLimitedError]),
        (6, [BudgetExhaustedError]),
    ],
)
def test_the_exit_code_tells_who_can_mend_the_cause(code, kinds):
    assert {kind.exit_code for kind in kinds} == {code}


def test_every_kind_of_error_has_an_exit_code_of_its_family():
    assert {kind.exit_code for kind in KINDS} == {1, 2, 3, 4, 5, 6}
    for kind in KINDS:
        assert (kind.exit_code == 3) == issubclass(kind, HonestyError)
        assert (kind.exit_code == 4) == issubclass(kind, LedgerError)


def test_a_seal_error_is_no_ledger_user_or_outside_error_that_somebody_catches_in_passing():
    for kind in (TestSealError, TamperError, TrainGateError):
        assert not issubclass(kind, UserError | LedgerError | OutsideError | BudgetExhaustedError)
