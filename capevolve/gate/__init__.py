"""The gate: whether a candidate becomes the incumbent, judged on val and nothing else."""

from capevolve.gate.disclosure import chance_of_any_false_accept, false_accept_rate
from capevolve.gate.modes import MODES, Rule
from capevolve.gate.rules import judge
from capevolve.gate.settings import GateSettings, Mode

__all__ = [
    "MODES",
    "GateSettings",
    "Mode",
    "Rule",
    "chance_of_any_false_accept",
    "false_accept_rate",
    "judge",
]
