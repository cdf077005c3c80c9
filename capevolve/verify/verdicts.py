"""The search replayed: who the incumbent was at each proposal, and every verdict judged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NoReturn

from sqlalchemy import Connection

from capevolve.evaluate.measurement import reduce_trials
from capevolve.gate.confirm.case import Ask
from capevolve.gate.confirm.history import Past, describe_past, list_record_keys
from capevolve.gate.confirm.seeds import AA
from capevolve.gate.control import EVENT, conclude_control, find_control
from capevolve.gate.decide import FULL, Judgement, Match, decide
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.settings import GateSettings, date_settings, parse_settings
from capevolve.gate.val_record import ValRecord, build_val
from capevolve.gate.val_scores import read_val_scores
from capevolve.ledger.audit import FrozenTask, read_stored_verdicts
from capevolve.ledger.evaluations import EvaluationKey, EvaluationRecord
from capevolve.ledger.proposals import (
    ProposalRecord,
    VerdictRecord,
    parse_verdict,
    read_proposals,
    read_verdicts,
)
from capevolve.ledger.runs import RunRecord
from capevolve.ledger.trials import read_trials
from capevolve.model import Measurement
from capevolve.search.state import find_incumbent
from capevolve.spec import ProjectSpec
from capevolve.verify.difference import TOLERANCE, expect, name_row, reading, refuse
from capevolve.verify.history import VerifiedAttempt
from capevolve.verify.plans import list_known
from capevolve.verify.trials import list_tasks

_CONTROL_EDITION = 2
"""The edition of the rules by which an A/A control was judged that did not keep it."""


def read_search(
    connection: Connection, run_id: str
) -> tuple[tuple[ProposalRecord, ...], tuple[VerdictRecord, ...]]:
    """The proposals and the verdicts of a run.

    Raises:
        TamperError: A verdict cannot be read, or its decision is not that of its payload.
    """
    for row in read_stored_verdicts(connection, run_id):
        where = name_row("verdicts", run=run_id, iteration=row.iteration)
        with reading(where):
            verdict = parse_verdict(row.payload)
        expect("decision", where, row.decision, verdict.decision.value)
    return read_proposals(connection, run_id), read_verdicts(connection, run_id)


def check_proposals(
    record: RunRecord, proposals: Sequence[ProposalRecord], verdicts: tuple[VerdictRecord, ...]
) -> None:
    """Replays the search: every proposal edited the incumbent of its time, every candidate was judged.

    Raises:
        TamperError: A parent, a candidate or an iteration is not as it must have been.
    """
    judged = {verdict.iteration: verdict for verdict in verdicts}
    known = {record.seed_candidate}
    for number, proposal in enumerate(proposals, start=1):
        where = name_row("proposals", run=record.id, iteration=proposal.iteration)
        expect("iteration", where, proposal.iteration, number)
        earlier = tuple(verdict for verdict in verdicts if verdict.iteration < number)
        expect("parent_id", where, proposal.parent_id, find_incumbent(record.seed_candidate, earlier))
        is_new = proposal.candidate_id is not None and proposal.candidate_id not in known
        holds = proposal.candidate_id is not None
        if (is_new, holds) != (proposal.status == "proposed", proposal.status in ("proposed", "duplicate")):
            refuse(f"Status {proposal.status!r} does not go with candidate {proposal.candidate_id}.", where)
        if proposal.candidate_id is not None:
            known.add(proposal.candidate_id)
        is_last = number == len(proposals)
        if proposal.status == "started" and not is_last:
            refuse("A proposal has not ended, and a later one has begun.", where)
        if proposal.status == "proposed" and number not in judged and not is_last:
            where = name_row("verdicts", run=record.id, iteration=number)
            refuse("The verdict is missing, and a later proposal has begun.", where)
    for iteration in judged:
        if iteration not in range(1, len(proposals) + 1):
            refuse(
                "The proposal of a verdict is missing.",
                name_row("proposals", run=record.id, iteration=iteration),
            )


@dataclass(frozen=True, slots=True)
class Gate:
    """What verdicts are judged again with."""

    record: RunRecord
    spec: ProjectSpec
    tasks: Sequence[FrozenTask]
    evaluations: Sequence[EvaluationRecord]
    verdicts: tuple[VerdictRecord, ...]

    def check(self, connection: Connection, proposal: ProposalRecord, stored: VerdictRecord) -> None:
        """Judges again on the stored trials and compares the whole verdict.

        Raises:
            TamperError: Something of it is not what the trials say.
        """
        where = name_row("verdicts", run=self.record.id, iteration=stored.iteration)
        if proposal.status != "proposed":
            refuse("There is a verdict on a proposal without a new candidate.", where)
        expect("candidate_id", where, stored.candidate_id, proposal.candidate_id)
        expect("incumbent_id", where, stored.incumbent_id, proposal.parent_id)
        with reading(where):
            settings = parse_settings(stored.settings)
        wanted = date_settings(gate_settings(self.spec.gate), settings.edition)
        expect("settings", where, asdict(settings), asdict(wanted))
        match = Match(stored.candidate_id, stored.candidate_id, stored.incumbent_id)
        again = self._judge(connection, stored.iteration, where, match, settings)
        for kept, found in (
            (stored.candidate_evaluation, again.candidate_evaluation),
            (stored.incumbent_evaluation, again.incumbent_evaluation),
        ):
            expect("the evaluation it rests on", where, kept, found)
        expect("payload", where, asdict(stored.verdict), asdict(again.verdict), tolerance=TOLERANCE)

    def check_control(self, connection: Connection) -> bool:
        """Judges the A/A control again; returns whether there was one.

        Raises:
            TamperError: Something of it is not what the trials say.
        """
        where = name_row("events", run=self.record.id, kind=EVENT)
        with reading(where):
            stored = find_control(connection, self.record.id)
        if stored is None:
            return False
        settings = stored.settings or date_settings(gate_settings(self.spec.gate), _CONTROL_EDITION)
        wanted = date_settings(gate_settings(self.spec.gate), settings.edition)
        expect("settings", where, asdict(settings), asdict(wanted))
        seed_id = self.record.seed_candidate
        again = conclude_control(
            self._judge(connection, 0, where, Match(AA, seed_id, seed_id), settings), settings
        )
        expect("verdict", where, asdict(stored.verdict), asdict(again.verdict), tolerance=TOLERANCE)
        expect("regressions", where, stored.regressions, again.regressions)
        return True

    def _judge(
        self, connection: Connection, iteration: int, where: str, match: Match, settings: GateSettings
    ) -> Judgement:
        past = self._read_past(connection, iteration)
        for key in list_record_keys(past, match.incumbent_id, settings):
            if past.find(key) is None:
                self._miss(match.incumbent_id, FULL if not key.tag else key.tag)
        task_ids = [frozen.task.ref.id for frozen in self.tasks if frozen.split == "val"]
        with reading(where):
            step = decide(past, match, settings, task_ids)
        if isinstance(step, Ask):
            self._miss(match.candidate_id, step.stage)
        return step

    def read_val(self, connection: Connection, attempt: VerifiedAttempt) -> ValRecord | None:
        """What val said of the best and the seed candidate of an attempt, when it was committed."""
        settings = gate_settings(self.spec.gate)
        known = list_known(attempt, self.verdicts)
        last = max((verdict.iteration for verdict in known), default=0)
        refs = [frozen.task.ref for frozen in self.tasks if frozen.split == "val"]
        scores = read_val_scores(self._read_past(connection, last + 1), settings, refs)
        fresh = settings.confirm is not None
        return build_val(attempt.plan.best_id, attempt.plan.seed_id, scores, fresh=fresh)

    def _miss(self, candidate_id: str, stage: str) -> NoReturn:
        what = "full val" if stage == FULL else stage
        where = name_row("evaluations", run=self.record.id, split="val", candidate=candidate_id)
        refuse(f"A candidate was judged, and its {what} evaluation is missing or not finished.", where)

    def _read_past(self, connection: Connection, iteration: int) -> Past:
        known = {evaluation.key: evaluation for evaluation in self.evaluations}

        def find(key: EvaluationKey) -> Measurement | None:
            evaluation = known.get(key)
            if evaluation is None or evaluation.finished_at is None:
                return None
            trials = read_trials(connection, evaluation.id)
            return reduce_trials(evaluation, list_tasks(evaluation, self.tasks), trials)

        earlier = [verdict for verdict in self.verdicts if verdict.iteration < iteration]
        return describe_past(self.record, self.spec, earlier, find)
