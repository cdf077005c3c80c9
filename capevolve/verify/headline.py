"""The test numbers computed again from the trials of their attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection

from capevolve import seal
from capevolve.evaluate.measurement import reduce_trials
from capevolve.gate.val_record import ValRecord
from capevolve.ledger.audit import FrozenTask
from capevolve.ledger.evaluations import EvaluationRecord
from capevolve.ledger.runs import SplitSet
from capevolve.ledger.trials import read_trials
from capevolve.model import Measurement
from capevolve.result import FinalResult, SealRecord, build_result
from capevolve.verify.difference import TOLERANCE, expect, reading, refuse
from capevolve.verify.history import VerifiedAttempt
from capevolve.verify.trials import find_arms, list_tasks


def check_result(
    connection: Connection,
    attempt: VerifiedAttempt,
    splits: SplitSet,
    tasks: Sequence[FrozenTask],
    evaluations: Sequence[EvaluationRecord],
    val: ValRecord | None,
) -> FinalResult:
    """Builds the result of a committed attempt again and compares all of it with the stored one.

    Args:
        val: What val said at the commit; a result from before results kept that is compared without it.

    Raises:
        TamperError: A number is not what the trials say.
    """
    row, plan, where = attempt.row, attempt.plan, attempt.where
    with reading(where):
        stored = FinalResult.model_validate_json(row.result or "")
        text = {"val": None, **json.loads(row.result or "")}
    best, seed = find_arms(attempt, evaluations)
    now = seal.count_earlier_looks(connection, splits)
    if not row.look <= stored.seal.looks <= now:
        refuse(f"result: seal.looks is {stored.seal.looks}, should be {row.look} to {now}.", where)
    arms = [best] if seed is None else [best, seed]
    interrupted = sum(trial.interrupted for arm in arms for trial in read_trials(connection, arm.id))
    again = build_result(
        run_id=row.run_id,
        version=plan.version,
        best_id=plan.best_id,
        seed_id=plan.seed_id,
        best=_measure(connection, best, tasks),
        seed=None if seed is None else _measure(connection, seed, tasks),
        ks=plan.ks,
        splits=splits,
        seal=SealRecord(
            look=row.look,
            looks=stored.seal.looks,
            attempts=row.number,
            interrupted_trials=interrupted,
            override_reason=row.override_reason,
            plan_digest=row.plan_digest,
            test_digest=splits.test_digest,
            chain_head=attempt.head,
        ),
        val=None if stored.val is None else val,
    )
    expect("result", where, text, again.model_dump(mode="json"), tolerance=TOLERANCE)
    return again


def _measure(
    connection: Connection, evaluation: EvaluationRecord, tasks: Sequence[FrozenTask]
) -> Measurement:
    return reduce_trials(evaluation, list_tasks(evaluation, tasks), read_trials(connection, evaluation.id))
