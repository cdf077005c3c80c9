"""A program as the target: what it reads, what its end means, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import replace

import pytest

from capevolve.adapters.ready.program import run_program
from capevolve.adapters.records import Refusal
from capevolve.errors import AdapterError
from capevolve.model import Reason, Scored, Task, Unmeasured, task_seed

ECHO = "import sys; sys.stdout.write(sys.stdin.read())"


def payload(reply):
    return json.loads(reply.payload)


def test_the_program_reads_the_task_without_its_target_and_the_seed(ready):
    (ready.candidate / "word").write_text("x")
    source = (
        "import json, os, sys\n"
        "line = sys.stdin.read()\n"
        "names = ('CAPEVOLVE_SEED', 'CAPEVOLVE_CANDIDATE', 'CAPEVOLVE_PROJECT', 'MODE')\n"
        "print(json.dumps({'line': line, **{name: os.environ[name] for name in names}, 'cwd': os.getcwd(),\n"
        "                  'argv': sys.argv[1:]}))\n"
    )
    ref = ready.command(
        source,
        "{candidate}/word",
        "{project}",
        env={"MODE": "slow"},
        tasks={"file": "tasks.jsonl", "metadata": ["family"]},
    )
    seen = json.loads(payload(ready.run(ref, [2])[2])["output"])
    assert json.loads(seen["line"]) == {
        "id": "t2",
        "input": "word 2",
        "metadata": {"family": "f"},
        "seed": task_seed(Task("t2"), 9),
    }
    assert seen["line"].endswith("}\n")
    assert (seen["CAPEVOLVE_SEED"], seen["MODE"]) == (str(task_seed(Task("t2"), 9)), "slow")
    assert seen["CAPEVOLVE_CANDIDATE"] == str(ready.candidate)
    assert seen["CAPEVOLVE_PROJECT"] == seen["cwd"] == str(ready.root)
    assert seen["argv"] == [str(ready.candidate / "word"), str(ready.root)]


def test_the_answer_is_stripped_standard_output_and_scored(ready):
    ref = ready.command("import json, sys; print('\\n ', json.load(sys.stdin)['input'].split()[1], '  ')")
    replies = ready.run(ref, [0, 1, 2], slots=3)
    assert [payload(replies[n])["output"] for n in range(3)] == ["0", "1", "2"]
    assert all(reply.outcome == Scored(1.0) for reply in replies.values())


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (10, Scored(0.0)),
        (1, Unmeasured(Reason.INFRA, "the command exited with code 1: no luck")),
        (9, Unmeasured(Reason.INFRA, "the command exited with code 9: no luck")),
    ],
)
def test_an_exit_code_of_10_is_the_agents_failure_and_every_other_missing_data(ready, code, outcome):
    reply = ready.run(
        ready.command(f"import sys; print('0'); sys.stderr.write('no luck'); sys.exit({code})")
    )[0]
    assert reply.outcome == outcome
    assert reply.feedback == ("no luck" if code == 10 else "")


def test_a_program_killed_by_a_signal_is_missing_data_by_its_name(ready):
    reply = ready.run(ready.command("import os; os.kill(os.getpid(), 9)"))[0]
    assert reply.outcome == Unmeasured(Reason.INFRA, "the command was killed by SIGKILL")


def test_a_value_of_its_env_is_not_repeated_in_an_error(ready):
    source = "import os, sys; sys.stderr.write('key ' + os.environ['KEY']); sys.exit(1)"
    reply = ready.run(ready.command(source, env={"KEY": "sk-very-secret"}))[0]
    assert reply.outcome.detail == "the command exited with code 1: key [KEY]"
    assert "sk-very-secret" not in reply.payload


def test_a_flood_of_output_is_cut_with_a_mark_and_its_size_is_kept(ready):
    source = (
        "import sys\n"
        "for _ in range(200): sys.stdout.write('x' * 100_000); sys.stderr.write('y' * 100_000)\n"
        "print(5)\n"
    )
    reply = payload(ready.run(ready.command(source), timeout_s=20.0)[0])
    assert reply["output"] == "x" * 200_000 + "\n[truncated by capevolve]"
    assert reply["metadata"]["output_bytes"] == 20_000_002


def test_a_long_standard_error_is_cut_to_its_end_with_a_mark(ready):
    source = "import sys; sys.stderr.write('y' * 30_000 + 'the end'); sys.exit(1)"
    words = ready.run(ready.command(source))[0].outcome.detail
    head, _, end = words.partition("\n")
    assert head == "the command exited with code 1: [truncated by capevolve: the end of 30007 bytes]"
    assert end.endswith("ythe end")
    assert len(end) == 2_000


def test_the_mark_of_a_cut_holds_no_number_that_could_be_scored(ready):
    ref = ready.command("print('7 ' + 'x' * 300_000)", scoring={"kind": "number"})
    assert "7" in payload(ready.run(ref)[0])["output"][:1]
    assert not any(char.isdigit() for char in payload(ready.run(ref)[0])["output"][1:])


def test_a_program_need_not_read_its_input(ready):
    ready.write("tasks.jsonl", json.dumps({"id": "t0", "input": "x" * 500_000, "target": "0"}) + "\n")
    assert ready.run(ready.command("print(0)"))[0].outcome == Scored(1.0)


HANGS = (
    "import subprocess, sys, time\n"
    "code = 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)'\n"
    "subprocess.Popen([sys.executable, '-c', code], start_new_session=True)\n"
    "subprocess.Popen([sys.executable, '-c', code])\n"
    "if sys.stdin.read().find('word 0') > 0: time.sleep(60)\n"
    "print(1)\n"
)


def test_a_hanging_program_ends_in_time_with_its_grandchildren_and_its_neighbours_go_on(ready, living):
    begun = time.monotonic()
    replies = ready.run(ready.command(HANGS), [0, 1, 2], slots=3, timeout_s=4.0, trials_per_host=3)
    assert time.monotonic() - begun < 12
    assert replies[0].outcome.reason == Reason.TIMEOUT
    assert (replies[1].outcome, replies[2].outcome) == (Scored(1.0), Scored(0.0))
    assert {reply.starts for reply in replies.values()} == {1}
    assert living() == []


def test_a_cancelled_program_leaves_nothing_although_its_host_lives_on(ready, living):
    async def go():
        ready.write("agent.py", HANGS)
        argv = [sys.executable, "agent.py"]
        running = asyncio.create_task(
            run_program(argv, cwd=ready.root, env=dict(os.environ), data=b"the word 0")
        )
        async with asyncio.timeout(20):
            while len(living()) < 3:
                await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert living() == []

    asyncio.run(go())


def test_a_background_process_that_holds_the_output_open_does_not_hold_the_trial(ready, living):
    source = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True); print(0)"
    begun = time.monotonic()
    assert ready.run(ready.command(source))[0].outcome == Scored(1.0)
    assert time.monotonic() - begun < 10


def test_many_programs_run_in_one_host_at_once(ready):
    ref = ready.command("import os, time; time.sleep(0.5); print(os.getppid())")
    replies = ready.run(ref, [0, 1, 2, 3], slots=4, trials_per_host=4)
    assert len({payload(reply)["output"] for reply in replies.values()}) == 1


def test_a_program_may_note_what_it_cost(ready):
    note = "import os; open(os.environ['CAPEVOLVE_USAGE'], 'w').write({!r}); print(0)"
    reply = ready.run(ready.command(note.format('{"cost_usd": 0.25, "tokens": 12}')))[0]
    assert (reply.cost_usd, reply.tokens) == (0.25, 12)
    reply = ready.run(ready.command(note.format("0.25 dollars")))[0]
    assert (reply.cost_usd, reply.tokens, reply.outcome) == (None, None, Scored(1.0))
    assert payload(reply)["metadata"] == {"usage_note": "is not JSON"}
    reply = ready.run(ready.command("print(0)"))[0]
    assert (reply.cost_usd, reply.tokens, payload(reply)["metadata"]) == (None, None, {})


def test_a_program_that_cannot_be_found_is_named_before_a_trial(ready):
    for name in ("no-such-program", "./no-such-program"):
        with pytest.raises(AdapterError, match="no-such-program"):
            ready.list(ready.ref({"kind": "command", "command": [name]}))


def test_a_program_of_the_candidate_runs_from_its_folder(ready):
    (ready.candidate / "agent.py").write_text("print(0)")
    ref = ready.ref({"kind": "command", "command": 'python "{candidate}/agent.py"'})
    assert ready.run(ref)[0].outcome == Scored(1.0)


def test_the_digest_covers_the_sections_the_scripts_and_what_they_import(ready):
    ready.write("helper.py", "x = 1\n")
    ref = ready.command("import helper\nprint(0)\n")
    facts = ready.list(ref).facts
    assert [name for name, _ in facts.files] == [
        "agent.py",
        "helper.py",
    ]
    digests = {facts.digest}
    ready.write("helper.py", "x = 2\n")
    digests.add(ready.list(ref).facts.digest)
    ready.write("agent.py", "import helper\nprint(1)\n")
    digests.add(ready.list(ref).facts.digest)
    for old, new in (('"ignore_case":false', '"ignore_case":true'), ('"env":{}', '"env":{"A":"b"}')):
        assert old in ref.ready
        digests.add(ready.list(replace(ref, ready=ref.ready.replace(old, new))).facts.digest)
    assert len(digests) == 5
    assert ready.list(ref).facts.digest == ready.list(ref).facts.digest


def test_a_module_named_by_m_is_covered_by_the_digest(ready):
    ready.write("tool/__init__.py", "")
    ready.write("tool/__main__.py", "print(0)\n")
    ref = ready.ref({"kind": "command", "command": ["python", "-m", "tool"]})
    assert {"tool/__init__.py", "tool/__main__.py"} <= {name for name, _ in ready.list(ref).facts.files}
    assert ready.run(ref)[0].outcome == Scored(1.0)


@pytest.mark.parametrize(
    ("note", "wait"),
    [
        ("", None),
        ('{"retry_after_s": 2.5, "tokens": 7}', 2.5),
        ('{"retry_after_s": "soon", "tokens": 7}', None),
    ],
)
def test_an_exit_code_of_75_asks_to_be_called_again_later(ready, note, wait):
    source = f"import os, sys; open(os.environ['CAPEVOLVE_USAGE'], 'w').write({note!r}); sys.exit(75)"
    reply = ready.run(ready.command(source))[0]
    assert reply.outcome == Unmeasured(Reason.INFRA, "the command exited with code 75")
    assert (reply.refusal, reply.tokens) == (Refusal(True, wait), 7 if note else None)
