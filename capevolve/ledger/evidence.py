"""Digests of a run's rows, sealed with its result: a row that is edited later no longer matches.

Rows that can still change by rights are left out: a claimed trial, a started proposal, the run's status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, select

from capevolve.canonical import ALGORITHM, canonical_json
from capevolve.ledger import schema

EVIDENCE_VERSION = 1
"""Which columns are covered. A change of the lists below is a new version: old digests keep theirs."""

MARK_LENGTH = 8
LONG_TEXT = 200

_AT_ONCE = 100

RowName = tuple[str, ...]
"""A table's name and the values of a row's key, as text."""


@dataclass(frozen=True, slots=True)
class RunDigests:
    """The digests of a run's rows.

    Attributes:
        rows: The SHA-256 of every covered row, in hexadecimal.
    """

    rows: Mapping[RowName, str]

    def combine(self, names: Iterator[RowName] | None = None) -> str:
        """One digest over the rows named, over all of them by default."""
        hashed = hashlib.sha256()
        for name in sorted(self.rows if names is None else names):
            hashed.update(canonical_json([*name, self.rows[name]]).encode("utf-8"))
        return f"{ALGORITHM}:{hashed.hexdigest()}"

    def to_payload(self) -> dict[str, Any]:
        """What a seal event keeps: the digest, which proves, and a short mark of each row, which locates."""
        marks: dict[str, Any] = {}
        for name in sorted(self.rows):
            level = marks
            for part in name[:-1]:
                level = level.setdefault(part, {})
            level[name[-1]] = self.rows[name][:MARK_LENGTH]
        return {"version": EVIDENCE_VERSION, "digest": self.combine(), "marks": marks}


@dataclass(frozen=True, slots=True)
class SealedDigests:
    """What a seal event kept: the digest over its rows, and the mark of each."""

    digest: str
    marks: Mapping[RowName, str]

    def find_edited(self, now: RunDigests, tables: frozenset[str] | None = None) -> RowName | None:
        """The first row, of the tables named or of all, that is gone or no longer as it was; None if none."""
        for name in sorted(self.marks):
            if tables is not None and name[0] not in tables:
                continue
            if now.rows.get(name, "")[:MARK_LENGTH] != self.marks[name]:
                return name
        return None

    def agrees(self, now: RunDigests) -> bool:
        """Whether the rows that were there then have the digest they had. Ask `find_edited` first."""
        return now.combine(iter(self.marks)) == self.digest


def parse_payload(payload: Mapping[str, Any]) -> SealedDigests | None:
    """Reads back what a seal event kept; None when it is of a version this capevolve does not know."""
    if payload["version"] != EVIDENCE_VERSION:
        return None
    return SealedDigests(payload["digest"], dict(_flatten(payload["marks"], ())))


def _flatten(level: Mapping[str, Any], path: RowName) -> Iterator[tuple[RowName, str]]:
    for part, value in level.items():
        if isinstance(value, str):
            yield (*path, part), value
        else:
            yield from _flatten(value, (*path, part))


def digest_run(connection: Connection, run_id: str) -> RunDigests:
    """Computes the digests of a run's rows, streaming over them. The same on every database.

    Covered are the run as it was started, its splits, its finished trials with their rollouts, its finished
    proposals and its verdicts.
    """
    rows: dict[RowName, str] = {}
    for table, keys, statement in _selections(run_id):
        result = connection.execute(statement.execution_options(yield_per=_AT_ONCE))
        for row in result:
            values = _join_payload(row) if table == "trials" else tuple(row)
            text = canonical_json([table, *map(_shorten, values)])
            rows[(table, *map(str, values[:keys]))] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return RunDigests(rows)


def _shorten(value: Any) -> Any:
    """A long text by its digest, in a shape that no other value has: escaping it as JSON costs more."""
    if isinstance(value, str) and len(value) > LONG_TEXT:
        return {ALGORITHM: hashlib.sha256(value.encode("utf-8")).hexdigest()}
    return value


def _join_payload(row: Any) -> tuple[Any, ...]:
    """A trial's values; a payload in a blob counts as the text in its row would, and is not read for it."""
    *values, payload, payload_digest = row
    if payload_digest is None:
        return (*values, payload)
    kind, _, mark = payload_digest.partition(":")
    return (*values, {kind: mark} if payload == "" else [payload, payload_digest])


def _selections(run_id: str) -> Iterator[tuple[str, int, Select[Any]]]:
    """For each covered table: its name, how many of the columns are its key, and what is read of it."""
    proposals = schema.proposals
    yield "runs", 1, _select(schema.runs, _RUN, schema.runs.c.id == run_id)
    yield "split_sets", 1, _select(schema.split_sets, _SPLITS, schema.split_sets.c.run_id == run_id)
    yield "split_tasks", 2, _select(schema.split_tasks, _TASK, schema.split_tasks.c.run_id == run_id)
    ended = and_(proposals.c.run_id == run_id, proposals.c.status != "started")
    yield "proposals", 1, _select(proposals, _PROPOSAL, ended)
    yield "verdicts", 1, _select(schema.verdicts, _VERDICT, schema.verdicts.c.run_id == run_id)
    yield "trials", 3, _select_trials(run_id)


_RUN = "id name created_at version seed_candidate adapter_files adapter_digest"
_SPLITS = "run_id payload digest test_digest test_ids_digest frozen_at"
_TASK = "split task_id position digest cluster task_group content"
_PROPOSAL = (
    "iteration parent_id status candidate_id summary detail cost_usd tokens calls started_at finished_at"
)
_VERDICT = (
    "iteration candidate_id incumbent_id candidate_evaluation incumbent_evaluation settings decision payload "
    "created_at"
)
_TRIAL = (
    "evaluation_id task_id trial seed state epoch session calls interrupted claimed_at finished_at reward "
    "reason detail duration_s cost_usd tokens"
)
_ROLLOUT = "feedback metrics payload payload_digest"


def _select(table: Table, columns: str, mine: ColumnElement[bool]) -> Select[Any]:
    return select(*(table.c[name] for name in columns.split())).where(mine)


def _select_trials(run_id: str) -> Select[Any]:
    """The finished trials, each with the identity of its evaluation and what its rollout held."""
    trials, evaluations, rollouts = schema.trials, schema.evaluations, schema.rollouts
    same = and_(
        rollouts.c.evaluation_id == trials.c.evaluation_id,
        rollouts.c.task_id == trials.c.task_id,
        rollouts.c.trial == trials.c.trial,
    )
    columns = [trials.c[name] for name in _TRIAL.split()]
    columns += [evaluations.c.digest, *(rollouts.c[name] for name in _ROLLOUT.split())]
    joined = trials.join(evaluations, trials.c.evaluation_id == evaluations.c.id).outerjoin(rollouts, same)
    mine = and_(evaluations.c.run_id == run_id, trials.c.state != "claimed")
    return select(*columns).select_from(joined).where(mine)
