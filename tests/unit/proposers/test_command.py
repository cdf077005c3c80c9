"""Any program as a proposer: what it is told, what is read from it, and that it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from capevolve.errors import UserError
from capevolve.proposers import command as module
from capevolve.proposers.command import CommandProposer, resolve_argv
from capevolve.proposers.draft import Draft


def _gone(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_program_edits_the_copy_and_says_what_it_did_and_what_it_cost(desk):
    draft = desk.edit("""
        open("prompt.md", "a").write("MARK\\n")
        note = {"summary": "add the mark", "cost_usd": 0.25, "tokens": 9, "anything": "else"}
        json.dump(note, open(os.environ["CAPEVOLVE_PROPOSAL"], "w"))
        print("thinking")
    """)
    assert draft == Draft("add the mark", None, False, 0.25, 9, "thinking")
    assert (desk.folder / "prompt.md").read_text() == "hello\nMARK\n"
    assert [path.name for path in desk.folder.iterdir()] == ["prompt.md"]


def test_a_program_that_says_nothing_has_an_unknown_cost_not_0(desk):
    assert desk.edit("pass") == Draft()


def test_a_program_finds_what_it_needs_in_its_environment(desk):
    desk.edit(
        """
        brief = json.load(open(os.environ["CAPEVOLVE_BRIEF"]))
        seen = {k: os.environ[k] for k in os.environ if k.startswith("CAPEVOLVE_")}
        seen.update(cwd=os.getcwd(), mine=os.environ["MINE"], schema=brief["schema"], stdin=sys.stdin.read())
        json.dump(seen, open(os.environ["CAPEVOLVE_PROJECT"] + "/seen.json", "w"))
        """,
        env={"MINE": "x", "CAPEVOLVE_SEED": "overridden"},
    )
    seen = json.loads((desk.project / "seen.json").read_text())
    assert seen["CAPEVOLVE_CANDIDATE"] == seen["cwd"] == str(desk.folder)
    assert seen["CAPEVOLVE_PROJECT"] == str(desk.project)
    assert (seen["CAPEVOLVE_ITERATION"], seen["CAPEVOLVE_SEED"]) == ("1", "7")
    assert (seen["mine"], seen["schema"], seen["stdin"]) == ("x", 1, "")
    for name in ("CAPEVOLVE_BRIEF", "CAPEVOLVE_PROPOSAL"):
        assert not Path(seen[name]).is_relative_to(desk.folder)


def test_an_exit_code_is_a_failure_that_keeps_the_cost_and_the_end_of_the_output(desk):
    draft = desk.edit("""
        json.dump({"cost_usd": 0.5}, open(os.environ["CAPEVOLVE_PROPOSAL"], "w"))
        print("x" * 100_000, flush=True)
        sys.stderr.write("the real reason\\n")
        sys.exit(3)
    """)
    assert draft.failure == "the program ended with exit code 3"
    assert draft.cost_usd == 0.5
    assert draft.output.endswith("the real reason")
    assert len(draft.output) <= module.TAIL_BYTES


def test_a_program_killed_by_a_signal_says_so(desk):
    draft = desk.edit("os.kill(os.getpid(), 9)")
    assert draft.failure == "the program was killed by SIGKILL"


def test_a_flood_of_output_is_no_burden(desk):
    draft = desk.edit("""
        block = "y" * 1_000_000
        for _ in range(30): print(block)
    """)
    assert draft.failure is None
    assert len(draft.output) <= module.TAIL_BYTES


def test_output_in_no_encoding_is_shown_as_far_as_it_can_be(desk):
    assert desk.edit('os.write(1, b"caf\\xe9 \\xff")').output == "caf\ufffd \ufffd"


def test_a_program_that_does_not_end_is_killed_with_everything_it_started(desk):
    draft = desk.edit(
        """
        import subprocess
        nap = "import time; time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", nap])
        apart = subprocess.Popen([sys.executable, "-c", nap], start_new_session=True)
        open(os.environ["CAPEVOLVE_PROJECT"] + "/pids", "w").write(f"{os.getpid()} {child.pid} {apart.pid}")
        json.dump({"cost_usd": 0.5}, open(os.environ["CAPEVOLVE_PROPOSAL"], "w"))
        time.sleep(60)
        """,
        timeout_s=1.0,
    )
    assert draft.failure == "the program did not end within 1 s"
    assert draft.cost_usd == 0.5
    for pid in (desk.project / "pids").read_text().split():
        assert _gone(int(pid))


# Who leaves both its session and its environment behind cannot be told from a stranger.
@pytest.mark.parametrize(
    ("session", "environment"), [(True, "dict(os.environ)"), (False, "dict(os.environ)"), (False, "{}")]
)
def test_what_a_program_leaves_running_is_dead_before_its_files_are_read(desk, session, environment):
    started = time.monotonic()
    draft = desk.edit(f"""
        import subprocess
        code = "import time\\nwhile True: open('prompt.md', 'a').write('late'); time.sleep(0.01)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session={session}, env={environment})
        open(os.environ["CAPEVOLVE_PROJECT"] + "/pid", "w").write(str(child.pid))
    """)
    assert draft.failure is None
    size = (desk.folder / "prompt.md").stat().st_size
    assert _gone(int((desk.project / "pid").read_text()), 0.0) or _gone(
        int((desk.project / "pid").read_text()), 0.2
    )
    time.sleep(0.05)
    assert (desk.folder / "prompt.md").stat().st_size == size
    assert time.monotonic() - started < 10


def test_a_cancelled_call_leaves_nothing_running(desk):
    proposer = desk.proposer("""
        open(os.environ["CAPEVOLVE_PROJECT"] + "/pid", "w").write(str(os.getpid()))
        time.sleep(60)
    """)

    async def go(brief):
        task = asyncio.ensure_future(proposer.edit(desk.folder, brief, seed=1))
        pid = desk.project / "pid"
        while not pid.exists() or not pid.read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    from capevolve.proposers.brief import Brief, BriefCandidate, BriefScore

    brief = Brief(
        run="r", iteration=1, remaining_iterations=0, last=True,
        candidate=BriefCandidate(id="c", files=[]), train=BriefScore(), tasks=[], history=[],
    )  # fmt: skip
    asyncio.run(go(brief))
    assert _gone(int((desk.project / "pid").read_text()))


def test_a_driver_that_is_killed_takes_the_program_along(desk):
    desk.proposer("""
        open(os.environ["CAPEVOLVE_PROJECT"] + "/pid", "w").write(str(os.getpid()))
        time.sleep(60)
    """)
    code = """
