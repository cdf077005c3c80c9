"""What a few real calls prove of an adapter, and that what they cannot prove is said as such."""

from __future__ import annotations

import asyncio
import json
import textwrap

import pytest

from capevolve.adapters.check import AdapterCheck, Finding, check_adapter, judge_replies
from capevolve.adapters.probe import KEY
from capevolve.adapters.records import AdapterRef, ListedTask, TrialReply
from capevolve.canonical import canonical_json, digest
from capevolve.errors import AdapterError
from capevolve.model import Outcome, Reason, Scored, Unmeasured

HEAD = """
import os, random, subprocess, sys, time
from pathlib import Path
from capevolve import Adapter as Base, AgentFailure, Rollout, Score, Task

class Plain(Base):
    def tasks(self, split):
        return [Task(id="t", input=1)]
    def run_target(self, task, ctx, *, seed):
        return Rollout(task.id, output=(ctx / "prompt.md").read_text())
    def score(self, task, rollout):
        return Score(task.id, reward=0.5)

"""
CONTENT = {"input": 1, "target": None, "metadata": {}}
TASK = ListedTask("t", digest(CONTENT), canonical_json(CONTENT), None)


@pytest.fixture
def check(tmp_path):
    def go(source: str, timeout_s: float = 20.0, folder: str = "candidate") -> AdapterCheck:
        (tmp_path / "adapter.py").write_text(HEAD + textwrap.dedent(source))
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "prompt.md").write_text("hello")
        ref = AdapterRef(tmp_path, "adapter.py:Adapter")
        return asyncio.run(check_adapter(ref, place, TASK, seed=5, timeout_s=timeout_s))

    return go


def _problems(checked: AdapterCheck) -> list[str]:
    return [finding.what for finding in checked.findings if finding.fix is not None]


def _notes(checked: AdapterCheck) -> str:
    return "\n".join(finding.what for finding in checked.findings if finding.fix is None)


def test_an_adapter_that_works_is_told_so(check):
    checked = check("class Adapter(Plain): pass")
    assert checked.ok
    assert _problems(checked) == []
    notes = _notes(checked)
    assert "task 't' ran 3 times: rewards 0.500, 0.500, 0.500" in notes
    assert "the candidate reaches the target" in notes
    assert "the scorer is deterministic" in notes
    assert "looks deterministic" in notes
    assert [f.what for f in checked.findings if f.warning] == [
        "the target reports no cost: a cap on money cannot hold"
    ]


def test_a_seed_that_is_forwarded_is_told_from_one_that_is_not(check):
    checked = check("""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(ctx / "prompt.md").close()
                return Rollout(task.id, output=random.Random(seed).random(), cost_usd=0.0)
    """)
    assert checked.ok
    assert "the seed is forwarded" in _notes(checked)
    assert not any(finding.warning for finding in checked.findings)


def test_a_random_target_that_never_looks_at_its_seed_is_a_problem(check):
    checked = check("""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(ctx / "prompt.md").close()
                return Rollout(task.id, output=os.urandom(8).hex())
    """)
    [problem] = _problems(checked)
    assert "never looks at `seed`" in problem


def test_a_random_target_that_looks_at_its_seed_is_a_warning_not_a_problem(check):
    checked = check("""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(ctx / "prompt.md").close()
                return Rollout(task.id, output=[seed, os.urandom(8).hex()])
    """)
    assert checked.ok
    assert "trials cannot be repeated" in "\n".join(f.what for f in checked.findings if f.warning)


def test_a_scorer_that_is_random_is_a_problem(check):
    checked = check("""
        class Adapter(Plain):
            def score(self, task, rollout):
                return Score(task.id, reward=random.random())
    """)
    [problem] = _problems(checked)
    assert "the scorer gave the same rollout" in problem


@pytest.mark.parametrize(
    "use",
    [
        "(ctx / 'prompt.md').read_text()",
        "os.close(os.open(ctx / 'prompt.md', os.O_RDONLY))",
        "os.chdir(ctx); open('prompt.md').close()",
        "open(os.fsencode(ctx / 'prompt.md')).close()",
        "subprocess.run(['cat', ctx / 'prompt.md'], capture_output=True)",
        "subprocess.run(['cat', 'prompt.md'], cwd=ctx, capture_output=True)",
        "subprocess.run(['true'], env={'SKILL': str(ctx)})",
        "os.system(f'cat {ctx}/prompt.md > /dev/null')",
        "os.system(os.fsencode(f'cat {ctx}/prompt.md > /dev/null'))",
    ],
)
def test_every_way_to_use_the_candidate_counts(check, use):
    checked = check(
        f"""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                {use}
                return Rollout(task.id, output=1)
    """,
        folder="canď idate",
    )
    assert _problems(checked) == []


def test_a_candidate_used_while_it_is_made_live_counts(check):
    checked = check("""
        class Adapter(Plain):
            def live(self, candidate_dir):
                return (candidate_dir / "prompt.md").read_text()
            async def run_target(self, task, ctx, *, seed):
                return Rollout(task.id, output=ctx)
    """)
    assert checked.ok
    assert "the candidate reaches the target" in _notes(checked)


