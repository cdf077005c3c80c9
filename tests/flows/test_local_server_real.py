"""The local server with Prefect itself behind it, in processes of their own: about 25 s in all."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

STORY = """
import asyncio, json, os, sys, urllib.request
from pathlib import Path
import psutil
from capevolve_flows.local_server import start_local_server

starting = start_local_server(Path(sys.argv[1]))
try:
    os.environ.update(starting.environment())
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE

    @task(cache_policy=NO_CACHE)
    async def work(i):
        return i

    @flow
    async def story():
        for i in range(60):
            await work(i)

    server = starting.wait()
    page = urllib.request.urlopen(server.ui_url, timeout=10).read().decode()
    asyncio.run(story())
finally:
    starting.stop()
print(json.dumps([server.pid, "<title>" in page, len(psutil.Process().children())]))
"""

DEPLOY = """
import os, subprocess, sys, urllib.request
from pathlib import Path
from capevolve_flows.local_server import local_server

with local_server(Path(sys.argv[1])) as server:
    prefect = [sys.executable, "-m", "prefect", "--no-prompt"]
    environ = {**os.environ, **server.environment()}
    for command in (["work-pool", "create", "local", "--type", "process"], ["deploy", "--all"]):
        subprocess.run([*prefect, *command], env=environ, cwd=sys.argv[2], stdout=sys.stderr, check=True)
    for name in ("optimize/nightly", "finalize/manual"):
        print(urllib.request.urlopen(f"{server.api_url}/deployments/name/{name}").read().decode())
"""


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project") / ".capevolve"


def run_script(source: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with an empty home, without the caller's Prefect settings."""
    home.mkdir(exist_ok=True)
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "DO_NOT"))
    }
    return subprocess.run(
        [sys.executable, "-c", source, *arguments],
        env={**environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_real_server_records_all_of_a_flow_and_is_gone_after_it(state_dir: Path, tmp_path: Path):
    done = run_script(STORY, tmp_path / "home", str(state_dir))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    pid, has_ui, children = json.loads(done.stdout)
    assert has_ui
    assert children == 0
    assert not psutil.pid_exists(pid)
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(state_dir) in (p.info["cmdline"] or [])]
    assert not (state_dir / "prefect-server.json").exists()
    assert list((tmp_path / "home").iterdir()) == []
    with sqlite3.connect(state_dir / "prefect" / "prefect.db") as database:
        assert database.execute("SELECT state_type, count(*) FROM task_run GROUP BY 1").fetchall() == [
            ("COMPLETED", 60)
        ]
        assert database.execute("SELECT state_type FROM flow_run").fetchall() == [("COMPLETED",)]
        assert database.execute("SELECT count(*) FROM log").fetchone()[0] >= 60
    database.close()


def test_prefect_accepts_the_deployments_and_stores_no_folder_of_this_machine(
    state_dir: Path, tmp_path: Path
):
    done = run_script(DEPLOY, tmp_path / "home", str(state_dir), str(ROOT))
    assert done.returncode == 0, done.stderr
    nightly, manual = (json.loads(line) for line in done.stdout.splitlines())
    assert nightly["entrypoint"] == "capevolve_flows.optimize:optimize"
    assert nightly["parameters"] == {"project": ".", "run": None}
    assert manual["entrypoint"] == "capevolve_flows.finalize_run:finalize"
    assert not any(schedule["active"] for schedule in nightly["schedules"])
    for deployment in (nightly, manual):
        assert deployment["global_concurrency_limit"]["limit"] == 1
        assert deployment["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
        assert deployment["pull_steps"] == [
            {"prefect.deployments.steps.set_working_directory": {"directory": "{{ $CAPEVOLVE_ROOT }}"}}
        ]
        assert str(ROOT) not in json.dumps(deployment)
        assert set(deployment["parameters"]) <= set(deployment["parameter_openapi_schema"]["properties"])
    assert manual["parameter_openapi_schema"]["required"] == ["project", "run"]
