"""What a check finds out, and how the replies to its calls are judged. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from capevolve.adapters.leaks import Answers, find_answer, read_answers
from capevolve.adapters.records import ListedTask, TrialReply
from capevolve.model import PASS_REWARD, Outcome, Reason, Scored, Unmeasured


class Level(StrEnum):
    """What a finding means: something is proved, must be known, is doubtful, or must be mended."""

    PROOF = "proof"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check found out.

    Attributes:
        fix: What to do about it; set for every warning and problem.
    """

    what: str
    level: Level = Level.PROOF
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """What the scorer gave for answers whose worth is known; a missing key was not asked.

    Attributes:
        again: Pairs of the outcomes of the same rollout.
        truth, empty, nonsense: The replies for the task's target, an empty answer, and a meaningless text.
    """

    again: tuple[tuple[Outcome, Outcome], ...]
    truth: TrialReply | None
    empty: TrialReply | None
    nonsense: TrialReply | None

    def wrong(self) -> list[TrialReply]:
        """The replies for answers that are not right."""
        return [reply for reply in (self.empty, self.nonsense) if reply is not None]


def explain_failure(task_id: str, outcome: Unmeasured, reply: TrialReply) -> Finding:
    """The problem that a trial without a reward is."""
    fixes = {
        Reason.INFRA: "Mend what raised; for a failure of the agent itself raise capevolve.AgentFailure.",
        Reason.TIMEOUT: "Raise evaluation.timeout_s, or make the target quicker.",
        Reason.CRASH: "The target ended its process; look at what it printed last.",
        Reason.SCORER_ERROR: "Mend score(task, rollout).",
        Reason.INVALID_SCORE: "Return Score(task_id=task.id, reward=x) with x from 0 to 1.",
    }
    payload = read_payload(reply)
    tail = str(payload.get("traceback") or payload.get("host_output") or "").strip()
    what = f"task {task_id!r} could not be measured ({outcome.reason}): {outcome.detail}"
    fix = fixes.get(outcome.reason, "Mend the adapter.")
    return Finding(f"{what}\n{tail}".rstrip(), Level.PROBLEM, fix)


def judge_rewards(task_id: str, replies: Sequence[TrialReply]) -> list[Finding]:
    """The rewards of the calls, and what of them leaves nothing to be seen."""
    rewards = [reply.outcome.reward for reply in replies if isinstance(reply.outcome, Scored)]
    shown = ", ".join(f"{reward:.3f}" for reward in rewards)
    found = [Finding(f"task {task_id!r} ran {len(replies)} times: rewards {shown}, each from 0 to 1")]
    if set(rewards) <= {0.0}:
        what = "every reward was 0: fine for a seed candidate that fails this task; if all tasks do, nothing"
        found.append(Finding(f"{what} but a large step can be seen", Level.NOTE))
    elif min(rewards) >= PASS_REWARD:
        what = "every reward was 1: fine for a task that the seed candidate masters; if it masters all,"
        found.append(Finding(f"{what} nothing is left to gain", Level.NOTE))
    if all(reply.cost_usd is None for reply in replies):
        fix = "Set Rollout.cost_usd (a ready target: its prices), or bound budget.max_calls instead."
        found.append(Finding("the target reports no cost: a cap on money cannot hold", Level.WARNING, fix))
    return found


def judge_seed(outputs: Sequence[Any], *, reads_seed: bool, deterministic: bool) -> Finding:
    """What the outputs for (seed, the same seed, another seed) say of the seed.

    Args:
        reads_seed: False when the code of run_target never looks at its seed.
        deterministic: Declared in the spec.
    """
    if all(output is None for output in outputs):
        return Finding("there was no output: nothing is proved of the seed", Level.NOTE)
    first, again, other = (json.dumps(output, sort_keys=True) for output in outputs)
    same = "the same seed gave two different outputs"
    if deterministic:
        if first == again == other:
            return Finding("the target is deterministic, as declared: two seeds gave the same output")
        what = same if first != again else "two seeds gave different outputs"
        return Finding(
            f"the target is declared deterministic, but {what}",
            Level.PROBLEM,
            "Remove evaluation.deterministic and use several trials per task, or mend what differs.",
        )
    if first != again and not reads_seed:
        fix = "Forward `seed` to whatever is random in the agent."
        return Finding(f"{same}, and run_target never looks at `seed`", Level.PROBLEM, fix)
    if first != again:
        fix = "Use several trials per task: evaluation.num_trials 3 or more."
        return Finding(f"{same}: a trial cannot be repeated exactly", Level.WARNING, fix)
    if first == other:
        never = "" if reads_seed else ", and run_target never looks at `seed`"
        return Finding(
            f"two seeds gave the same output{never}: the target is deterministic, or `seed` is not forwarded",
            Level.WARNING,
            "Forward `seed`; or declare `deterministic: true` under evaluation, and use one trial per task.",
        )
    return Finding("the seed is forwarded: the same seed repeats, another one differs")


