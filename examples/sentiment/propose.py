"""The proposer of this example: it frames the review, then shows the model labelled train reviews.

Iteration 1 frames, 2 shows four examples, 3 shows eight, every later one draws eight others. It knows no
reviews but those of the train tasks in its brief.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

FRAME = "Review: {review}\nSentiment:"
SHOWN = (0, 4, 8)
"""Examples that iteration 1, 2 and 3 show; later ones show as many as the last."""


def compose(examples: Sequence[Mapping[str, str]]) -> str:
    """The prompt that shows these examples and then asks."""
    shown = [f"{FRAME.format(review=task['input'])} {task['target']}\n\n" for task in examples]
    return "".join(shown) + FRAME.format(review="{input}")


def draw_examples(
    tasks: Sequence[Mapping[str, str]], count: int, rng: random.Random
) -> list[Mapping[str, str]]:
    """So many train reviews, half of them good, in random order."""
    chosen: list[Mapping[str, str]] = []
    for label in ("good", "bad"):
        alike = sorted((task for task in tasks if task["target"] == label), key=lambda task: task["input"])
        chosen += rng.sample(alike, min(count // 2, len(alike)))
    rng.shuffle(chosen)
    return chosen


def main(environ: Mapping[str, str]) -> None:
    """Writes the prompt and says what was done."""
    brief = json.loads(Path(environ["CAPEVOLVE_BRIEF"]).read_text(encoding="utf-8"))
    count = SHOWN[min(int(environ["CAPEVOLVE_ITERATION"]), len(SHOWN)) - 1]
    examples = draw_examples(brief["tasks"], count, random.Random(int(environ["CAPEVOLVE_SEED"])))
    prompt = Path(environ["CAPEVOLVE_CANDIDATE"]) / "prompt.md"
    prompt.write_text(compose(examples), encoding="utf-8")
    summary = f"frame the review, {len(examples)} examples"
    note = {"summary": summary, "cost_usd": 0.0, "tokens": 0}
    Path(environ["CAPEVOLVE_PROPOSAL"]).write_text(json.dumps(note), encoding="utf-8")


if __name__ == "__main__":
    main(os.environ)
