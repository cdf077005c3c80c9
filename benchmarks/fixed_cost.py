"""What a run costs before its target does anything: imports, the Prefect server, the work itself.

    python benchmarks/fixed_cost.py

The smoke project (examples/marker, 40 no-op trials) run in parts, side by side in one go.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from capevolve_flows.local_server import local_server

ROOT = Path(__file__).parents[1]
PILOT = ROOT / "tests" / "faults" / "pilot.py"
MAIN = "from capevolve.cli import main; main()"


def seconds(*words: str, cwd: Path, **environment: str) -> float:
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begun


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "marker"
        shutil.copytree(ROOT / "examples" / "marker", project, ignore=shutil.ignore_patterns(".capevolve"))
        state = Path(folder) / "state"
        parts = {
            "import capevolve": seconds("-c", "import capevolve", cwd=project),
            "capevolve --help": seconds("-c", MAIN, "--help", cwd=project),
            "import prefect": seconds("-c", "import prefect", cwd=project),
            "the work alone, without Prefect": seconds(str(PILOT), ".", "alone", cwd=project),
        }
        begun = time.perf_counter()
        with local_server(state) as server:
            parts["Prefect server, fresh home"] = time.perf_counter() - begun
            parts["run with a running server"] = seconds(
                "-c", MAIN, "run", ".", "--run", "warm", cwd=project, **server.environment()
            )
        begun = time.perf_counter()
        with local_server(state):
            parts["Prefect server, existing home"] = time.perf_counter() - begun
        parts["run, its own server, fresh home"] = seconds(
            "-c", MAIN, "run", ".", "--run", "cold", cwd=project
        )
        parts["run, its own server, existing home"] = seconds(
            "-c", MAIN, "run", ".", "--run", "again", cwd=project
        )
        parts["run --resume of a finished run"] = seconds(
            "-c", MAIN, "run", ".", "--resume", "again", cwd=project
        )
    whole = parts["run, its own server, existing home"]
    for name, value in parts.items():
        sys.stdout.write(f"{name:38s} {value:7.2f} s {value / whole:6.2f} of a run\n")


if __name__ == "__main__":
    main()
