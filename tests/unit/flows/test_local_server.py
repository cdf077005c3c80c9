"""The local server's life, with a tiny ASGI application in Prefect's place. No test here imports Prefect."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import capevolve_flows
from capevolve.errors import OutsideError, UserError
from capevolve_flows.local_server import (
    LocalServer,
    Stopped,
    child,
    find_kept_server,
    local_server,
    server,
    start_local_server,
    stop_kept_server,
    stop_local_server,
    use_configured_api,
)
from capevolve_flows.local_server import process as server_process
from capevolve_flows.local_server.app import drain_at_shutdown
from capevolve_flows.local_server.record import (
    RECORD_NAME,
    ProcessMark,
    ServerRecord,
    ServerUser,
    is_alive,
    locked,
    mark_process,
    read_record,
    take_lock,
    write_record,
)
from capevolve_flows.local_server.settings import client_settings, server_environment

FAKE = "fake_server:create_app"

FAKE_SOURCE = """
import asyncio, os, subprocess, sys, time

MODE = os.environ.get("FAKE_SERVER", "")

def create_app():
    if MODE == "crash":
        raise RuntimeError("the database is on fire")
    if MODE == "child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    if MODE == "slow":
        time.sleep(1)
    return app

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        if MODE == "hang":
            await asyncio.sleep(120)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if MODE == "stubborn":
            await asyncio.sleep(120)
        await send({"type": "lifespan.shutdown.complete"})
        return
    status = 200 if scope.get("path") == "/api/health" else 404
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"true"})
"""

OWNER_SOURCE = """
import sys, time
from pathlib import Path
from capevolve_flows.local_server import local_server
with local_server(Path(sys.argv[1]), app="fake_server:create_app") as it:
    print(it.pid, it.started_here, flush=True)
    time.sleep(float(sys.argv[2]))
"""

STARTER_SOURCE = """
import os, sys, time
from pathlib import Path
from capevolve_flows.local_server import start_local_server
print("ready", flush=True)
sys.stdin.readline()
starting = start_local_server(Path(sys.argv[1]), app="fake_server:create_app")
it = starting.wait()
print(it.pid, it.started_here, flush=True)
sys.stdin.readline()
starting.stop()
"""


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory; afterwards no process of its server may be left."""
    (tmp_path / "fake_server.py").write_text(FAKE_SOURCE)
    sources = str(Path(capevolve_flows.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), sources]))
    folder = tmp_path / "project with space" / ".capevolve"
    yield folder
    gone = wait_until(lambda: list_servers(folder) == [], 10)
    for process in list_servers(folder):
        process.kill()
    assert gone


