"""A toy agent that routes support tickets by the keywords it reads. Put your own here."""

import json


def answer(input, candidate_dir, seed):  # noqa: A002
    """The answer to one task; `async def` works too.

    Raise capevolve.AgentFailure where the agent fails (scores 0); anything else that is raised is an outage.
    """
    rules = json.loads((candidate_dir / "rules.json").read_text(encoding="utf-8"))
    words = input.lower().split()
    return next((rules[word] for word in words if word in rules), "other")
