"""What a proposer hands back, before anyone judged it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from capevolve.proposers.brief import Brief


@dataclass(frozen=True, slots=True)
class Draft:
    """The outcome of one call of a proposer; the edited files stay in the scratch folder.

    Attributes:
        failure: Why there is no proposal, in words; None when the files are the proposal.
        exhausted: The proposer has nothing more to propose, now or later.
        cost_usd: What the call cost, on every way out; None when not reported.
    """

    summary: str = ""
    failure: str | None = None
    exhausted: bool = False
    cost_usd: float | None = None
    tokens: int | None = None
    output: str = ""


class Proposer(Protocol):
    """Edits a scratch copy of the incumbent.

    Attributes:
        needs_evidence: Whether the brief must hold the incumbent's train trials.
    """

    @property
    def needs_evidence(self) -> bool:
        """Whether the incumbent must be evaluated on train before a call."""
        ...

    def check(self) -> None:
        """Proves, without spending anything, that the proposer can be called.

        Raises:
            UserError: It cannot.
        """
        ...

    async def edit(self, folder: Path, brief: Brief, *, seed: int) -> Draft:
        """Edits the candidate in `folder`.

        Args:
            folder: A scratch copy of the incumbent's files.
            brief: What the proposer is told.
            seed: For whatever is random in the proposer; the same in a rerun of the iteration.
        """
        ...
