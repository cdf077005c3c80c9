"""Asks for the finalize of a run in a process of its own; waits inside it until a file appears.

    python asker.py PROJECT RUN GATE_FILE STEP

At the failpoint STEP the process touches GATE_FILE.PID and waits for GATE_FILE.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from capevolve import failpoints
from capevolve.errors import CapevolveError
from capevolve.finalize import conclude
from capevolve.runs import drive_run


def main() -> None:
    project, run_id, gate, step = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]

    def wait(name: str) -> None:
        if name == step:
            gate.with_name(f"{gate.name}.{os.getpid()}").touch()
            deadline = time.monotonic() + 60
            while not gate.exists() and time.monotonic() < deadline:
                time.sleep(0.01)

    failpoints.hook = wait
    try:
        with drive_run(project, run_id, create=False) as run:
            conclusion = asyncio.run(conclude(run))
        sys.stdout.write(f"{'fresh' if conclusion.fresh else 'known'} {conclusion.result.test.reward}\n")
    except CapevolveError as error:
        sys.stdout.write(f"refused {error.what}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
