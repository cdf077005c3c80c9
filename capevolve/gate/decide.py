"""One step of the gate in any mode: the trials it still needs, or its judgement. Pure but for `Past.find`.

The run asks it for the next step, and `verify` asks it again on the stored trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capevolve.errors import LedgerError
from capevolve.gate.confirm.case import Ask
from capevolve.gate.confirm.history import Past, build_case, read_record, stage_key
from capevolve.gate.confirm.judge import advance
from capevolve.gate.confirm.seeds import AA, CONTROL, ArmName, StageTag, fresh_seed
from capevolve.gate.rules import judge
from capevolve.gate.settings import GateSettings
from capevolve.ledger.evaluations import EvaluationKey
from capevolve.model import Measurement, Verdict

FULL = "val"
"""The stage of the modes that judge a full val evaluation."""


@dataclass(frozen=True, slots=True)
class Match:
    """Who is judged against whom.

    Attributes:
        subject: The candidate's digest, or `AA` when a copy of the seed candidate is judged.
    """

    subject: str
    candidate_id: str
    incumbent_id: str

    @property
    def is_control(self) -> bool:
        """Whether this is the A/A control."""
        return self.subject == AA


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with the evaluations it rests on last; what else it rests on is in its stages.

    Attributes:
        candidate_evaluation: None when nothing of the candidate was measured.
        measured, record: The candidate's measurements, and the incumbent's.
    """

    verdict: Verdict
    candidate_evaluation: int | None
    incumbent_evaluation: int
    measured: tuple[Measurement, ...]
    record: Measurement


def decide(past: Past, match: Match, settings: GateSettings, task_ids: Sequence[str]) -> Ask | Judgement:
    """Returns what the gate needs next for a candidate, or its judgement.

    Args:
        past: The run before this candidate was judged.
        task_ids: The val tasks in split order.

    Raises:
        LedgerError: The incumbent was not evaluated on val.
    """
    record = read_record(past, match.incumbent_id, settings, task_ids)
    if record is None:
        raise LedgerError("A candidate cannot be judged before its incumbent's val evaluation is finished.")
    if settings.confirm is None:
        return _compare_full(past, match, settings, record)
    case = build_case(
        past,
        settings.confirm,
        record,
        subject=match.subject,
        candidate_id=match.candidate_id,
        incumbent_id=match.incumbent_id,
    )
    step = advance(case, settings)
    if isinstance(step, Ask):
        return step
    last = step.stages[-1] if step.stages else None
    mine = None if last is None else int(last.candidate_evaluation)
    theirs = None if last is None else last.incumbent_evaluation
    measured = tuple(evidence.candidate for evidence in case.evidence)
    return Judgement(step, mine, int(theirs or record.evaluation_id), measured, record)


def _compare_full(
    past: Past, match: Match, settings: GateSettings, reference: Measurement
) -> Ask | Judgement:
    ask = ask_full(past, match)
    measured = past.find(locate(past.run_id, match, ask, "candidate"))
    if measured is None:
        return ask
    verdict = judge(measured, reference, settings)
    mine, theirs = int(measured.evaluation_id), int(reference.evaluation_id)
    return Judgement(verdict, mine, theirs, (measured,), reference)


def ask_full(past: Past, match: Match) -> Ask:
    """Returns the ask for a full val evaluation; for the A/A control one with fresh seeds."""
    if match.is_control:
        return Ask(CONTROL, None, past.num_trials, fresh_seed(past.base_seed, AA, CONTROL), both=False)
    return Ask(FULL, None, past.num_trials, past.base_seed, both=False)


def locate(run_id: str, match: Match, ask: Ask, arm: ArmName) -> EvaluationKey:
    """Returns the identity of the evaluation of one arm that an ask is for."""
    candidate_id = match.candidate_id if arm == "candidate" else match.incumbent_id
    key = stage_key(run_id, ask, StageTag(ask.stage, arm, match.subject), candidate_id)
    return replace(key, tag="") if ask.stage == FULL else key
