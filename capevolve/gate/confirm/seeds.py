"""The seeds and the names of a confirmation's evaluations.

The trials of peek and looks have seeds of their own, so that no earlier outcome and no cache answers them.
Both arms share them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from capevolve.canonical import canonical_json

ArmName = Literal["candidate", "incumbent"]

AA = "aa"
"""The subject of the A/A control, in which a copy of the seed candidate is judged."""

RACE, SCREEN, PEEK, LOOK = "race", "screen", "peek", "look-"
CONTROL = "control"
"""The stage of an A/A control in a mode that judges a full val evaluation."""

_STAGE = re.compile(rf"{RACE}|{SCREEN}|{PEEK}|{CONTROL}|{LOOK}[1-9][0-9]*")


def fresh_seed(run_seed: int, subject: str, stage: str) -> int:
    """Returns the seed of a stage's first trial; trial k has this plus k.

    A hash of the run's seed, the candidate and the stage, in [0, 2^30): room for trials in 32 bits.
    """
    text = canonical_json(["capevolve confirm", run_seed, subject, stage])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 34


@dataclass(frozen=True, slots=True)
class StageTag:
    """The name of an evaluation that belongs to a confirmation.

    Attributes:
        subject: The candidate under confirmation, or `AA`.
    """

    stage: str
    arm: ArmName
    subject: str

    @property
    def text(self) -> str:
        """The tag as the ledger has it."""
        return f"{self.stage}/{self.arm}/{self.subject}"


def parse_tag(text: str) -> StageTag | None:
    """Returns what a tag says; None when it is none of a confirmation's."""
    stage, _, rest = text.partition("/")
    arm, _, subject = rest.partition("/")
    if not subject or _STAGE.fullmatch(stage) is None:
        return None
    if arm == "candidate":
        return StageTag(stage, "candidate", subject)
    return StageTag(stage, "incumbent", subject) if arm == "incumbent" else None


def stage_seed(run_seed: int, subject: str, stage: str) -> int:
    """Returns the seed of a stage's first trial, fresh or not.

    Race and screen compare with the incumbent's record, whose seeds they share; an A/A control has fresh
    seeds throughout, since its candidate has been measured with the others before.
    """
    is_fresh = stage == PEEK or stage.startswith(LOOK) or subject == AA
    return fresh_seed(run_seed, subject, stage) if is_fresh else run_seed