def list_servers(folder: Path) -> list[psutil.Process]:
    """The living server processes of a state directory, found without the product."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if str(folder) in command and "-m" in command and process.info["status"] != "zombie":
            found.append(process)
    return found


def wait_until(condition: Callable[[], bool], timeout_s: float = 15.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def find_port(url: str) -> int:
    return int(url.removesuffix("/api").rpartition(":")[2])


def is_gone(pid: int) -> bool:
    return mark_process(pid) is None


@contextlib.contextmanager
def owner(folder: Path, stay_s: float = 60.0) -> Iterator[tuple[subprocess.Popen[str], int, bool]]:
    """Another process that uses the server: the process, the server's pid and whether it started it."""
    command = [sys.executable, "-c", OWNER_SOURCE, str(folder), str(stay_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            pid, started = process.stdout.readline().split()
            yield process, int(pid), started == "True"
        finally:
            process.kill()


def start(folder: Path, *, keep: bool = False) -> LocalServer:
    return start_local_server(folder, keep=keep, app=FAKE).wait(20)


def test_a_server_is_healthy_inside_the_block_and_gone_after_it(state_dir: Path):
    with local_server(state_dir, app=FAKE) as it:
        assert it.started_here
        assert it.home == state_dir.resolve() / "prefect"
        assert it.api_url == f"{it.ui_url}/api"
        assert child.answers(find_port(it.ui_url), timeout_s=2)
        assert [process.pid for process in list_servers(state_dir)] == [it.pid]
    assert is_gone(it.pid)
    assert read_record(state_dir) is None


def test_the_environment_is_known_before_the_server_answers(state_dir: Path, monkeypatch):
    monkeypatch.setenv("FAKE_SERVER", "slow")
    starting = start_local_server(state_dir, app=FAKE)
    environment = starting.environment()
    assert not child.answers(find_port(environment["PREFECT_API_URL"]), timeout_s=0.5)
    it = starting.wait(20)
    assert environment == it.environment()
    assert environment["PREFECT_API_URL"] == it.api_url
    starting.stop()


def test_nobody_can_take_the_port_while_the_process_starts(state_dir: Path, monkeypatch):
    monkeypatch.setenv("FAKE_SERVER", "slow")
    starting = start_local_server(state_dir, app=FAKE)
    port = find_port(starting.environment()["PREFECT_API_URL"])
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            thief.bind(("127.0.0.1", port))
    assert starting.wait(20).ui_url.endswith(str(port))
    starting.stop()


def test_an_exception_stops_the_server(state_dir: Path):
    with pytest.raises(ZeroDivisionError), local_server(state_dir, app=FAKE) as it:
        _ = 1 / 0
    assert is_gone(it.pid)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_to_the_owner_stops_the_whole_tree(state_dir: Path, monkeypatch, number, code):
    monkeypatch.setenv("FAKE_SERVER", "child")
    with owner(state_dir) as (process, pid, _):
        below = psutil.Process(pid).children()
        assert len(below) == 1
        process.send_signal(number)
        assert process.wait(10) == code
        # the explicit stop, not the watch a second or two later: it is gone once its owner is
        assert is_gone(pid)
        assert wait_until(lambda: is_gone(below[0].pid))


def test_a_program_that_handles_sigterm_itself_keeps_its_handler(state_dir: Path):
    def mine(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with local_server(state_dir, app=FAKE):
            assert signal.getsignal(signal.SIGTERM) is mine
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_server_ends_by_itself_when_its_owner_was_killed(state_dir: Path):
    with owner(state_dir) as (process, pid, _):
        process.kill()
        process.wait()
        assert wait_until(lambda: is_gone(pid), 10)


def test_the_next_start_after_a_kill_of_the_owner_has_one_server_and_stops_it(state_dir: Path):
    with owner(state_dir) as (process, pid, _):
        process.kill()
        process.wait()
        with local_server(state_dir, app=FAKE) as it:
            assert [found.pid for found in list_servers(state_dir)] == [it.pid]
            time.sleep(2.5)  # longer than the watch needs: a joined orphan has a user again
            assert child.answers(find_port(it.ui_url), timeout_s=2)
        assert is_gone(it.pid)
        assert is_gone(pid)


def test_the_last_user_stops_the_server_also_when_the_owner_left_first(state_dir: Path):
    first, second = start(state_dir), start(state_dir)
    assert (first.pid, first.started_here) == (second.pid, True)
    assert not second.started_here
    stop_local_server(first)
    stop_local_server(first)  # the second time does nothing
    assert not is_gone(second.pid)
    stop_local_server(second)
    assert is_gone(second.pid)


def test_a_live_owner_keeps_its_server_when_a_guest_leaves(state_dir: Path):
    with owner(state_dir) as (_, pid, _):
        with local_server(state_dir, app=FAKE) as it:
            assert (it.pid, it.started_here) == (pid, False)
        assert not is_gone(pid)
        assert len(list_servers(state_dir)) == 1


@pytest.mark.parametrize("attempt", range(3))
def test_starters_at_the_same_instant_share_one_server(state_dir: Path, attempt: int):
    command = [sys.executable, "-c", STARTER_SOURCE, str(state_dir)]
    with contextlib.ExitStack() as stack:
        starters = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            )
            for _ in range(3)
        ]

        def say(starter: subprocess.Popen[str]) -> None:
            assert starter.stdin is not None
            starter.stdin.write("go\n")

        def hear(starter: subprocess.Popen[str]) -> list[str]:
            assert starter.stdout is not None
            return starter.stdout.readline().split()

        assert [hear(starter) for starter in starters] == [["ready"]] * 3
        for starter in starters:
            say(starter)
        answers = [hear(starter) for starter in starters]
        assert len({pid for pid, _ in answers}) == 1
        assert sorted(started for _, started in answers) == ["False", "False", "True"]
        assert [process.pid for process in list_servers(state_dir)] == [int(answers[0][0])]
        for starter in starters:
            say(starter)
    assert is_gone(int(answers[0][0]))


def test_a_record_of_a_process_that_is_gone_is_cleaned(state_dir: Path):
    it = start(state_dir)
    psutil.Process(it.pid).kill()
    assert wait_until(lambda: is_gone(it.pid))
    with local_server(state_dir, app=FAKE) as again:
        assert again.started_here
        assert again.pid != it.pid


def test_a_process_that_got_the_pid_of_a_dead_server_is_neither_joined_nor_killed(state_dir: Path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as innocent:
        mark = mark_process(innocent.pid)
        assert mark is not None
        state_dir.mkdir(parents=True)
        for born in (mark.born - 100.0, mark.born):  # another birth; and the same birth but no server
            process = ProcessMark(pid=innocent.pid, born=born)
            write_record(state_dir, ServerRecord(process=process, port=1, home=state_dir, kept=True))
            assert find_kept_server(state_dir) is None
            with local_server(state_dir, app=FAKE) as it:
                assert it.started_here
            assert innocent.poll() is None
            write_record(state_dir, ServerRecord(process=process, port=1, home=state_dir, kept=True))
            assert stop_kept_server(state_dir) is Stopped.NOTHING
            assert innocent.poll() is None
        innocent.kill()


def test_a_damaged_record_is_replaced(state_dir: Path):
    state_dir.mkdir(parents=True)
    (state_dir / RECORD_NAME).write_text('{"process": ')
    with local_server(state_dir, app=FAKE) as it:
        record = read_record(state_dir)
        assert record is not None
        assert record.process.pid == it.pid


def test_a_server_whose_state_directory_was_deleted_ends_by_itself(state_dir: Path):
    it = start(state_dir, keep=True)
    shutil.rmtree(state_dir)
    assert wait_until(lambda: is_gone(it.pid), 10)


def test_a_kept_server_outlives_its_users_until_it_is_stopped(state_dir: Path):
    it = start(state_dir, keep=True)
    with local_server(state_dir, app=FAKE) as joined:
        assert joined.pid == it.pid
    stop_local_server(it)
    time.sleep(2.5)  # longer than the watch needs
    found = find_kept_server(state_dir)
    assert found is not None
    assert found.pid == it.pid
    assert stop_kept_server(state_dir) is Stopped.STOPPED
    assert is_gone(it.pid)
    assert find_kept_server(state_dir) is None
    assert stop_kept_server(state_dir) is Stopped.NOTHING


def test_a_kept_server_in_use_is_stopped_by_its_last_user(state_dir: Path):
    stop_local_server(start(state_dir, keep=True))
    with local_server(state_dir, app=FAKE) as it:
        assert stop_kept_server(state_dir) is Stopped.IN_USE
        assert not is_gone(it.pid)
    assert is_gone(it.pid)


def test_a_server_that_was_not_kept_is_not_found_as_kept(state_dir: Path):
    with local_server(state_dir, app=FAKE):
        assert find_kept_server(state_dir) is None


def test_keeping_a_server_that_runs_already_keeps_it(state_dir: Path):
    with local_server(state_dir, app=FAKE) as it:
        stop_local_server(start(state_dir, keep=True))
    assert not is_gone(it.pid)
    assert stop_kept_server(state_dir) is Stopped.STOPPED


def test_a_server_that_dies_at_its_start_says_why(state_dir: Path, monkeypatch):
    monkeypatch.setenv("FAKE_SERVER", "crash")
    with (
        pytest.raises(OutsideError, match="the database is on fire") as caught,
        local_server(state_dir, app=FAKE),
    ):
        pass
    assert caught.value.where == str(state_dir.resolve() / "logs" / "prefect-server.log")
    assert read_record(state_dir) is None


@pytest.mark.parametrize("keep", [False, True])
def test_a_server_that_never_answers_is_ended_at_the_limit(state_dir: Path, monkeypatch, keep):
    monkeypatch.setenv("FAKE_SERVER", "hang")
    monkeypatch.setattr(child, "STOP_GRACE_S", 0.5)
    starting = start_local_server(state_dir, app=FAKE, keep=keep)
    with pytest.raises(OutsideError, match="does not answer after 1 s"):
        starting.wait(1)
    assert list_servers(state_dir) == []
    assert read_record(state_dir) is None


def test_a_server_that_will_not_stop_is_killed_with_its_children(state_dir: Path, monkeypatch):
    monkeypatch.setenv("FAKE_SERVER", "stubborn")
    monkeypatch.setattr(child, "STOP_GRACE_S", 0.5)
    with local_server(state_dir, app=FAKE) as it:
        pass
    assert is_gone(it.pid)


def test_a_hung_server_that_nobody_uses_is_replaced(state_dir: Path, monkeypatch):
    it = start(state_dir, keep=True)
    stop_local_server(it)
    psutil.Process(it.pid).suspend()
    monkeypatch.setattr(server, "START_LIMIT_S", 0.0)
    monkeypatch.setattr(server, "PATIENCE_S", 0.3)
    monkeypatch.setattr(child, "STOP_GRACE_S", 0.3)
    with local_server(state_dir, app=FAKE, timeout_s=20) as again:
        assert again.started_here
        assert is_gone(it.pid)


def test_an_orphan_that_is_still_starting_is_joined_not_replaced(state_dir: Path, monkeypatch):
    monkeypatch.setenv("FAKE_SERVER", "slow")
    monkeypatch.setattr(server, "PATIENCE_S", 0.1)
    monkeypatch.setattr(child, "STOP_GRACE_S", 0.1)
    orphan = start_local_server(state_dir, app=FAKE)
    record = read_record(state_dir)
    assert record is not None
    write_record(state_dir, record.model_copy(update={"users": ()}))  # as if its user had been killed
    with local_server(state_dir, app=FAKE) as it:
        assert (it.pid, it.started_here) == (record.process.pid, False)
    orphan.stop()


def test_a_server_that_is_joined_while_it_takes_the_lock_to_end_goes_on(tmp_path: Path, monkeypatch):
    me = mark_process(os.getpid())
    assert me is not None
    unused = ServerRecord(process=me, port=1, home=tmp_path)
    write_record(tmp_path, unused)

    def take_lock_late(state_dir: Path, timeout_s: float) -> int | None:
        write_record(state_dir, unused.model_copy(update={"users": (ServerUser(process=me, token="t"),)}))
        return take_lock(state_dir, timeout_s)

    monkeypatch.setattr(server_process, "take_lock", take_lock_late)
    assert not server_process.take_lock_when_unused(tmp_path, me.pid)
    with locked(tmp_path, 0.1):  # and it has let the lock go
        write_record(tmp_path, unused)
    monkeypatch.setattr(server_process, "take_lock", take_lock)
    assert server_process.take_lock_when_unused(tmp_path, me.pid)
    assert take_lock(tmp_path, 0.1) is None  # and it holds the lock: nobody can join any more


def test_ctrl_c_on_the_terminal_does_not_reach_the_server(state_dir: Path):
    with local_server(state_dir, app=FAKE) as it:
        assert os.getsid(it.pid) == it.pid  # Ctrl-C goes to the terminal's session only


def test_a_state_directory_that_cannot_be_used_is_the_users_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be started"):
        start_local_server(tmp_path / "file" / ".capevolve", app=FAKE)


def test_a_lock_that_is_never_released_is_reported(tmp_path: Path):
    with locked(tmp_path), pytest.raises(OutsideError, match="starting or stopping"), locked(tmp_path, 0.1):
        pass
    with locked(tmp_path, 0.1):
        pass


def test_a_mark_names_one_process_only():
    me = mark_process(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(ProcessMark(pid=me.pid, born=me.born - 1.0))


def test_a_process_that_ended_and_was_not_reaped_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert wait_until(lambda: is_gone(process.pid))
    process.wait()


def test_a_large_log_is_put_aside(tmp_path: Path, monkeypatch):
    log = tmp_path / "server.log"
    log.write_text("old")
    child.rotate(log)
    assert log.exists()
    monkeypatch.setattr(child, "LOG_LIMIT_BYTES", 2)
    child.rotate(log)
    assert not log.exists()
    assert (tmp_path / "server.log.1").read_text() == "old"


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path):
    log = tmp_path / "server.log"
    assert child.read_tail(log) == ""
    log.write_text("\n".join(str(line) for line in range(100)))
    assert child.read_tail(log).splitlines()[0] == "80"
    assert child.read_tail(log).splitlines()[-1] == "99"


@pytest.mark.parametrize(
    ("value", "used"), [(None, None), ("", None), (" ", None), ("http://x/api", "http://x/api")]
)
def test_an_api_of_the_users_own_is_used(value, used):
    assert use_configured_api({} if value is None else {"PREFECT_API_URL": value}) == used


def test_clients_stay_on_this_machine():
    settings = client_settings("http://127.0.0.1:1/api", Path("/p/prefect"), {})
    assert settings["PREFECT_HOME"] == "/p/prefect"
    assert settings["PREFECT_PROFILES_PATH"] == "/p/prefect/profiles.toml"
    assert settings["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert settings["PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"] == "false"
    assert settings["DO_NOT_TRACK"] == "1"
    assert "NO_PROXY" not in settings


def test_requests_to_the_server_go_past_a_proxy_and_the_users_exceptions_stay():
    settings = client_settings(
        "u", Path("/p"), {"HTTP_PROXY": "http://proxy:1", "no_proxy": "a.example, 127.0.0.1"}
    )
    assert settings["no_proxy"] == "a.example,127.0.0.1"
    assert settings["NO_PROXY"] == "127.0.0.1"


def test_a_logging_level_of_the_users_stays():
    assert (
        client_settings("u", Path("/p"), {"PREFECT_LOGGING_LEVEL": "DEBUG"})["PREFECT_LOGGING_LEVEL"]
        == "DEBUG"
    )


def test_the_server_inherits_nothing_that_belongs_to_another_prefect():
    foreign = {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": "postgresql://elsewhere",
        "PREFECT_SERVER_API_AUTH_STRING": "user:password",
        "PREFECT_PROFILE": "cloud",
        "PATH": "/bin",
    }
    environment = server_environment(4321, Path("/p/prefect"), foreign)
    assert (
        environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] == "sqlite+aiosqlite:////p/prefect/prefect.db"
    )
    assert environment["PREFECT_SERVER_API_PORT"] == "4321"
    assert environment["PREFECT_SERVER_API_HOST"] == "127.0.0.1"
    assert environment["PATH"] == "/bin"
    assert not {"PREFECT_SERVER_API_AUTH_STRING", "PREFECT_PROFILE"} & set(environment)


def test_importing_and_starting_imports_no_prefect(state_dir: Path):
    script = """
        import sys
        from pathlib import Path
        from capevolve_flows.local_server import local_server
        with local_server(Path(sys.argv[1]), app="fake_server:create_app"):
            pass
        print("prefect" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(state_dir)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def drive_shutdown(waiting: Callable[[], int]) -> list[str]:
    """What an application sees of a start and a shutdown while `waiting` is asked."""
    seen: list[str] = []

    async def inner(scope, receive, send):
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])

    async def drive() -> None:
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive():
            return next(messages)

        async def send(message): ...

        await drain_at_shutdown(inner, waiting)({"type": "lifespan"}, receive, send)

    asyncio.run(drive())
    return seen


def test_the_shutdown_waits_until_everything_told_is_recorded():
    left = iter([3, 3, 2, 1, 1, 0])
    asked: list[int] = []

    def waiting() -> int:
        asked.append(next(left))
        return asked[-1]

    assert drive_shutdown(waiting) == ["lifespan.startup", "lifespan.shutdown"]
    assert asked == [3, 3, 2, 1, 1, 0]


def test_the_shutdown_does_not_wait_for_what_cannot_be_recorded(monkeypatch):
    monkeypatch.setattr("capevolve_flows.local_server.app.STALL_LIMIT_S", 0.1)
    begun = time.monotonic()
    drive_shutdown(lambda: 1)
    assert 0.1 <= time.monotonic() - begun < 2


def test_the_shutdown_ends_at_its_limit_although_more_keeps_coming(monkeypatch):
    monkeypatch.setattr("capevolve_flows.local_server.app.DRAIN_LIMIT_S", 0.2)
    ever = iter(range(1, 10_000))
    begun = time.monotonic()
    drive_shutdown(lambda: next(ever))
    assert 0.2 <= time.monotonic() - begun < 2