@pytest.mark.parametrize(
    "use",
    [
        "pass",
        "os.listdir(ctx.parent)",
        "open(str(ctx) + '-old/prompt.md').close()",
        "subprocess.run(['true', 'candidate'])",
    ],
)
def test_a_candidate_that_nobody_opens_is_a_problem(check, tmp_path, use):
    (tmp_path / "candidate-old").mkdir()
    (tmp_path / "candidate-old" / "prompt.md").write_text("")
    checked = check(f"""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                {use}
                return Rollout(task.id, output=1)
    """)
    [problem] = _problems(checked)
    assert problem.startswith("no file of the candidate was opened")


def test_a_candidate_reached_by_its_real_path_counts(check, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    checked = check(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(ctx.resolve() / "prompt.md").close()
                return Rollout(task.id, output=1)
    """,
        folder="link/candidate",
    )
    assert checked.ok


@pytest.mark.parametrize(
    ("source", "words", "fix"),
    [
        (
            "def run_target(self, task, ctx, *, seed): raise ConnectionError('refused')",
            "infra.*refused",
            "AgentFailure",
        ),
        ("def run_target(self, task, ctx, *, seed): time.sleep(30)", "timeout", "timeout_s"),
        (
            "def run_target(self, task, ctx, *, seed): print('last words'); os._exit(3)",
            "crash.*code 3",
            "printed",
        ),
        ("def score(self, task, rollout): raise KeyError('gold')", "scorer_error.*gold", "score"),
        (
            "def score(self, task, rollout): return Score(task.id, reward=2)",
            "invalid_score.*2",
            "from 0 to 1",
        ),
        ("def score(self, task, rollout): return None", "invalid_score|scorer_error", ""),
    ],
)
def test_a_trial_that_cannot_be_measured_is_one_problem_with_its_fix(check, source, words, fix):
    checked = check(f"class Adapter(Plain):\n    {source}\n", timeout_s=0.5)
    [finding] = checked.findings
    assert not checked.ok
    import re

    assert re.search(words, finding.what, re.DOTALL)
    assert fix in (finding.fix or "")


def test_an_agent_failure_is_a_score_of_0_and_no_problem_of_the_adapter(check):
    checked = check("""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(ctx / "prompt.md").close()
                raise AgentFailure("gave up")
    """)
    assert "rewards 0.000, 0.000, 0.000" in _notes(checked)


def test_an_adapter_that_cannot_be_loaded_is_an_error(check):
    with pytest.raises(AdapterError, match="nonsense"):
        check("import nonsense_that_is_not_there\nclass Adapter(Plain): pass")


def test_metadata_too_large_to_be_kept_is_no_proof_of_anything(check):
    checked = check("""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(ctx / "prompt.md").close()
                return Rollout(task.id, output=1, metadata={"log": "x" * 3_000_000})
    """)
    assert checked.ok
    assert "cannot be watched" in "\n".join(f.what for f in checked.findings if f.warning)


def _reply(
    output, *, outcome: Outcome | None = None, used=True, rewards=("0.5", "0.5"), reads=True, cost=None
):
    seen = {"used": used, "rewards": list(rewards), "reads_seed": reads}
    payload = json.dumps({"output": output, "metadata": {KEY: seen}})
    return TrialReply(0, outcome or Scored(0.5), "", (), payload, cost, None, 0.0)


@pytest.mark.parametrize(
    ("outputs", "reads", "words", "kind"),
    [
        ((1, 1, 1), True, "looks deterministic", "note"),
        ((1, 1, 2), True, "the seed is forwarded", "note"),
        ((1, 2, 3), True, "cannot be repeated", "warning"),
        ((1, 2, 1), True, "cannot be repeated", "warning"),
        ((1, 2, 3), False, "never looks at `seed`", "problem"),
        (({"a": 1, "b": 2}, {"b": 2, "a": 1}, 3), True, "the seed is forwarded", "note"),
        ((None, None, None), True, "looks deterministic", "note"),
    ],
)
def test_what_three_outputs_say_of_the_seed(outputs, reads, words, kind):
    findings = judge_replies("t", [_reply(output, reads=reads) for output in outputs])
    [finding] = [f for f in findings if words in f.what]
    assert kind == ("problem" if finding.fix else "warning" if finding.warning else "note")


def test_a_scorer_is_random_when_any_of_the_replies_shows_it():
    replies = [_reply(1), _reply(1), _reply(1, rewards=("0.5", "0.25"))]
    [finding] = [f for f in judge_replies("t", replies) if f.fix]
    assert finding.what == "the scorer gave the same rollout 0.5 and 0.25"


def test_the_first_failure_is_all_that_is_judged():
    replies = [_reply(1), _reply(1, outcome=Unmeasured(Reason.INFRA, "refused"))]
    [finding] = judge_replies("t", replies)
    assert "could not be measured (infra): refused" in finding.what


def test_a_cost_that_is_reported_once_is_no_warning():
    replies = [_reply(1, cost=0.0), _reply(1), _reply(1)]
    assert not any(f.warning for f in judge_replies("t", replies))
    assert any(f.warning for f in judge_replies("t", [_reply(1)] * 3))


def test_a_check_is_good_without_problems_whatever_its_warnings():
    assert AdapterCheck((Finding("a"), Finding("b", warning=True))).ok
    assert not AdapterCheck((Finding("a"), Finding("b", "mend it"))).ok
