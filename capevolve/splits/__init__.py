"""Train, val and test: which task belongs where, decided once and reproducibly.

Pure: the same tasks and settings give the same plan, whatever the order of the tasks, the process or the
Python version. Only ids and the seed decide where a task goes, never rewards, and content only where equal
content has to stay together. Near duplicates move nothing.
"""

from capevolve.splits.ids import check_task_ids
from capevolve.splits.plan import (
    Marks,
    Method,
    OnDuplicate,
    OnNear,
    PerSplit,
    SplitPlan,
    SplitSettings,
    TaskRow,
    ratio_fault,
)
from capevolve.splits.splitter import make_splits

__all__ = [
    "Marks",
    "Method",
    "OnDuplicate",
    "OnNear",
    "PerSplit",
    "SplitPlan",
    "SplitSettings",
    "TaskRow",
    "check_task_ids",
    "make_splits",
    "ratio_fault",
]
