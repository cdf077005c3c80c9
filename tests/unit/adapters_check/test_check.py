"""What a few real calls prove of an adapter, and that what they cannot prove is said as such."""

from __future__ import annotations

import asyncio
import re
import textwrap

import pytest

from capevolve.adapters.check import AdapterCheck, CallCount, check_adapter
from capevolve.adapters.findings import Finding, Level
from capevolve.adapters.records import AdapterRef, ListedTask
from capevolve.canonical import canonical_json, digest
from capevolve.errors import AdapterError

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
ASKED = {**CONTENT, "target": "Bordeaux"}
BORDEAUX = ListedTask("t", digest(ASKED), canonical_json(ASKED), None)


@pytest.fixture
def check(tmp_path):
    def go(source: str, timeout_s: float = 20.0, folder: str = "candidate", **options) -> AdapterCheck:
        (tmp_path / "adapter.py").write_text(HEAD + textwrap.dedent(source))
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "prompt.md").write_text("hello")
        ref = AdapterRef(tmp_path, "adapter.py:Adapter")
        return asyncio.run(
            check_adapter(ref, place, options.pop("task", TASK), seed=5, timeout_s=timeout_s, **options)
        )

    return go


def _said(checked: AdapterCheck, *levels: Level) -> list[str]:
    return [finding.what for finding in checked.findings if finding.level in levels]


def _problems(checked: AdapterCheck) -> list[str]:
    return _said(checked, Level.PROBLEM)


def _warnings(checked: AdapterCheck) -> list[str]:
    return _said(checked, Level.WARNING)


def _notes(checked: AdapterCheck) -> str:
    return "\n".join(_said(checked, Level.PROOF, Level.NOTE, Level.WARNING))


def test_an_adapter_that_works_is_told_so(check):
    checked = check("class Adapter(Plain): pass", deterministic=True)
    assert checked.ok
    assert _problems(checked) == []
    notes = _notes(checked)
    assert "task 't' ran 3 times: rewards 0.500, 0.500, 0.500" in notes
    assert (
        "the candidate reaches the target: with its texts emptied the same seed gave another output" in notes
    )
    assert "the scorer is deterministic" in notes
    assert "deterministic, as declared" in notes
    assert _warnings(checked) == ["the target reports no cost: a cap on money cannot hold"]
    assert all(finding.fix for finding in checked.findings if finding.level is Level.WARNING)
    assert checked.calls == CallCount(target=4, scorer=9, cost_usd=None, tokens=None)


def test_a_seed_that_is_forwarded_is_told_from_one_that_is_not(check):
    checked = check("""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                text = (ctx / "prompt.md").read_text()
                return Rollout(task.id, output=f"{random.Random(seed).random()}{text}", cost_usd=0.25, tokens=3)
    """)
    assert checked.ok
    assert "the seed is forwarded" in _notes(checked)
    assert _warnings(checked) == []
    assert checked.calls == CallCount(target=4, scorer=9, cost_usd=1.0, tokens=12)


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
    assert "a trial cannot be repeated exactly" in "\n".join(_warnings(checked))


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
        editable=[],
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
    checked = check(
        f"""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                {use}
                return Rollout(task.id, output=1)
    """,
        editable=[],
    )
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


def test_a_check_is_good_without_problems_whatever_its_warnings():
    calls = CallCount(3, 3, None, None)
    assert AdapterCheck((Finding("a"), Finding("b", Level.WARNING, "look")), calls).ok
    assert not AdapterCheck((Finding("a"), Finding("b", Level.PROBLEM, "mend it")), calls).ok


@pytest.mark.parametrize(
    ("output", "words"),
    [("seed", "two seeds gave different outputs"), ("os.urandom(8).hex()", "the same seed gave two")],
)
def test_a_target_declared_deterministic_is_held_to_it(check, output, words):
    checked = check(
        f"""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                open(ctx / "prompt.md").close()
                return Rollout(task.id, output=[seed * 0, {output}])
    """,
        deterministic=True,
    )
    [problem] = _problems(checked)
    assert "declared deterministic" in problem
    assert words in problem


def test_two_seeds_with_one_output_and_nothing_declared_is_a_doubt(check):
    [doubt] = [words for words in _warnings(check("class Adapter(Plain): pass")) if "two seeds" in words]
    assert "run_target never looks at `seed`" in doubt


def test_texts_that_decide_nothing_are_a_doubt_and_not_a_proof(check):
    checked = check("""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                return Rollout(task.id, output=str(len(ctx.name)), trace=(ctx / "prompt.md").exists())
            def live(self, candidate_dir):
                (candidate_dir / "prompt.md").read_text()
                return candidate_dir
    """)
    assert any("not proved to reach the agent" in words for words in _warnings(checked))
    assert "the candidate reaches" not in _notes(checked)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if not text: raise ValueError('empty prompt')", "the trial failed (ValueError: empty prompt)"),
        ("if not text: raise AgentFailure('no prompt')", "the same seed gave another output"),
        ("return Rollout(task.id, output='x', metadata={'length': len(text)})", "another metadata.length"),
        ("return Rollout(task.id, output='x', trace=[text])", "another trace"),
    ],
)
def test_emptied_texts_show_in_the_failure_the_trace_or_the_metadata(check, body, words):
    checked = check(f"""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                text = (ctx / "prompt.md").read_text()
                {body}
                return Rollout(task.id, output='x')
    """)
    assert words in _notes(checked)
    assert _problems(checked) == []


