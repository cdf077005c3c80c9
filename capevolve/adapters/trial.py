"""Runs one trial in a host, and turns whatever happens into a reply.

An agent's failure scores 0, a failure of anything else is missing data, and a score that is not a number in
[0, 1] is named, never mended.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import capevolve
from capevolve.adapters.late import load_late
from capevolve.adapters.payload import clean_words
from capevolve.adapters.records import Metric, Refusal, TrialReply, TrialRequest
from capevolve.adapters.refusals import find_refusal, read_refusal
from capevolve.adapters.reply import TrialLimits, Verdict, as_number, make_reply, time_out
from capevolve.model import Outcome, Reason, Scored, Unmeasured

Await = Callable[[Awaitable[Any]], Awaitable[Any]]
"""Awaits what user code returned, in the way of the host."""

_PACKAGE = str(Path(capevolve.__file__).resolve().parent)
_NOT_RAISED_LIGHTLY = (SystemExit, KeyboardInterrupt, GeneratorExit)
_MAX_FRAMES = 20

SLOW_TARGET_S = 0.02
"""After a target that took longer than this, in seconds, the pool is told that the scorer runs now."""


class TrialError(Exception):
    """A trial that is over without a reward; carries the outcome, and what a provider said of it."""

    def __init__(self, reason: Reason, detail: str, refusal: Refusal | None = None) -> None:
        super().__init__(detail)
        self.refusal = refusal
        self.outcome = Unmeasured(reason, clean_words(detail))


class TrialRunner:
    """Calls an adapter's `run_target` and `score` for one trial at a time or many.

    Args:
        seed_by_name: False to pass the seed as the third positional argument.
        ctx: What `live` yielded.
        settle: How an awaitable result is awaited.
        call_score: How `score(task, rollout)` is called; its result may be awaitable.
        on_scoring: Called with the request's key before the scorer of a target that was not quick.

    Attributes:
        scoring: The keys of the trials whose target returned in time and whose scorer runs.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        seed_by_name: bool,
        ctx: Any,
        limits: TrialLimits,
        settle: Await,
        call_score: Callable[[Any, Any], Any] | None = None,
        on_scoring: Callable[[int], None] | None = None,
    ) -> None:
        self.scoring: set[int] = set()
        self._target = adapter.run_target
        self._score = call_score or adapter.score
        self._seed_by_name = seed_by_name
        self._ctx = ctx
        self._limits = limits
        self._settle = settle
        self._on_scoring = on_scoring

    async def run(self, request: TrialRequest, task: Any) -> TrialReply:
        """Runs a trial; never raises, whatever the adapter does."""
        begun = time.monotonic()
        rollout: Any = None
        outcome: Outcome
        feedback = ""
        metrics: tuple[Metric, ...] = ()
        trace = refusal = None
        in_time = False
        try:
            rollout = await self._run_target(request, task)
            check_rollout(rollout, request.task_id)
            in_time = self._begin_score(request, time.monotonic() - begun)
            outcome, feedback, metrics = await self._run_score(request, task, rollout)
        except TrialError as fault:
            outcome, refusal = fault.outcome, fault.refusal
            trace = tail_of_traceback(fault.__cause__) if fault.__cause__ else None
        except BaseException as error:  # noqa: BLE001  (a trial must not take its host along)
            trace = tail_of_traceback(error)
            if is_agent_failure(error):
                outcome, feedback = Scored(0.0), clean_words(error)
            else:
                outcome = Unmeasured(Reason.INFRA, describe_error(error, "run_target"))
                refusal = read_refusal(error)
        self.scoring.discard(request.key)
        duration = time.monotonic() - begun
        if duration > self._limits.timeout_s:
            outcome = time_out(self._limits.timeout_s, duration, scoring=in_time)
            feedback, metrics, refusal = "", (), None
        verdict = Verdict(rollout, outcome, feedback, metrics, trace, refusal)
        return make_reply(request.key, verdict, duration, self._limits)

    def _begin_score(self, request: TrialRequest, taken_s: float) -> bool:
        """Notes that the scorer runs now; True when the target returned within the limit."""
        in_time = taken_s <= self._limits.timeout_s
        if in_time:
            self.scoring.add(request.key)
            if taken_s > SLOW_TARGET_S and self._on_scoring is not None:
                self._on_scoring(request.key)
        return in_time

    async def _run_target(self, request: TrialRequest, task: Any) -> Any:
        rollout = start_target(self._target, task, self._ctx, request.seed, by_name=self._seed_by_name)
        return await self._settle(rollout) if inspect.isawaitable(rollout) else rollout

    async def _run_score(
        self, request: TrialRequest, task: Any, rollout: Any
    ) -> tuple[Outcome, str, tuple[Metric, ...]]:
        try:
            score = self._score(task, rollout)
            while inspect.isawaitable(score):
                score = await self._settle(score)
        except BaseException as error:
            raise TrialError(Reason.SCORER_ERROR, describe_error(error, "score")) from error
        try:
            return judge_score(score, request.task_id)
        except TrialError:
            raise
        except Exception as error:  # a user's property or __repr__ may raise anything
            raise TrialError(Reason.INVALID_SCORE, describe_error(error, "score")) from error


