"""Questions over two public-domain tables, answered as SQL by an example-based agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent import SkillError, open_agent
from database import Database, QueryError, is_ordered, read_tables, same_rows

import capevolve
from capevolve import AgentFailure, Rollout, Score, Task

HERE = Path(__file__).resolve().parent


class Adapter(capevolve.Adapter):
    """Task input: the question. Task target: SQL that answers it. Output: the agent's SQL."""

    def tasks(self, split: str) -> list[Task]:
        with (HERE / "tasks.jsonl").open(encoding="utf-8") as lines:
            return [Task(**json.loads(line)) for line in lines]

    def run_target(self, task: Task, ctx: Any, *, seed: int) -> Rollout:
        # The agent gets the question and its skill, nothing else of the task.
        try:
            agent = open_agent((Path(ctx) / "skill.json").read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, SkillError) as error:
            raise AgentFailure(str(error)) from error
        answer = agent.answer(task.input)
        example = answer.example.question if answer.example else None
        trace = {"nearest_example": example, "similarity": round(answer.similarity, 3)}
        return Rollout(task_id=task.id, output=answer.sql, trace=trace)

    def score(self, task: Task, rollout: Rollout) -> Score:
        """1 when the agent's SQL and the gold SQL return the same rows, else 0."""
        reward, feedback = judge(rollout.output, task.target)
        return Score(task_id=task.id, reward=reward, feedback=feedback)


@lru_cache(maxsize=1)
def open_database() -> Database:
    """The tables, loaded once in each process."""
    return Database(read_tables(HERE / "data"))


@lru_cache(maxsize=4096)
def judge(sql: str | None, gold: str) -> tuple[float, str]:
    """The reward of a query, and what went wrong in general terms."""
    if sql is None:
        return 0.0, "No answer: no example was near enough to the question."
    try:
        got = open_database().query(sql)
    except QueryError as error:
        return 0.0, f"The query failed: {error}. Query: {sql}"
    wanted = open_database().query(gold)
    if same_rows(got, wanted, ordered=is_ordered(gold)):
        return 1.0, "Right."
    return 0.0, f"Wrong rows: {_describe(got, wanted)}. Query: {sql}"


def _describe(got: Sequence[tuple[Any, ...]], wanted: Sequence[tuple[Any, ...]]) -> str:
    widths = [len(rows[0]) if rows else 0 for rows in (got, wanted)]
    if len(got) != len(wanted):
        return f"{len(got)} where {len(wanted)} were expected"
    if widths[0] != widths[1]:
        return f"{widths[0]} columns where {widths[1]} were expected"
    return "as many as expected, with other values or in another order"
