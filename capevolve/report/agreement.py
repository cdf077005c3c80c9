"""The projections on disk compared with the ledger: an edited file changes nothing, and is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from capevolve.candidates import Candidate, find_changes, load_candidate, read_tree
from capevolve.canonical import short
from capevolve.errors import TamperError, UserError
from capevolve.ledger.store import Ledger
from capevolve.report.facts import read_facts
from capevolve.report.looks import find_committed
from capevolve.report.projections import list_candidates, render_splits
from capevolve.runs import run_folder
from capevolve.verify.difference import expect, refuse


def check_projections(ledger: Ledger, root: Path, run_id: str, *, now: float) -> int:
    """Compares `splits.json`, `final.json` and the candidates' files with what the ledger says.

    Files that are not there are no difference: projections can be deleted. The reports are made again by
    `capevolve report` and are not compared.

    Args:
        root: The project's folder.
        now: The time, in seconds since the epoch.

    Returns:
        How many files and folders of candidates were compared.

    Raises:
        TamperError: One says something else than the ledger.
    """
    facts = read_facts(ledger, run_id, now=now)
    folder = run_folder(root, run_id)
    count = _check_splits(folder / "splits.json", json.loads(render_splits(facts)), run_id)
    with ledger.read() as connection:
        committed = find_committed(connection, run_id)
        candidates = [load_candidate(connection, name) for name in list_candidates(facts)]
    result = None if committed is None or committed.result is None else json.loads(committed.result)
    count += _check_final(folder / "final.json", result, run_id)
    return count + _check_candidates(folder / "candidates", candidates, run_id)


def _fix(run_id: str) -> str:
    return f"The ledger is right. Make the files again: capevolve report {run_id}."


def _read(path: Path, run_id: str) -> Any:
    """The content of a JSON file; None when there is no file."""
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=_refuse_repeated)
    except (OSError, ValueError, RecursionError) as error:
        raise TamperError(f"It cannot be read: {error}", where=str(path), fix=_fix(run_id)) from error
    return "null" if content is None else content


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is given twice")
    return content


def _check_splits(path: Path, expected: dict[str, Any], run_id: str) -> int:
    """Compares `splits.json`; one from before the commit, without the test ids, is right as well."""
    stored = _read(path, run_id)
    if stored is None:
        return 0
    if isinstance(stored, dict) and stored.get("test_used") is False and expected["test_used"]:
        known = [overlap for overlap in expected["overlaps"] if overlap["second"] != "test"]
        expected = {**expected, "test_used": False, "test": None, "overlaps": known}
    expect("it", str(path), stored, expected, fix=_fix(run_id))
    return 1


def _check_final(path: Path, result: Any, run_id: str) -> int:
    stored = _read(path, run_id)
    if stored is None:
        return 0
    if result is None:
        refuse("There is a final.json, and no committed result.", str(path), fix=_fix(run_id))
    expect("it", str(path), stored, result, fix=_fix(run_id))
    return 1


def _check_candidates(folder: Path, candidates: list[Candidate], run_id: str) -> int:
    """Compares the folders of candidates that are there, and refuses a folder of none of them."""
    if not folder.is_dir():
        return 0
    by_label = {short(candidate.id): candidate for candidate in candidates}
    present = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in present:
        if path.name not in by_label:
            refuse("The run has no such candidate.", str(path), fix="Delete it.")
        _check_tree(path, by_label[path.name], run_id)
    return len(present)


def _check_tree(path: Path, candidate: Candidate, run_id: str) -> None:
    fix = f"Delete the folder; then: capevolve report {run_id}."
    for name in find_changes(path, candidate):
        refuse("A candidate's file is missing or was edited.", str(path / name), fix=fix)
    try:
        found = read_tree(path).candidate
    except UserError as error:
        raise TamperError(error.what, where=error.where, fix=fix) from error
    expected = {file.path: file.executable for file in candidate.files}
    for file in found.files:
        if file.path not in expected:
            refuse("The candidate has no such file.", str(path / file.path), fix=fix)
        expect("executable", str(path / file.path), file.executable, expected[file.path], fix=fix)