def judge_scorer(found: Examination) -> list[Finding]:
    """What the scorer gave for answers whose worth is known."""
    findings = _judge_repeats(found.again)
    if found.truth is not None and isinstance(found.truth.outcome, Scored):
        reward = found.truth.outcome.reward
        right = Finding("the task's target, given as the answer, scores 1")
        what = f"the task's target, given as the answer, scores {reward:.3f}: right only where a target is no"
        findings.append(right if reward >= PASS_REWARD else Finding(f"{what} answer", Level.NOTE))
    if found.empty is not None and isinstance(found.empty.outcome, Unmeasured):
        outcome = found.empty.outcome
        fix = "Score an empty answer, usually 0: an answer that cannot be scored is missing data."
        what = f"an empty answer cannot be scored ({outcome.reason}): {outcome.detail}"
        findings.append(Finding(what, Level.WARNING, fix))
    for name, reply in (("an empty answer", found.empty), ("a meaningless answer", found.nonsense)):
        if reply is not None and isinstance(reply.outcome, Scored) and reply.outcome.reward >= PASS_REWARD:
            fix = "Unless that is right for this task, see that score() compares with task.target."
            findings.append(Finding(f"{name} scores 1", Level.WARNING, fix))
    return findings


def _judge_repeats(pairs: Sequence[tuple[Outcome, Outcome]]) -> list[Finding]:
    for first, again in pairs:
        if first != again:
            one, other = (repr(o.reward) if isinstance(o, Scored) else o.reason for o in (first, again))
            return [
                Finding(
                    f"the scorer gave the same rollout {one} and {other}",
                    Level.PROBLEM,
                    "Make score() deterministic: fix its seed, or move what is random into run_target.",
                )
            ]
    what = "the scorer is deterministic: the same rollout twice, the same score"
    return [Finding(what)] if pairs else []


def judge_feedback(task: ListedTask, replies: Sequence[TrialReply]) -> list[Finding]:
    """Whether the feedback on answers that do not hold the target tells it."""
    answers = read_answers(task.target, task.input)
    wrong = [r for r in replies if find_answer(read_payload(r).get("output"), answers) is None]
    leak = next(filter(None, (find_answer(reply.feedback, answers) for reply in wrong)), None)
    if leak is not None:
        return [
            Finding(
                f"the feedback on a wrong answer tells the task's target ({_clip(leak)!r})",
                Level.WARNING,
                "Say what is wrong, not what would be right: a proposer copies train answers into the "
                "candidate.",
            )
        ]
    found = (
        [Finding("the feedback on wrong answers does not tell the task's target")] if answers.searched else []
    )
    return found + _note_unsearched(answers)


def _note_unsearched(answers: Answers) -> list[Finding]:
    groups = (
        (answers.short, "too short to be told from chance"),
        (answers.given, "in the task's input anyway"),
    )
    return [
        Finding(
            f"not looked for in feedback and trace, {why}: {_clip(', '.join(map(repr, texts)))}", Level.NOTE
        )
        for texts, why in groups
        if any(texts)
    ]


def judge_traces(task: ListedTask, replies: Sequence[TrialReply]) -> list[Finding]:
    """Whether a trial that did not answer with the target shows it in its trace all the same."""
    answers = read_answers(task.target, task.input)
    for reply in replies:
        payload = read_payload(reply)
        if find_answer(payload.get("output"), answers) is not None:
            continue
        leak = find_answer([payload.get("trace"), payload.get("tool_calls")], answers)
        if leak is not None:
            what = f"the trace holds the task's target ({_clip(leak)!r}), and the answer does not"
            fix = "See that the agent is given task.input only; task.target is for score()."
            return [Finding(what, Level.WARNING, fix)]
    return []


def read_payload(reply: TrialReply) -> Mapping[str, Any]:
    """The rollout of a reply."""
    payload: Mapping[str, Any] = json.loads(reply.payload)
    return payload


def show_output(reply: TrialReply) -> str:
    """The output of a reply as comparable text."""
    return json.dumps(read_payload(reply).get("output"), sort_keys=True)


def _clip(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."
