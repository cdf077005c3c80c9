"""Kills a run at random instants, many times, and reruns each to its end. One command, any number.

python benchmarks/soak.py --kills 1000
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    kills = parser.parse_args().kills
    environment = {**os.environ, "CAPEVOLVE_RANDOM_KILLS": str(kills)}
    command = [sys.executable, "-m", "pytest", "-q", "tests/faults/test_kill.py", "-k", "random"]
    sys.exit(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
