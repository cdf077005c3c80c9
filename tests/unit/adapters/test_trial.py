from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from capevolve.adapters.records import Metric, Refusal, TrialReply, TrialRequest
from capevolve.adapters.refusals import RefusedRollout
from capevolve.adapters.reply import TrialLimits
from capevolve.adapters.trial import TrialRunner
from capevolve.errors import RateLimitedError
from capevolve.model import AgentFailure, Reason, Rollout, Score, Scored, Task, Unmeasured

_TASK = Task("t", "in", "out")


class _Scripted:
    """An adapter that returns, or raises, what it was given."""

    def __init__(self, rollout: Any, score: Any) -> None:
        self.rollout = rollout
        self.given = score
        self.scored = 0

    def run_target(self, task: Task, ctx: Any, *, seed: int) -> Any:
        return _play(self.rollout)

    def score(self, task: Task, rollout: Any) -> Any:
        self.scored += 1
        return _play(self.given)


def _play(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value


async def _settle(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _run(adapter: Any, *, timeout_s: float = 10.0, seed_by_name: bool = True) -> TrialReply:
    runner = TrialRunner(
        adapter, seed_by_name=seed_by_name, ctx="ctx", limits=TrialLimits(timeout_s), settle=_settle
    )
    return asyncio.run(runner.run(TrialRequest(5, "t", "digest", 0, 11), _TASK))


def _reply(rollout: Any = None, score: Any = None) -> TrialReply:
    return _run(
        _Scripted(Rollout("t") if rollout is None else rollout, Score("t", 0.5) if score is None else score)
    )


def _fault(reply: TrialReply) -> tuple[Reason, str]:
    assert isinstance(reply.outcome, Unmeasured)
    return reply.outcome.reason, reply.outcome.detail


def test_a_trial_that_went_well_carries_everything() -> None:
    rollout = Rollout("t", {"a": 1}, ["step"], ["call"], 0.25, 12, None, {"m": 1})
    metrics = [
        {"name": "f1", "value": 0.5, "primary": True, "direction": "higher"},
        {"name": "cost", "value": 3, "primary": False, "direction": "lower"},
    ]
    reply = _reply(rollout, Score("t", 0.5, "try again", metrics=metrics))
    assert reply.outcome == Scored(0.5)
    assert (reply.key, reply.feedback, reply.cost_usd, reply.tokens) == (5, "try again", 0.25, 12)
    assert reply.metrics == (Metric("f1", 0.5, True, "higher"), Metric("cost", 3.0, False, "lower"))
    assert json.loads(reply.payload) == {
        "output": {"a": 1},
        "trace": ["step"],
        "tool_calls": ["call"],
        "error": None,
        "metadata": {"m": 1},
    }


@pytest.mark.parametrize(
    ("reward", "number"),
    [
        (True, 1.0),
        (False, 0.0),
        (1, 1.0),
        (np.float64(0.5), 0.5),
        (np.bool_(True), 1.0),
        (Fraction(1, 4), 0.25),
    ],
)
def test_real_numbers_in_the_interval_are_rewards(reward: Any, number: float) -> None:
    outcome = _reply(score=Score("t", reward)).outcome
    assert outcome == Scored(number)
    assert isinstance(outcome, Scored)
    assert type(outcome.reward) is float


@pytest.mark.parametrize(
    "reward",
    [
        math.nan,
        math.inf,
        -math.inf,
        None,
        "1",
        2.0,
        -1,
        1.0000001,
        1j,
        [1],
        Decimal("0.5"),
        np.float64("nan"),
    ],
)
def test_any_other_reward_is_named_and_never_mended(reward: Any) -> None:
    reason, detail = _fault(_reply(score=Score("t", reward)))
    assert reason is Reason.INVALID_SCORE
    assert repr(reward) in detail
    assert type(reward).__name__ in detail


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (0.5, "score returned float, not a Score"),
        (Score("other", 0.5), "score.task_id is 'other', not 't'"),
        (SimpleNamespace(reward=0.5), "score.task_id is None"),
    ],
)
def test_what_is_not_the_score_of_this_task_is_invalid(score: Any, words: str) -> None:
    reason, detail = _fault(_reply(score=score))
    assert reason is Reason.INVALID_SCORE
    assert words in detail


