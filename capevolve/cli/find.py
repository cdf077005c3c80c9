"""Finding what a verb works on: the project, its ledger, the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from capevolve.candidates import Candidate, load_candidate, resolve_candidate
from capevolve.errors import UserError
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.runs import list_runs, read_run
from capevolve.ledger.store import Ledger
from capevolve.runs import CONTROL_ONLY, open_project_ledger
from capevolve.search.state import find_incumbent
from capevolve.spec import LoadedSpec, load_spec


@dataclass(frozen=True, slots=True)
class Found:
    """A project with its open ledger and one of its runs."""

    loaded: LoadedSpec
    ledger: Ledger
    run_id: str


@contextmanager
def found_run(project: Path, run: str | None) -> Iterator[Found]:
    """Opens a project's ledger for reading and finds the run: the one named, else the latest."""
    loaded = load_spec(project)
    ledger = open_project_ledger(loaded, create=False)
    try:
        with ledger.read() as connection:
            run_id = find_run_id(connection, run)
        yield Found(loaded, ledger, run_id)
    finally:
        ledger.close()


def find_run_id(connection: Connection, run: str | None) -> str:
    """The id of the run named, or for None and `last` of the latest that is more than an A/A control.

    Raises:
        UserError: There is no run yet.
        LedgerError: The named run is not known.
    """
    if run not in (None, "last"):
        return read_run(connection, str(run)).id
    runs = list_runs(connection)
    if not runs:
        raise UserError("The project has no run yet.", fix="Start one: capevolve run PROJECT.")
    searched = [found for found in runs if found.stop_reason != CONTROL_ONLY]
    return (searched or runs)[-1].id


def find_candidate(connection: Connection, run_id: str, name: str) -> Candidate:
    """A candidate by `seed`, `best`, or the beginning of its id."""
    seed_id = read_run(connection, run_id).seed_candidate
    if name == "seed":
        return load_candidate(connection, seed_id)
    if name == "best":
        return load_candidate(connection, find_incumbent(seed_id, read_verdicts(connection, run_id)))
    return resolve_candidate(connection, name)
