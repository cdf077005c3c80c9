"""Proof that an adapter works, before money is spent: a few real calls on one task, in a host.

Every problem and every doubt is named with its fix. What cannot be proved is said too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capevolve.adapters.alteration import Alteration, AlteredTrial, alter_texts, judge_use, list_texts
from capevolve.adapters.findings import (
    Examination,
    Finding,
    Level,
    explain_failure,
    judge_feedback,
    judge_rewards,
    judge_scorer,
    judge_seed,
    judge_traces,
    read_payload,
    show_output,
)
from capevolve.adapters.pool import HostPool
from capevolve.adapters.probe import AGAIN, EMPTY, NONSENSE, READY_VARIABLE, REPORT, TARGET_VARIABLE, TRUTH
from capevolve.adapters.records import AdapterRef, ListedTask, TrialReply, TrialRequest
from capevolve.errors import AdapterError, OutsideError
from capevolve.model import SCORERS_FAULTS, Scored, Unmeasured

MOST_CALLS = 4
"""Calls of the target that a check makes at most: a seed, the same seed, another, an altered candidate."""

_PROBE = "capevolve.adapters.probe:make_probe"


@dataclass(frozen=True, slots=True)
class CallCount:
    """What a check cost.

    Attributes:
        target: Calls of `run_target`.
        scorer: Calls of `score`.
        cost_usd: What the calls of the target cost; None when any of them did not report it.
        tokens: Likewise.
    """

    target: int
    scorer: int
    cost_usd: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class AdapterCheck:
    """What a check found out, in the order in which it did."""

    findings: tuple[Finding, ...]
    calls: CallCount

    @property
    def ok(self) -> bool:
        """True when no problem was found."""
        return all(finding.level is not Level.PROBLEM for finding in self.findings)


async def check_adapter(
    adapter: AdapterRef,
    candidate_dir: Path,
    task: ListedTask,
    *,
    seed: int,
    timeout_s: float,
    deterministic: bool = False,
    editable: Sequence[str] | None = None,
    memory_mb: int | None = None,
) -> AdapterCheck:
    """Runs one task a few times and judges what comes back.

    Args:
        candidate_dir: A scratch copy of the seed candidate: for one call an altered one takes its place.
        task: A train task.
        seed: The seed of the first two calls; the third takes the next one.
        deterministic: What the spec declares of the target.
        editable: The files that a proposal may touch; None: all.
        memory_mb: The address space of a host; None is no limit.

    Raises:
        AdapterError: The adapter cannot be loaded.
    """
    checker = _Checker(adapter, task, seed, timeout_s, memory_mb)
    replies, seen, examined = await checker.try_candidate(candidate_dir)
    last = replies[-1]
    if isinstance(last.outcome, Unmeasured):
        return AdapterCheck((explain_failure(task.id, last.outcome, last),), checker.count())
    texts = list_texts(candidate_dir)
    names = [name for name in texts if editable is None or name in editable]
    altered = await checker.try_altered(candidate_dir, names, replies) if names else None
    found = [
        *judge_rewards(task.id, replies),
        judge_use(replies, touched=seen.used, altered=altered),
        judge_seed(
            [read_payload(reply).get("output") for reply in replies],
            reads_seed=seen.reads_seed,
            deterministic=deterministic,
        ),
        *judge_scorer(examined),
        *judge_feedback(task, [*replies, *examined.wrong()]),
        *judge_traces(task, replies),
    ]
    return AdapterCheck(tuple(found), checker.count())


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the probe saw; without a report nothing is held against the adapter."""

    used: bool = True
    reads_seed: bool = True


class _Checker:
    """Makes the calls and counts them."""

    def __init__(
        self, adapter: AdapterRef, task: ListedTask, seed: int, timeout_s: float, memory_mb: int | None
    ) -> None:
        self._adapter = adapter
        self._task = task
        self._seed = seed
        self._timeout_s = timeout_s
        self._memory_mb = memory_mb
        self._called: list[TrialReply] = []
        self._scored = 0

    def count(self) -> CallCount:
        costs = [reply.cost_usd for reply in self._called]
        tokens = [reply.tokens for reply in self._called]
        return CallCount(
            target=sum(reply.starts for reply in self._called),
            scorer=self._scored,
            cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            tokens=None if None in tokens else sum(count for count in tokens if count is not None),
        )

    async def try_candidate(self, folder: Path) -> tuple[list[TrialReply], _Seen, Examination]:
        """The three calls, and the questions where none of them failed."""
        replies: list[TrialReply] = []
        async with self._open(folder) as pool:
            for trial_seed in (self._seed, self._seed, self._seed + 1):
                replies.append(await self._call(pool, trial_seed))
                if isinstance(replies[-1].outcome, Unmeasured):
                    return replies, _Seen(), Examination((), None, None, None)
            report = await self._ask(pool, REPORT)
            examined = await self._examine(pool, replies)
        seen = read_payload(report).get("output")
        return replies, _Seen(**seen) if isinstance(seen, dict) else _Seen(), examined

    async def _examine(self, pool: HostPool, replies: Sequence[TrialReply]) -> Examination:
        answered = [k for k, reply in enumerate(replies) if "traceback" not in read_payload(reply)]
        again = [(replies[k].outcome, (await self._ask(pool, AGAIN - k)).outcome) for k in answered]
        output = read_payload(replies[answered[0]]).get("output") if answered else None
        target = self._task.target
        alike = target is not None and (output is None or type(output) is type(target))
        return Examination(
            again=tuple(again),
            truth=await self._ask(pool, TRUTH) if alike else None,
            empty=await self._ask(pool, EMPTY),
            nonsense=await self._ask(pool, NONSENSE) if isinstance(output, str) else None,
        )

    async def try_altered(
        self, folder: Path, names: Sequence[str], replies: Sequence[TrialReply]
    ) -> AlteredTrial:
        """One call with a copy whose texts are emptied; marked, where outputs differ by themselves."""
        repeats = show_output(replies[0]) == show_output(replies[1])
        how = Alteration.EMPTIED if repeats else Alteration.MARKED
        with alter_texts(folder, names, how):
            try:
                async with self._open(folder) as pool:
                    return AlteredTrial(how, reply=await self._call(pool, self._seed))
            except AdapterError as error:
                return AlteredTrial(how, refusal=error.what)
            except OutsideError:
                return AlteredTrial(how)

    async def _call(self, pool: HostPool, seed: int) -> TrialReply:
        reply = await self._ask(pool, seed)
        self._called.append(reply)
        return reply

    async def _ask(self, pool: HostPool, seed: int) -> TrialReply:
        """One trial; a seed below 0 is a question of the probe."""
        pool.submit([TrialRequest(0, self._task.id, self._task.digest, 0, seed)])
        (reply,) = await pool.replies()
        self._scored += seed != REPORT and _was_scored(reply)
        return reply

    def _open(self, folder: Path) -> HostPool:
        return HostPool(
            AdapterRef(self._adapter.root, _PROBE),
            folder,
            slots=1,
            timeout_s=self._timeout_s,
            memory_mb=self._memory_mb,
            grace_s=2.0,
            env={TARGET_VARIABLE: self._adapter.target, READY_VARIABLE: self._adapter.ready},
            prefetch=False,
        )


def _was_scored(reply: TrialReply) -> bool:
    """True unless the trial ended before its scorer was called."""
    if isinstance(reply.outcome, Scored):
        return "traceback" not in read_payload(reply)
    return reply.outcome.reason in SCORERS_FAULTS
