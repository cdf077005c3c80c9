"""The steps of a run as Prefect tasks: thin, and right on every call because the ledger is asked first.

Arguments are ids and records. Nothing is cached by Prefect: what is done is a question for the ledger.
"""

from capevolve_tasks.outcomes import Evaluated, Finalized, Judged, Proposed, Started
from capevolve_tasks.steps import control, evaluate, finalize, gate, measure, propose, report, split

__all__ = [
    "Evaluated",
    "Finalized",
    "Judged",
    "Proposed",
    "Started",
    "control",
    "evaluate",
    "finalize",
    "gate",
    "measure",
    "propose",
    "report",
    "split",
]