def _metric(**change: Any) -> dict[str, Any]:
    return {"name": "m", "value": 0.5, "primary": True, "direction": "higher", **change}


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ([_metric(), _metric()], "2 primary"),
        ([_metric(primary=False)], "0 primary"),
        ([_metric(value=0.6)], "the primary 'm' is 0.6, the reward 0.5"),
        ([_metric(value=math.nan)], "value of 'm' is nan"),
        ([_metric(primary=1)], "`primary` of 'm' is 1"),
        ([_metric(direction="up")], "`direction` of 'm' is 'up'"),
        ([_metric(name=3)], "the name 3 is not text"),
        (["m"], "metrics holds str"),
        ({"m": 1}, "metrics is dict"),
    ],
)
def test_malformed_metrics_make_the_score_invalid(metrics: Any, words: str) -> None:
    reason, detail = _fault(_reply(score=Score("t", 0.5, metrics=metrics)))
    assert reason is Reason.INVALID_SCORE
    assert words in detail


@pytest.mark.parametrize(
    ("rollout", "words"),
    [
        (ValueError("no network"), "ValueError: no network"),
        (SystemExit(3), "SystemExit: 3 (run_target tried to end its process)"),
        (KeyboardInterrupt(), "KeyboardInterrupt (run_target tried to end its process)"),
        (MemoryError(), "MemoryError"),
        (Rollout("t", "half", error="rate limit"), "rate limit"),
        ({"output": 1}, "run_target returned dict, not a Rollout"),
        (Rollout("other"), "rollout.task_id is 'other', not 't'"),
    ],
)
def test_what_fails_before_the_score_is_infra_and_never_scored(rollout: Any, words: str) -> None:
    adapter = _Scripted(rollout, Score("t", 1.0))
    reason, detail = _fault(_run(adapter))
    assert (reason, adapter.scored) == (Reason.INFRA, 0)
    assert words in detail


def test_an_errored_rollout_keeps_its_payload_and_its_cost() -> None:
    reply = _reply(Rollout("t", "half", error="rate limit", cost_usd=0.5, tokens=9))
    assert json.loads(reply.payload)["output"] == "half"
    assert (reply.cost_usd, reply.tokens) == (0.5, 9)


def test_an_agent_failure_scores_zero_with_its_words() -> None:
    reply = _reply(AgentFailure("the patch does not apply"))
    assert (reply.outcome, reply.feedback) == (Scored(0.0), "the patch does not apply")


def test_an_agent_failure_of_another_copy_is_known_by_its_name() -> None:
    foreign = type("AgentFailure", (RuntimeError,), {})
    derived = type("PatchError", (foreign,), {})
    assert _reply(derived("x")).outcome == Scored(0.0)
    assert _fault(_reply(RuntimeError("AgentFailure")))[0] is Reason.INFRA


@pytest.mark.parametrize("error", [ValueError("judge down"), SystemExit(1), AgentFailure("x")])
def test_an_exception_in_score_is_a_scorer_error(error: BaseException) -> None:
    reply = _reply(score=error)
    reason, detail = _fault(reply)
    assert reason is Reason.SCORER_ERROR
    assert type(error).__name__ in detail
    assert "in _play" in json.loads(reply.payload)["traceback"]


def test_a_traceback_shows_the_users_frames_only() -> None:
    shown = json.loads(_reply(ValueError("x")).payload)["traceback"]
    assert "in run_target" in shown
    assert "ValueError: x" in shown
    assert "capevolve/adapters/trial.py" not in shown


