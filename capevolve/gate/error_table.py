"""The simulated cost of the uncontrolled modes: `error_table.json`, made by benchmarks/gate_table.py."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from capevolve.gate.settings import Mode


@dataclass(frozen=True, slots=True)
class ErrorCell:
    """What one mode did in null runs of one size.

    Attributes:
        n_tasks, num_trials: Val tasks, and trials per task.
        candidates: Numbers of edits without effect, ascending from 1; shape (m,).
        chances: For each, the share of runs that accepted at least one; in [0, 1], shape (m,).
    """

    mode: Mode
    n_tasks: int
    num_trials: int
    candidates: tuple[int, ...]
    chances: tuple[float, ...]

    def interpolate(self, n_candidates: int) -> float:
        """Returns the chance for a number of candidates, linear in its logarithm between two known ones.

        0 for none, and for more than the table knows that of its largest number.
        """
        if n_candidates < 1:
            return 0.0
        known = list(zip(self.candidates, self.chances, strict=True))
        below = [pair for pair in known if pair[0] <= n_candidates][-1]
        above = next((pair for pair in known if pair[0] > n_candidates), below)
        if above[0] == below[0]:
            return below[1]
        share = math.log(n_candidates / below[0]) / math.log(above[0] / below[0])
        return below[1] + share * (above[1] - below[1])


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """All cells, with what made them: the script, its seed, and the runs behind each cell.

    Attributes:
        k_se: The k_se of `paired` and `significant` that was simulated.
    """

    source: str
    seed: int
    runs: int
    k_se: float
    cells: tuple[ErrorCell, ...]

    def find_nearest(self, mode: Mode, n_tasks: int, num_trials: int) -> ErrorCell | None:
        """Returns the cell nearest in tasks, then in trials, both on a logarithmic scale.

        Args:
            n_tasks, num_trials: At least 1 each.

        Returns:
            The smaller one of two that are equally near; None when the mode was not simulated.
        """
        found = [cell for cell in self.cells if cell.mode == mode]
        return min(
            found,
            key=lambda cell: (
                abs(math.log(cell.n_tasks / n_tasks)),
                abs(math.log(cell.num_trials / num_trials)),
                cell.n_tasks,
                cell.num_trials,
            ),
            default=None,
        )


@cache
def read_error_table() -> ErrorTable:
    """Returns the table that the package ships."""
    stored = json.loads(files("capevolve.gate").joinpath("error_table.json").read_text("utf-8"))
    cells = tuple(
        ErrorCell(
            mode=row["mode"],
            n_tasks=row["n_tasks"],
            num_trials=row["num_trials"],
            candidates=tuple(stored["candidates"]),
            chances=tuple(row["chances"]),
        )
        for row in stored["cells"]
    )
    return ErrorTable(stored["source"], stored["seed"], stored["runs"], stored["k_se"], cells)
