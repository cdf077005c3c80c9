"""A toy agent that routes support tickets by the keywords it reads. Put your own program here.

A program in any language does: it reads one line of JSON, `{"id", "input", "metadata", "seed"}`, and prints
its answer. Exit code 0 is an answer, 10 a failure of the agent (scores 0), any other an outage: missing data.
"""

import json
import os
import sys
from pathlib import Path

task = json.load(sys.stdin)
candidate = Path(os.environ["CAPEVOLVE_CANDIDATE"])
rules = json.loads((candidate / "rules.json").read_text(encoding="utf-8"))
words = task["input"].lower().split()
sys.stdout.write(next((rules[word] for word in words if word in rules), "other"))