class _Hostile:
    task_id = "t"
    output = 1

    @property
    def cost_usd(self) -> float:
        raise RuntimeError("no price")

    @property
    def reward(self) -> float:
        raise RuntimeError("no reward")


def test_objects_that_raise_when_looked_at_do_no_harm() -> None:
    reply = _reply(_Hostile())
    assert (reply.outcome, reply.cost_usd) == (Scored(0.5), None)
    reason, detail = _fault(_reply(score=_Hostile()))
    assert (reason, "no reward" in detail) == (Reason.INVALID_SCORE, True)


@pytest.mark.parametrize(
    ("cost", "tokens", "known"),
    [
        (None, None, (None, None)),
        (0, 0, (0.0, 0)),
        (np.float64(0.5), np.int64(3), (0.5, 3)),
        (math.nan, -1, (None, None)),
        ("0.5", 1.5, (None, None)),
        (-0.1, math.inf, (None, None)),
    ],
)
def test_a_cost_that_is_none_is_unknown_and_not_zero(cost: Any, tokens: Any, known: Any) -> None:
    reply = _reply(Rollout("t", cost_usd=cost, tokens=tokens))
    assert (reply.cost_usd, reply.tokens) == known


def test_a_result_after_the_limit_is_a_timeout_but_its_cost_counts() -> None:
    class Slow(_Scripted):
        def run_target(self, task: Task, ctx: Any, *, seed: int) -> Any:
            time.sleep(0.03)
            return Rollout("t", "late", cost_usd=2.0)

    reply = _run(Slow(None, Score("t", 1.0, "fine")), timeout_s=0.01)
    reason, detail = _fault(reply)
    assert reason is Reason.TIMEOUT
    assert "limit of 0.01 s" in detail
    assert (reply.cost_usd, reply.feedback) == (2.0, "")
    assert json.loads(reply.payload)["output"] == "late"


def test_the_seed_may_be_the_third_positional_argument() -> None:
    class Positional(_Scripted):
        def run_target(self, task: Task, ctx: Any, number: int) -> Any:  # type: ignore[override]
            return Rollout("t", [ctx, number])

    reply = _run(Positional(None, Score("t", 1.0)), seed_by_name=False)
    assert json.loads(reply.payload)["output"] == ["ctx", 11]


def test_awaitables_are_awaited_wherever_they_come_from() -> None:
    class Mixed(_Scripted):
        async def run_target(self, task: Task, ctx: Any, *, seed: int) -> Any:
            await asyncio.sleep(0)
            return Rollout("t", seed)

        async def score(self, task: Task, rollout: Any) -> Any:
            return Score("t", 0.25)

    assert _run(Mixed(None, None)).outcome == Scored(0.25)


def test_what_a_provider_said_of_calling_again_is_on_the_reply():
    reply = _reply(RateLimitedError("slow down", retry_after_s=2))
    assert _fault(reply) == (Reason.INFRA, "RateLimitedError: slow down")
    assert (reply.rate_limited, reply.retry_after_s, reply.retryable) == (True, 2.0, True)
    reply = _reply(RefusedRollout("t", error="401", refusal=Refusal(False), cost_usd=0.5))
    assert (reply.rate_limited, reply.retry_after_s, reply.retryable) == (False, None, False)
    assert reply.cost_usd == 0.5
    reply = _reply(ValueError("x"))
    assert (reply.refusal, reply.rate_limited, reply.retryable) == (None, False, True)


def test_a_refusal_of_the_scorers_own_provider_is_not_one_of_the_target():
    reply = _reply(score=RateLimitedError("the judge"))
    assert (_fault(reply)[0], reply.refusal) == (Reason.SCORER_ERROR, None)


def test_a_timeout_is_not_tried_again_whatever_was_raised():
    adapter = _Scripted(RateLimitedError("slow down"), None)
    reply = _run(adapter, timeout_s=0.0)
    assert (_fault(reply)[0], reply.refusal) == (Reason.TIMEOUT, None)