import asyncio, sys
from pathlib import Path
from capevolve.proposers.brief import Brief, BriefCandidate, BriefScore
from capevolve.proposers.command import CommandProposer
project, folder = Path(sys.argv[1]), Path(sys.argv[2])
brief = Brief(run="r", iteration=1, remaining_iterations=0, last=True,
              candidate=BriefCandidate(id="c", files=[]), train=BriefScore(), tasks=[], history=[])
proposer = CommandProposer(("python", "{project}/propose.py"), project, 60.0, {})
asyncio.run(proposer.edit(folder, brief, seed=1))
"""
    driver = subprocess.Popen([sys.executable, "-c", code, str(desk.project), str(desk.folder)])
    pid_file = desk.project / "pid"
    end = time.monotonic() + 20
    while (not pid_file.exists() or not pid_file.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    pid = int(pid_file.read_text())
    assert psutil.pid_exists(pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert _gone(pid)


@pytest.mark.parametrize(
    "note",
    [
        'open(note, "w").write("not json")',
        'open(note, "w").write("[]")',
        'open(note, "wb").write(b"\\xff")',
        'open(note, "w").write("[" * 100000)',
        'json.dump({"summary": 5}, open(note, "w"))',
        'json.dump({"cost_usd": float("nan")}, open(note, "w"))',
        'json.dump({"cost_usd": float("inf")}, open(note, "w"))',
        'json.dump({"cost_usd": -1}, open(note, "w"))',
        'json.dump({"tokens": 1.5}, open(note, "w"))',
        'json.dump({"tokens": 10**30}, open(note, "w"))',
        "os.mkdir(note)",
        "os.mkfifo(note)",
        'os.symlink("/dev/zero", note)',
        'os.symlink("/etc/hostname", note)',
        'open(note, "w").write(" " * 2_000_000)',
    ],
)
def test_a_note_that_cannot_be_used_costs_the_iteration_and_not_the_run(desk, note):
    draft = desk.edit(f'note = os.environ["CAPEVOLVE_PROPOSAL"]\n{note}\n')
    assert draft.failure is not None
    assert "note" in draft.failure
    assert len(draft.failure) < 400
    assert (draft.summary, draft.cost_usd, draft.tokens) == ("", None, None)


def test_a_program_that_deletes_everything_around_it_costs_the_iteration_and_not_the_run(desk):
    draft = desk.edit("""
        import shutil
        print("bye", flush=True)
        shutil.rmtree(os.path.dirname(os.environ["CAPEVOLVE_BRIEF"]))
    """)
    assert (draft.failure, draft.output) == (None, "bye")


def test_a_program_is_found_on_the_path_and_in_the_project(desk, python):
    script = desk.project / "tools" / "run.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert resolve_argv(("tools/run.sh", "a b"), desk.project) == [str(script), "a b"]
    assert resolve_argv(("run.sh",), script.parent) == [str(script)]
    assert resolve_argv(("python", "{project}/x"), desk.project) == [python, f"{desk.project}/x"]
    assert resolve_argv(("python3",), desk.project) == [python]
    assert resolve_argv((str(script),), desk.project) == [str(script)]
    assert Path(resolve_argv(("sh",), desk.project)[0]).is_absolute()


@pytest.mark.parametrize(
    "name", ["no-such-program", "/no/such/program", "./propose.sh", "notes.txt", "tools"]
)
def test_a_program_that_is_missing_or_cannot_be_run_is_found_out_before_anything_is_spent(desk, name, brief):
    (desk.project / "notes.txt").write_text("not a program")
    (desk.project / "tools").mkdir()
    proposer = CommandProposer((name,), desk.project, 5.0, {})
    with pytest.raises(UserError, match=r"program .* cannot be (found|run)"):
        proposer.check()
    with pytest.raises(UserError):
        asyncio.run(proposer.edit(desk.folder, brief(), seed=1))


def test_a_program_that_the_system_cannot_start_is_an_error_of_the_user(desk, brief):
    path = desk.project / "propose"
    path.write_bytes(b"\x7fELF but not really")
    path.chmod(0o755)
    proposer = CommandProposer(("./propose",), desk.project, 5.0, {})
    with pytest.raises(UserError, match="cannot be started"):
        asyncio.run(proposer.edit(desk.folder, brief(), seed=1))


def test_a_program_needs_evidence_and_its_check_spends_nothing(desk):
    proposer = desk.proposer('open(os.environ["CAPEVOLVE_PROJECT"] + "/ran", "w")')
    assert proposer.needs_evidence
    proposer.check()
    assert not os.path.exists(desk.project / "ran")