def start_target(run_target: Callable[..., Any], task: Any, ctx: Any, seed: int, *, by_name: bool) -> Any:
    """Calls an adapter's `run_target` in the way that it takes its seed; the result may be awaitable."""
    return run_target(task, ctx, seed=seed) if by_name else run_target(task, ctx, seed)


def is_agent_failure(error: BaseException) -> bool:
    """True for capevolve's `AgentFailure` and for any copy of it: the name decides."""
    return any(kind.__name__ == "AgentFailure" for kind in type(error).__mro__)


def describe_error(error: BaseException, caller: str) -> str:
    """Returns `ValueError: message`, with a word more where an exit or an interrupt was raised."""
    words = f"{type(error).__name__}: {clean_words(error)}".removesuffix(": ")
    if isinstance(error, _NOT_RAISED_LIGHTLY):
        return f"{words} ({caller} tried to end its process)"
    return words


def check_rollout(rollout: Any, task_id: str) -> None:
    """Raises `TrialError` unless the rollout can be scored."""
    if not hasattr(rollout, "task_id") or not hasattr(rollout, "output"):
        raise TrialError(Reason.INFRA, f"run_target returned {type(rollout).__name__}, not a Rollout")
    error = getattr(rollout, "error", None)
    if error is not None and error != "":
        raise TrialError(Reason.INFRA, clean_words(error), find_refusal(rollout))
    if rollout.task_id != task_id:
        raise TrialError(Reason.INFRA, f"rollout.task_id is {rollout.task_id!r}, not {task_id!r}")


def judge_score(score: Any, task_id: str) -> tuple[Outcome, str, tuple[Metric, ...]]:
    """Returns the outcome, the feedback and the metrics of a score.

    Raises:
        TrialError: The score is not one, belongs to another task, or its reward or metrics are invalid.
    """
    if not hasattr(score, "reward"):
        raise TrialError(Reason.INVALID_SCORE, f"score returned {type(score).__name__}, not a Score")
    if getattr(score, "task_id", None) != task_id:
        raise TrialError(
            Reason.INVALID_SCORE, f"score.task_id is {getattr(score, 'task_id', None)!r}, not {task_id!r}"
        )
    reward = _read_reward(score.reward)
    metrics = getattr(score, "metrics", None)
    rows = _read_metrics(metrics, reward) if metrics else ()
    return Scored(reward), clean_words(getattr(score, "feedback", "")), rows


def _read_reward(value: Any) -> float:
    number = as_number(value)
    if number is None or not 0.0 <= number <= 1.0:  # NaN is in no interval
        raise TrialError(
            Reason.INVALID_SCORE,
            f"reward is {clean_words(repr(value))[:80]} ({type(value).__name__}), not a number in [0, 1]",
        )
    return number


def _read_metrics(metrics: Any, reward: float) -> tuple[Metric, ...]:
    if not isinstance(metrics, list | tuple):
        raise TrialError(Reason.INVALID_SCORE, f"metrics is {type(metrics).__name__}, not a list")
    rows = tuple(_read_metric(row) for row in metrics)
    primary = [row for row in rows if row.primary]
    if len(primary) != 1:
        raise TrialError(Reason.INVALID_SCORE, f"metrics has {len(primary)} primary entries, not exactly one")
    if not math.isclose(primary[0].value, reward, rel_tol=0.0, abs_tol=1e-9):
        raise TrialError(
            Reason.INVALID_SCORE,
            f"metrics: the primary {primary[0].name!r} is {primary[0].value}, the reward {reward}",
        )
    return rows


def _read_metric(row: Any) -> Metric:
    if not isinstance(row, Mapping):
        raise TrialError(Reason.INVALID_SCORE, f"metrics holds {type(row).__name__}, not a dict")
    name, primary, direction = row.get("name"), row.get("primary"), row.get("direction")
    value = as_number(row.get("value"))
    if not isinstance(name, str) or not name:
        fault = f"the name {name!r} is not text"
    elif value is None or not math.isfinite(value):
        fault = f"the value of {name!r} is {row.get('value')!r}, not a finite number"
    elif not isinstance(primary, bool):
        fault = f"`primary` of {name!r} is {primary!r}, not true or false"
    elif direction in ("higher", "lower"):
        return Metric(clean_words(name), value, primary, direction)
    else:
        fault = f"`direction` of {name!r} is {direction!r}, not 'higher' or 'lower'"
    raise TrialError(Reason.INVALID_SCORE, f"metrics: {fault}")


def tail_of_traceback(error: BaseException) -> str:
    """Returns the last frames of an error's traceback, those of user code only."""
    traceback = load_late("traceback")  # only a failing trial pays for it

    try:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
        lines = traceback.format_list(frames[-_MAX_FRAMES:])
        lines += traceback.format_exception_only(type(error), error)
    except Exception:  # noqa: BLE001  (a user's __str__ may raise anything)
        lines = [type(error).__name__]
    return clean_words("".join(lines)[-8_000:].rstrip())


def place_of_error(error: BaseException) -> str | None:
    """Returns `file:line` of the innermost frame of user code; None when there is none."""
    place = None
    step = error.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            place = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    return place
