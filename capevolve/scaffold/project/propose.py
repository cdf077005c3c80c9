"""A small proposer: it adds keywords that the failed train tickets of one queue share.

Put your coding agent here instead: it is started in a copy of the candidate, reads the brief, edits files.
"""

import json
import os
import random
from collections import Counter
from pathlib import Path

brief = json.loads(Path(os.environ["CAPEVOLVE_BRIEF"]).read_text(encoding="utf-8"))
rng = random.Random(int(os.environ["CAPEVOLVE_SEED"]))
path = Path("rules.json")
rules = json.loads(path.read_text(encoding="utf-8"))

words = Counter()
for task in brief["tasks"]:
    if task["mean"] is not None and task["mean"] < 1:
        words.update((word, task["target"]) for word in set(task["input"].lower().split()))
elsewhere = {(word, task["target"]) for task in brief["tasks"] for word in task["input"].lower().split()}


def is_telling(word, queue):
    return len(word) > 3 and not any(w == word and q != queue for w, q in elsewhere)


ranked = [(count, rng.random(), *pair) for pair, count in words.items() if is_telling(*pair)]
chosen = sorted(ranked, reverse=True)[:3]
for _, _, word, queue in chosen:
    rules.setdefault(word, queue)
path.write_text(json.dumps(rules, indent=1, sort_keys=True) + "\n", encoding="utf-8")

summary = "keywords " + ", ".join(f"{word} -> {queue}" for _, _, word, queue in chosen)
Path(os.environ["CAPEVOLVE_PROPOSAL"]).write_text(json.dumps({"summary": summary}), encoding="utf-8")
