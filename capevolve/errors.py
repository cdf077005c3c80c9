"""The errors of capevolve: each says what is wrong, where, and what to do next.

Four families, by who can mend the cause:

* `UserError` (exit 2): the project or the command line. Shown without a traceback.
* `HonestyError` (exit 3): seal, split or tamper. Never caught inside capevolve.
* `LedgerError` (exit 4): the database or the lease.
* `OutsideError` (exit 5): target, proposer or provider. Worth a retry.
"""

from __future__ import annotations

from functools import partial


class CapevolveError(Exception):
    """Base of all errors that capevolve raises on purpose.

    Args:
        what: One sentence: what is wrong.
        where: The file, key, task or row it concerns.
        fix: What to do next.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(what, where, fix)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.where, self.fix))

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  next:  {self.fix}")
        return "\n".join(lines)


def _rebuild(kind: type[CapevolveError], what: str, where: str | None, fix: str | None) -> CapevolveError:
    return kind(what, where=where, fix=fix)


class UserError(CapevolveError):
    """The project, the spec or the command line is wrong."""

    exit_code = 2


class SpecError(UserError):
    """`capevolve.yaml` cannot be used as it stands."""


class AdapterError(UserError):
    """The adapter is missing, cannot be loaded or breaks its contract."""


class CandidateError(AdapterError):
    """The adapter cannot make a candidate live: it is the candidate that is broken."""


class SplitError(UserError):
    """The tasks cannot be split as asked."""


class HonestyError(CapevolveError):
    """An honesty rule would be broken. Never caught inside capevolve."""

    exit_code = 3


class TestSealError(HonestyError):
    """The sealed test split was asked for by a door that is not open."""

    __test__ = False  # not a pytest class, whatever its name says


class TrainGateError(HonestyError):
    """A gate was asked to judge on anything but a full val measurement."""


class TamperError(HonestyError):
    """Something recorded no longer matches its digest."""


class LedgerError(CapevolveError):
    """The ledger cannot be read or written as needed."""

    exit_code = 4


class LeaseHeldError(LedgerError):
    """Another driver holds the run."""


class FencedError(LedgerError):
    """This driver's epoch is over: another driver took the run over."""


class OutsideError(CapevolveError):
    """Something outside capevolve failed: target, proposer or provider. Retryable."""

    exit_code = 5


class RateLimitedError(OutsideError):
    """Raised by `run_target` when its provider asks to be called less often: the trial is tried again later.

    Args:
        what: One sentence: what was refused.
        retry_after_s: Seconds that the provider asks to wait; None where it does not say.
    """

    def __init__(
        self,
        what: str = "rate limited",
        *,
        retry_after_s: float | None = None,
        where: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[object, ...]:
        again = partial(type(self), retry_after_s=self.retry_after_s, where=self.where, fix=self.fix)
        return (again, (self.what,))


class BudgetExhaustedError(CapevolveError):
    """A cap of the budget was reached. Finished work is kept."""

    exit_code = 6
