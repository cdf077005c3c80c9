"""Runs trials through an adapter's batch hooks, `run_trials`, `run_batch` and `score_batch`.

A call of a hook is no more than several trials at once: each has its own reply, judged like any other. What
a call cannot say of one trial is not guessed: a call of several that fails as a whole is an infrastructure
failure of each, which is tried again alone, and one that is late goes back to be run again one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from capevolve.adapters.bench import Bench
from capevolve.adapters.late import load_late
from capevolve.adapters.loader import LoadedAdapter
from capevolve.adapters.records import Metric, Refusal, TrialReply, TrialRequest
from capevolve.adapters.refusals import read_refusal
from capevolve.adapters.reply import Verdict, make_reply, time_out
from capevolve.adapters.surroundings import own_working_directory
from capevolve.adapters.threaded import Settler
from capevolve.adapters.trial import (
    TrialError,
    check_rollout,
    describe_error,
    is_agent_failure,
    judge_score,
    start_target,
    tail_of_traceback,
)
from capevolve.adapters.wire import Progress, Returned
from capevolve.model import Outcome, Reason, Scored, Unmeasured


@dataclass(slots=True, eq=False)
class Case:
    """A trial of a call; its outcome is None until it is known."""

    request: TrialRequest
    task: Any
    rollout: Any = None
    outcome: Outcome | None = None
    feedback: str = ""
    metrics: tuple[Metric, ...] = ()
    trace: str | None = None
    refusal: Refusal | None = None

    def fail(self, reason: Reason, words: str, error: BaseException | None = None) -> None:
        """Ends the trial without a reward."""
        self.outcome = TrialError(reason, words).outcome
        self.trace = tail_of_traceback(error) if error is not None else None
        if reason is Reason.INFRA and error is not None:
            self.refusal = read_refusal(error)


def serve_batched(bench: Bench, settler: Settler) -> None:
    """Runs one call after the other until the pool closes the host."""
    caller = BatchCaller(bench.loaded, bench.ctx, settler)
    done: tuple[TrialReply, ...] = ()
    while True:
        requests = bench.inbox.take_call(bench.width, wait=False)
        if not requests:
            if done:
                bench.channel.send(Progress(done, ()))
                done = ()
            requests = bench.inbox.take_call(bench.width, wait=True)
            if not requests:
                return
        tasks = [bench.find_task(request) for request in requests]
        if any(task is None for task in tasks):
            if done:
                bench.channel.send(Progress(done, ()))
            return
        keys = tuple(request.key for request in requests)
        bench.channel.send(Progress(done, keys))
        cases = [Case(request, task) for request, task in zip(requests, tasks, strict=True)]
        begun = time.monotonic()
        caller.run(cases)
        duration = time.monotonic() - begun
        bench.surroundings.restore()
        if duration > bench.limits.timeout_s and len(cases) > 1:
            bench.channel.send(Returned(keys))
            done = ()
        else:
            done = bench.heed(tuple(_reply(case, duration, bench) for case in cases))


def _reply(case: Case, duration: float, bench: Bench) -> TrialReply:
    outcome: Outcome = case.outcome or Unmeasured(Reason.INFRA, "the call left no outcome")
    verdict = Verdict(case.rollout, outcome, case.feedback, case.metrics, case.trace, case.refusal)
    if duration > bench.limits.timeout_s:
        late = time_out(bench.limits.timeout_s, duration)
        verdict = Verdict(case.rollout, late, trace=case.trace)
    return make_reply(case.request.key, verdict, duration, bench.limits)


class BatchCaller:
    """Calls an adapter's hooks for the trials of a call, and judges what comes back.

    Args:
        ctx: What `live` yielded.
        settler: How awaitables are awaited.
    """

    def __init__(self, loaded: LoadedAdapter, ctx: Any, settler: Settler) -> None:
        self._adapter = loaded.instance
        self._loaded = loaded
        self._ctx = ctx
        self._settler = settler

    def run(self, cases: Sequence[Case]) -> None:
        """Gives each case its outcome; never raises, whatever the adapter does."""
        if self._loaded.hook == "run_trials":
            self._call("run_trials", cases, self._run_trials)
        elif self._loaded.hook == "run_batch":
            self._call("run_batch", cases, self._run_batch)
        else:
            self._run_each(cases)
        for case in cases:
            if case.outcome is None:
                try:
                    check_rollout(case.rollout, case.request.task_id)
                except TrialError as fault:
                    case.outcome, case.refusal = fault.outcome, fault.refusal
                except BaseException as error:  # noqa: BLE001  (a user's property may raise anything)
                    case.fail(Reason.INFRA, describe_error(error, "run_target"), error)
        ran = [case for case in cases if case.outcome is None]
        for trial in sorted({case.request.trial for case in ran}):
            self._score([case for case in ran if case.request.trial == trial])

    def _call(self, hook: str, cases: Sequence[Case], call: Callable[[Sequence[Case]], None]) -> None:
        try:
            call(cases)
        except BaseException as error:  # noqa: BLE001  (a trial must not take its host along)
            for case in cases:
                if len(cases) > 1:
                    words = f"{hook} raised for {len(cases)} trials at once: {describe_error(error, hook)}"
                    case.fail(Reason.INFRA, words, error)
                else:
                    _blame(case, error, hook)

    def _run_trials(self, cases: Sequence[Case]) -> None:
        """Calls `run_trials(tasks, ctx, *, n_trials, base_seed)` -> `{id: [Rollout of each trial]}`."""
        base = min(case.request.seed for case in cases)
        n_trials = max(case.request.seed for case in cases) - base + 1
        tasks = {case.request.task_id: case.task for case in cases}
        given = self._await(
            self._adapter.run_trials(list(tasks.values()), self._ctx, n_trials=n_trials, base_seed=base)
        )
        if not isinstance(given, dict):
            raise TypeError(f"run_trials returned {type(given).__name__}, not {{task id: [Rollout, ...]}}")
        for case in cases:
            rollouts = given.get(case.request.task_id)
            if not isinstance(rollouts, list | tuple) or len(rollouts) != n_trials:
                count = len(rollouts) if isinstance(rollouts, list | tuple) else "no"
                words = f"run_trials returned {count} rollouts of this task for {n_trials} trials"
                case.fail(Reason.INFRA, words)
            else:
                case.rollout = rollouts[case.request.seed - base]

    def _run_batch(self, cases: Sequence[Case]) -> None:
        """Calls `run_batch(tasks, ctx, *, seed)` -> `{id: Rollout}`, or a list parallel to `tasks`."""
        given = self._await(
            self._adapter.run_batch([case.task for case in cases], self._ctx, seed=cases[0].request.seed)
        )
        for case, rollout in zip(cases, _spread("run_batch", given, cases), strict=True):
            if rollout is None:
                case.fail(Reason.INFRA, "run_batch returned no rollout of this task")
            case.rollout = rollout

    def _run_each(self, cases: Sequence[Case]) -> None:
        """Calls `run_target` of all cases at the same time: on one event loop, or each in a thread."""
        if self._loaded.is_async:
            self._settler.settle(load_late("asyncio").gather(*[self._run_async(case) for case in cases]))
        elif len(cases) == 1:
            self._run_plain(cases[0])
        else:
            pool = load_late("concurrent.futures.thread").ThreadPoolExecutor
            with pool(max_workers=len(cases), initializer=own_working_directory) as threads:
                list(threads.map(self._run_plain, cases))

    def _run_plain(self, case: Case) -> None:
        try:
            case.rollout = self._await(self._start(case))
        except BaseException as error:  # noqa: BLE001  (a trial must not take its host along)
            _blame(case, error, "run_target")

    async def _run_async(self, case: Case) -> None:
        try:
            case.rollout = await self._start(case)
        except BaseException as error:  # noqa: BLE001  (a trial must not take its host along)
            _blame(case, error, "run_target")

    def _start(self, case: Case) -> Any:
        target, by_name = self._adapter.run_target, self._loaded.seed_by_name
        return start_target(target, case.task, self._ctx, case.request.seed, by_name=by_name)

    def _score(self, cases: Sequence[Case]) -> None:
        """Scores trials of one number: by `score_batch(tasks, {id: Rollout})`, what it omits by `score`."""
        scores: list[Any] = [None] * len(cases)
        if callable(getattr(self._adapter, "score_batch", None)):
            tasks = [case.task for case in cases]
            rollouts = {case.request.task_id: case.rollout for case in cases}
            try:
                given = self._await(self._adapter.score_batch(tasks, rollouts))
                scores = _spread("score_batch", {} if given is None else given, cases)
            except BaseException as error:  # noqa: BLE001  (a trial must not take its host along)
                if len(cases) == 1:
                    cases[0].fail(Reason.SCORER_ERROR, describe_error(error, "score_batch"), error)
                else:
                    for case in cases:
                        self._score([case])  # the culprit alone pays
                return
        for case, score in zip(cases, scores, strict=True):
            self._judge(case, score)

    def _judge(self, case: Case, score: Any) -> None:
        try:
            if score is None:
                score = self._adapter.score(case.task, case.rollout)
            while isawaitable(score):
                score = self._await(score)
        except BaseException as error:  # noqa: BLE001  (a trial must not take its host along)
            case.fail(Reason.SCORER_ERROR, describe_error(error, "score"), error)
            return
        try:
            case.outcome, case.feedback, case.metrics = judge_score(score, case.request.task_id)
        except TrialError as fault:
            case.outcome = fault.outcome
        except Exception as error:  # noqa: BLE001  (a user's property or __repr__ may raise anything)
            case.fail(Reason.INVALID_SCORE, describe_error(error, "score"), error)

    def _await(self, value: Any) -> Any:
        return self._settler.settle(value) if isawaitable(value) else value


def _blame(case: Case, error: BaseException, caller: str) -> None:
    case.fail(Reason.INFRA, describe_error(error, caller), error)
    if is_agent_failure(error):
        case.outcome, case.feedback = Scored(0.0), TrialError(Reason.INFRA, str(error)).outcome.detail
        case.refusal = None


def _spread(hook: str, given: Any, cases: Sequence[Case]) -> list[Any]:
    """What a hook returned for each case, None where it left one out; a list is parallel to the tasks."""
    if isinstance(given, dict):
        return [given.get(case.request.task_id) for case in cases]
    if not isinstance(given, list | tuple):
        raise TypeError(f"{hook} returned {type(given).__name__}, neither a dict by task id nor a list")
    if len(given) != len(cases):
        raise ValueError(f"{hook} returned {len(given)} results for {len(cases)} tasks")
    return list(given)
