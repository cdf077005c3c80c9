"""A small proposer: it adds failed train tickets to the prompt as examples.

Put your coding agent here instead: it is started in a copy of the candidate, reads the brief, edits files.
"""

import json
import os
import random
from pathlib import Path

brief = json.loads(Path(os.environ["CAPEVOLVE_BRIEF"]).read_text(encoding="utf-8"))
rng = random.Random(int(os.environ["CAPEVOLVE_SEED"]))
path = Path("prompt.md")
prompt = path.read_text(encoding="utf-8")

failed = [task for task in brief["tasks"] if task["mean"] is not None and task["mean"] < 1]
fresh = [task for task in failed if task["input"] not in prompt]
chosen = rng.sample(fresh, min(4, len(fresh)))
examples = "".join(f"\nTicket: {task['input']}\nQueue: {task['target']}\n" for task in chosen)
if "Answer with the queue alone." not in prompt:
    examples = f"\nAnswer with the queue alone.\n{examples}"
path.write_text(prompt + examples, encoding="utf-8")

summary = f"{len(chosen)} failed tickets as examples"
Path(os.environ["CAPEVOLVE_PROPOSAL"]).write_text(json.dumps({"summary": summary}), encoding="utf-8")