def test_a_candidate_that_is_refused_when_emptied_costs_no_call(check):
    checked = check("""
        class Adapter(Plain):
            def live(self, candidate_dir):
                assert (candidate_dir / "prompt.md").read_text(), "an empty prompt"
                return candidate_dir
    """)
    assert "with its texts emptied it is refused" in _notes(checked)
    assert checked.calls.target == 3


READ_ELSEWHERE = """
class Adapter(Plain):
    def live(self, candidate_dir):
        # As a server would that was told the folder: not through this process's open().
        import ctypes
        libc = ctypes.CDLL(None)
        file = libc.open(os.fsencode(candidate_dir / "prompt.md"), os.O_RDONLY)
        text = os.read(file, 1000).decode()
        os.close(file)
        return text
    def run_target(self, task, ctx, *, seed):
        return Rollout(task.id, output=OUTPUT)
"""


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("ctx", "with its texts emptied the same seed gave another output"),
        ("ctx + os.urandom(4).hex() + str(seed)", "a mark put into its texts came back in the rollout"),
    ],
)
def test_a_candidate_that_another_process_reads_is_recognised_by_what_changes(check, output, words):
    checked = check(READ_ELSEWHERE.replace("OUTPUT", output))
    assert words in _notes(checked)
    assert _problems(checked) == []


def test_a_random_target_that_shows_no_mark_and_opens_nothing_is_a_problem(check):
    checked = check(READ_ELSEWHERE.replace("OUTPUT", "os.urandom(4).hex() + str(seed)"))
    [problem] = _problems(checked)
    assert "a mark put into its texts came back nowhere" in problem


def test_the_candidate_itself_is_never_altered(check, tmp_path):
    check("class Adapter(Plain): pass")
    assert (tmp_path / "candidate" / "prompt.md").read_text() == "hello"


def test_only_files_that_a_proposal_may_touch_are_emptied(check, tmp_path):
    (tmp_path / "candidate").mkdir()
    (tmp_path / "candidate" / "fixed.md").write_text("fixed")
    source = """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                (ctx / "prompt.md").read_text()
                return Rollout(task.id, output=(ctx / "fixed.md").read_text())
    """
    assert "the candidate reaches" in _notes(check(source))
    assert "not proved to reach the agent" in _notes(check(source, editable=["prompt.md"]))
    assert "is not proved" in _notes(check(source, editable=[]))


def test_an_empty_answer_that_cannot_be_scored_is_a_doubt(check):
    checked = check("""
        class Adapter(Plain):
            def score(self, task, rollout):
                return Score(task.id, reward=1.0 if rollout.output[0] == "h" else 0.0)
    """)
    [words] = [words for words in _warnings(checked) if "empty answer" in words]
    assert "IndexError" in words


def test_a_target_told_in_feedback_and_shown_in_the_trace_is_two_doubts(check):
    checked = check(
        """
        class Adapter(Plain):
            def tasks(self, split):
                return [Task(id="t", input=1, target="Bordeaux")]
            def run_target(self, task, ctx, *, seed):
                text = (ctx / "prompt.md").read_text()
                return Rollout(task.id, output=text, trace=[f"the answer is {task.target}"])
            def score(self, task, rollout):
                right = rollout.output == task.target
                return Score(task.id, float(right), "" if right else f"expected {task.target.upper()}")
    """,
        task=BORDEAUX,
    )
    doubts = [words for words in _warnings(checked) if "bordeaux" in words]
    assert [words.split(" holds")[0].split(" tells")[0] for words in doubts] == [
        "the feedback on a wrong answer",
        "the trace",
    ]
    assert "the task's target, given as the answer, scores 1" in _notes(checked)


def test_a_scorer_that_rewards_anything_is_a_doubt(check):
    checked = check("""
        class Adapter(Plain):
            def score(self, task, rollout):
                return Score(task.id, reward=1.0)
    """)
    assert [words for words in _warnings(checked) if "scores 1" in words] == [
        "an empty answer scores 1",
        "a meaningless answer scores 1",
    ]
    assert "every reward was 1" in _notes(checked)


HOOKS = {
    "run_batch": "return {task.id: Rollout(task.id, output=(ctx / 'prompt.md').read_text()) for task in tasks}",
    "run_trials": "return {t.id: [Rollout(t.id, output=(ctx / 'prompt.md').read_text())] for t in tasks}",
}


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("hook", list(HOOKS))
def test_an_adapter_whose_trials_a_batch_hook_runs_is_checked_by_its_hook(check, hook, kind):
    extra = "seed" if hook == "run_batch" else "n_trials, base_seed"
    checked = check(
        f"""
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                raise NotImplementedError
            {kind} {hook}(self, tasks, ctx, *, {extra}):
                {HOOKS[hook]}
        """
    )
    assert _problems(checked) == []
    assert checked.calls.target == 4


def test_a_batch_hook_that_leaves_its_task_out_is_a_problem(check):
    checked = check(
        """
        class Adapter(Plain):
            def run_batch(self, tasks, ctx, *, seed):
                return {}
        """
    )
    assert any("run_batch returned not one rollout of task 't'" in problem for problem in _problems(checked))


def test_the_limit_on_memory_holds_in_a_check_too(check):
    checked = check(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                return Rollout(task.id, output=str(len(bytearray(2_000_000_000))))
        """,
        memory_mb=1000,
    )
    assert any("over the memory limit of 1000 MB" in problem for problem in _problems(checked))
