"""Proof that an adapter works, before money is spent: a few real calls on one task, in a host.

Every problem is named with its fix. What cannot be proved is said too, as a note.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capevolve.adapters.pool import HostPool
from capevolve.adapters.probe import KEY, READY_VARIABLE, TARGET_VARIABLE
from capevolve.adapters.records import AdapterRef, ListedTask, TrialReply, TrialRequest
from capevolve.model import Reason, Scored, Unmeasured

CALLS = 3
"""Calls of the target that a check makes: a seed, the same seed again, another seed."""

_PROBE = "capevolve.adapters.probe:make_probe"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check found out.

    Attributes:
        fix: What to do about it; set exactly when it is a problem.
        warning: True for what is no proof either way but matters.
    """

    what: str
    fix: str | None = None
    warning: bool = False


@dataclass(frozen=True, slots=True)
class AdapterCheck:
    """What a check found out, in the order in which it did."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when no problem was found."""
        return all(finding.fix is None for finding in self.findings)


async def check_adapter(
    adapter: AdapterRef, candidate_dir: Path, task: ListedTask, *, seed: int, timeout_s: float
) -> AdapterCheck:
    """Runs one task three times and judges what comes back.

    Args:
        candidate_dir: A copy of the seed candidate.
        task: A train task.
        seed: The seed of the first two calls; the third takes the next one.

    Raises:
        AdapterError: The adapter cannot be loaded.
    """
    replies = []
    pool = HostPool(
        AdapterRef(adapter.root, _PROBE),
        candidate_dir,
        slots=1,
        timeout_s=timeout_s,
        grace_s=2.0,
        env={TARGET_VARIABLE: adapter.target, READY_VARIABLE: adapter.ready},
        prefetch=False,
    )
    async with pool:
        for key, trial_seed in enumerate((seed, seed, seed + 1)):
            pool.submit([TrialRequest(key, task.id, task.digest, 0, trial_seed)])
            replies += await pool.replies()
            if isinstance(replies[-1].outcome, Unmeasured):
                break
    return AdapterCheck(tuple(judge_replies(task.id, replies)))


def judge_replies(task_id: str, replies: Sequence[TrialReply]) -> list[Finding]:
    """What the replies to (seed, the same seed, another seed) prove; pure."""
    last = replies[-1].outcome
    if isinstance(last, Unmeasured):
        return [_explain_failure(task_id, last, replies[-1])]
    payloads = [json.loads(reply.payload) for reply in replies]
    seen = [found for found in map(_read_seen, payloads) if found is not None]
    rewards = [reply.outcome.reward for reply in replies if isinstance(reply.outcome, Scored)]
    findings = [Finding(f"task {task_id!r} ran {len(replies)} times: rewards {_list(rewards)}")]
    if len(seen) < len(replies):
        what = "the rollout's metadata is too large: scorer and candidate cannot be watched"
        findings.append(Finding(what, warning=True))
    else:
        findings += [_judge_scorer(seen), _judge_use(seen[0])]
    findings.append(_judge_seed(payloads, reads_seed=all(found.reads_seed for found in seen)))
    if all(reply.cost_usd is None for reply in replies):
        findings.append(Finding("the target reports no cost: a cap on money cannot hold", warning=True))
    return findings


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the probe saw in one trial; see `probe.Probe.score`."""

    used: bool
    rewards: tuple[str, ...]
    reads_seed: bool


def _read_seen(payload: dict[str, Any]) -> _Seen | None:
    """What the probe left in the rollout's metadata; None when too large metadata was cut, and it too."""
    seen = (payload.get("metadata") or {}).get(KEY)
    return None if seen is None else _Seen(seen["used"], tuple(seen["rewards"]), seen["reads_seed"])


def _explain_failure(task_id: str, outcome: Unmeasured, reply: TrialReply) -> Finding:
    fixes = {
        Reason.INFRA: "Mend what raised; for a failure of the agent itself raise capevolve.AgentFailure.",
        Reason.TIMEOUT: "Raise evaluation.timeout_s, or make the target quicker.",
        Reason.CRASH: "The target ended its process; look at what it printed last.",
        Reason.SCORER_ERROR: "Mend score(task, rollout).",
        Reason.INVALID_SCORE: "Return Score(task_id=task.id, reward=x) with x from 0 to 1.",
    }
    payload = json.loads(reply.payload)
    tail = str(payload.get("traceback") or payload.get("host_output") or "").strip()
    what = f"task {task_id!r} could not be measured ({outcome.reason}): {outcome.detail}"
    return Finding(f"{what}\n{tail}".rstrip(), fixes.get(outcome.reason, "Mend the adapter."))


def _judge_scorer(seen: Sequence[_Seen]) -> Finding:
    for found in seen:
        if len(set(found.rewards)) > 1:
            return Finding(
                f"the scorer gave the same rollout {' and '.join(found.rewards)}",
                "Make score() deterministic: fix its seed, or move what is random into run_target.",
            )
    return Finding("the scorer is deterministic: the same rollout twice, the same score")


def _judge_use(first: _Seen) -> Finding:
    if first.used:
        return Finding("the candidate reaches the target")
    return Finding(
        "no file of the candidate was opened, nor its folder named to a child process: every candidate "
        "would score the same",
        "Read the candidate from `ctx` in run_target (or in live), not from the seed's folder.",
    )


def _judge_seed(payloads: Sequence[dict[str, Any]], *, reads_seed: bool) -> Finding:
    first, again, other = (json.dumps(payload.get("output"), sort_keys=True) for payload in payloads)
    if first != again:
        what = "the same seed gave two different outputs"
        if reads_seed:
            return Finding(f"{what}: trials cannot be repeated; use several per task", warning=True)
        return Finding(
            f"{what}, and run_target never looks at `seed`",
            "Forward `seed` to whatever is random in the agent.",
        )
    if first == other:
        return Finding("the target looks deterministic: two seeds gave the same output; one trial is enough")
    return Finding("the seed is forwarded: the same seed repeats, another one differs")


def _list(rewards: Sequence[float]) -> str:
    return ", ".join(f"{reward:.3f}" for reward in rewards)
