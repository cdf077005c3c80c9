"""The search replayed: who the incumbent was at each proposal, and every verdict judged again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from capevolve.evaluate.measurement import reduce_trials
from capevolve.gate.record import gate_settings
from capevolve.gate.rules import GateSettings, judge
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
from capevolve.verify.trials import list_tasks


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
            settings = GateSettings(**json.loads(stored.settings))
        expect("settings", where, asdict(settings), asdict(gate_settings(self.spec.gate)))
        mine = self._measure(connection, where, stored.candidate_evaluation, stored.candidate_id)
        theirs = self._measure(connection, where, stored.incumbent_evaluation, stored.incumbent_id)
        with reading(where):
            again = judge(mine, theirs, settings)
        expect("payload", where, asdict(stored.verdict), asdict(again), tolerance=TOLERANCE)

    def _measure(
        self, connection: Connection, where: str, evaluation_id: int, candidate_id: str
    ) -> Measurement:
        key = EvaluationKey(
            self.record.id, candidate_id, "val", self.spec.evaluation.num_trials, self.spec.base_seed()
        )
        found = [e for e in self.evaluations if e.key == key and e.finished_at is not None]
        if not found:
            where = name_row("evaluations", run=self.record.id, split="val", candidate=candidate_id)
            refuse("A candidate was judged, and its full val evaluation is missing or not finished.", where)
        expect("the evaluation it rests on", where, evaluation_id, found[0].id)
        trials = read_trials(connection, evaluation_id)
        return reduce_trials(found[0], list_tasks(found[0], self.tasks), trials)
