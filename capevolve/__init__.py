"""capevolve: improve what an AI agent reads, and end in one number you can defend.

The names here are what an adapter needs. Importing capevolve imports neither Prefect nor the database.
"""

from capevolve.adapters.contract import Adapter, CapabilityAdapter
from capevolve.errors import RateLimitedError, TestSealError, TrainGateError
from capevolve.model import AgentFailure, Rollout, Score, Task, task_seed

__version__ = "0.1.0"

__all__ = [
    "Adapter",
    "AgentFailure",
    "CapabilityAdapter",
    "RateLimitedError",
    "Rollout",
    "Score",
    "Task",
    "TestSealError",
    "TrainGateError",
    "__version__",
    "task_seed",
]
