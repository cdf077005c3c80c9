"""Live progress of a run, read from the ledger: it needs nothing from the process that drives it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from capevolve.canonical import short
from capevolve.errors import LedgerError
from capevolve.ledger.evaluations import EvaluationRecord, list_evaluations
from capevolve.ledger.proposals import VerdictRecord, read_proposals, read_verdicts
from capevolve.ledger.runs import SplitSet, find_run, find_splits
from capevolve.ledger.store import Ledger, open_ledger
from capevolve.ledger.trials import count_finished

POLL_S = 0.4


@dataclass(frozen=True, slots=True)
class Bar:
    """How far one evaluation is."""

    evaluation_id: int
    title: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment."""

    bars: tuple[Bar, ...]
    verdicts: tuple[VerdictRecord, ...]


def read_snapshot(ledger: Ledger, run_id: str) -> Snapshot:
    """Reads how far a run is; empty before its splits are frozen."""
    with ledger.read() as connection:
        record, splits = find_run(connection, run_id), find_splits(connection, run_id)
        if record is None or splits is None:
            return Snapshot((), ())
        iterations = {p.candidate_id: p.iteration for p in read_proposals(connection, run_id)}
        iterations[record.seed_candidate] = 0
        bars = tuple(
            Bar(
                evaluation.id,
                _title(evaluation, iterations),
                count_finished(connection, evaluation.id),
                _total(evaluation, splits),
            )
            for evaluation in list_evaluations(connection, run_id)
        )
        return Snapshot(bars, read_verdicts(connection, run_id))


def _title(evaluation: EvaluationRecord, iterations: dict[str | None, int]) -> str:
    number = iterations.get(evaluation.key.candidate_id)
    who = "seed" if number == 0 else short(evaluation.key.candidate_id, 8)
    if number:
        who = f"#{number} {who}"
    return f"{who} on {evaluation.key.split}"


def _total(evaluation: EvaluationRecord, splits: SplitSet) -> int:
    tasks = evaluation.key.subset
    size = splits.size(evaluation.key.split) if tasks is None else len(tasks)
    return size * evaluation.key.num_trials


class _Display:
    """Bars on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: dict[int, TaskID] = {}
        self._finished: set[int] = set()
        self._judged: set[int] = set()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def show(self, snapshot: Snapshot) -> None:
        for bar in snapshot.bars:
            self._show_bar(bar)
        for record in snapshot.verdicts:
            if record.iteration not in self._judged:
                self._judged.add(record.iteration)
                text = f"  #{record.iteration} {record.verdict.decision}: {record.verdict.reason}"
                self._console.print(text, markup=False)

    def _show_bar(self, bar: Bar) -> None:
        if not self._console.is_terminal:
            if bar.done == bar.total and bar.evaluation_id not in self._finished:
                self._finished.add(bar.evaluation_id)
                self._console.print(f"  {bar.title}: {bar.total} trials", markup=False)
            return
        if bar.evaluation_id not in self._bars:
            self._bars[bar.evaluation_id] = self.progress.add_task(bar.title, total=bar.total)
        self.progress.update(self._bars[bar.evaluation_id], completed=bar.done)


@contextmanager
def watching(url: str, run_id: str, console: Console) -> Iterator[None]:
    """Shows a run's progress while the body runs."""
    stop = threading.Event()
    display = _Display(console)

    def follow() -> None:
        ledger = open_ledger(url)
        try:
            last = False
            while not last:
                last = stop.wait(POLL_S)
                display.show(read_snapshot(ledger, run_id))
        except LedgerError as error:
            console.print(f"progress cannot be shown: {error.what}", markup=False)
        finally:
            ledger.close()

    thread = threading.Thread(target=follow, name="capevolve-watch", daemon=True)
    with display.progress:
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=10)
