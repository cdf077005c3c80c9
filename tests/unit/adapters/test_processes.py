from __future__ import annotations

import os
import subprocess
import sys
import uuid

from capevolve.adapters.guard import HOST_VARIABLE
from capevolve.adapters.hostprocess import describe_end
from capevolve.adapters.processes import dismiss_guard, kill_tree, reap, start_guard, sweep


def _start(marker: str, *command: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, HOST_VARIABLE: marker}
    return subprocess.Popen(command, env=environment, start_new_session=True)


def _numbers(processes) -> set[str]:
    return {process.cmdline()[1] for process in processes if process.name() == "sleep"}


def test_a_tree_dies_with_its_orphans_and_its_daemons_and_nobody_else(project, living) -> None:
    marker = uuid.uuid4().hex
    script = "sleep 651 & setsid sleep 652 & (setsid sh -c 'sleep 653 & sleep 654' &); sleep 655"
    tree = _start(f"{marker}.1.", "sh", "-c", script)
    other = _start(f"{marker}.11.", "sleep", "656")
    project.wait_for(lambda: _numbers(living()) == {"651", "652", "653", "654", "655", "656"})
    kill_tree(tree.pid, f"{marker}.1.")
    reap(tree, 5)
    assert tree.returncode == -9  # nobody else has reaped it
    assert [process.pid for process in living()] == [other.pid]
    assert sweep(marker) == 1
    reap(other, 5)


def test_a_child_without_the_mark_in_a_session_of_its_own_dies_with_its_parent(project, living) -> None:
    marker = uuid.uuid4().hex
    tree = _start(f"{marker}.1.", "sh", "-c", f"setsid env -u {HOST_VARIABLE} sleep 661 & sleep 662; true")
    project.wait_for(lambda: _numbers(living()) == {"661", "662"})
    kill_tree(tree.pid, f"{marker}.1.")
    reap(tree, 5)
    project.wait_for(lambda: not living())


def test_what_a_dead_leader_left_in_its_group_dies(project, living) -> None:
    marker = uuid.uuid4().hex
    leader = _start(f"{marker}.1.", "sh", "-c", f"env -u {HOST_VARIABLE} sleep 657 & exit 0")
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    project.wait_for(lambda: len(living()) == 1)
    kill_tree(leader.pid, f"{marker}.1.")
    reap(leader, 5)
    project.wait_for(lambda: not living())


def test_a_guard_that_is_dismissed_kills_nobody(project, living) -> None:
    marker = uuid.uuid4().hex
    bystander = _start(f"{marker}.1.", "sleep", "658")
    guard, pipe = start_guard(marker)
    dismiss_guard(guard, pipe)
    assert guard.returncode == 0
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_guard_whose_driver_is_gone_kills_everything_marked(project, living) -> None:
    marker = uuid.uuid4().hex
    victim = _start(f"{marker}.1.", "sleep", "659")
    guard, pipe = start_guard(marker)
    os.close(pipe)  # what the kernel does when the driver dies
    assert guard.wait(10) == 0
    assert victim.wait(10) == -9


def test_a_guard_notices_the_death_of_a_driver_whose_pipe_a_fork_keeps_open(project, living) -> None:
    source = (
        "import os, sys, time\n"
        "from capevolve.adapters.processes import start_guard\n"
        "guard, pipe = start_guard(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    open('forked', 'w').close(); time.sleep(20); os._exit(0)\n"
        "time.sleep(20)\n"
    )
    marker = uuid.uuid4().hex
    victim = _start(f"{marker}.1.", "sleep", "660")
    driver = subprocess.Popen(
        [sys.executable, "-c", source, marker], cwd=project.root, start_new_session=True
    )
    project.wait_for(lambda: (project.root / "forked").exists())
    driver.kill()
    driver.wait()
    assert victim.wait(10) == -9
    os.killpg(driver.pid, 9)
    project.wait_for(lambda: not living())


def test_an_end_is_described_by_its_code_or_its_signal() -> None:
    assert describe_end(0) == "exited with code 0"
    assert describe_end(3) == "exited with code 3"
    assert describe_end(-6) == "killed by SIGABRT"
    assert describe_end(-9) == "killed by SIGKILL"
    assert describe_end(-250) == "killed by signal 250"
