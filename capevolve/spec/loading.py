"""Loads `capevolve.yaml`: finds it, reads it, fills in defaults that depend on where it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capevolve.canonical import digest
from capevolve.errors import SpecError
from capevolve.spec.flat_keys import FLAT_KEYS, Nested, nest_flat_keys
from capevolve.spec.models import ProjectSpec
from capevolve.spec.problems import Problem, explain, spec_error
from capevolve.spec.ready import READY_KEYS
from capevolve.spec.source import KeyPath, YamlSource, read_mapping
from capevolve.spec.splitting import SPLIT_WAYS, PinnedIds, ways_fault
from capevolve.splits import SplitSettings

SPEC_NAME = "capevolve.yaml"
ADAPTERS = ("adapter.py", "adapters/adapter.py")
SEEDS = ("seed", "seed_capability")
"""Where things are by default; a file with flat keys looks at cap-evolve's place, the last, first."""


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A valid spec and where it lives.

    Attributes:
        root: Absolute directory of the file; paths in the spec are relative to it.
        notes: What was mapped, assumed or ignored, one sentence each.
        digest: Digest of the spec's JSON, defaults filled in and the ledger's URL left out; comments and
            order do not change it.
    """

    spec: ProjectSpec
    root: Path
    notes: tuple[str, ...]
    digest: str

    def split_settings(self) -> SplitSettings:
        """Returns the settings for `make_splits`, with the ids of `splits.ids_file` read.

        Raises:
            SpecError: The file is missing or is not `{"train": [ids], "val": [ids], "test": [ids]}`.
        """
        name = self.spec.splits.ids_file
        return self.spec.splits.to_settings(read_pinned_ids(self.root / name) if name else None)


def ledger_url(loaded: LoadedSpec) -> str:
    """Returns the SQLAlchemy URL of the ledger; a relative SQLite path starts at the project's root."""
    url = loaded.spec.ledger or "sqlite:///.capevolve/ledger.db"
    driver, slashes, path = url.partition(":///")
    if driver.startswith("sqlite") and slashes and not path.startswith(("/", "file:")):
        # SQLAlchemy decodes percent signs and takes a question mark for the query.
        root = str(loaded.root).replace("%", "%25").replace("?", "%3F")
        return f"{driver}:///{root}/{path}"
    return url


def load_spec(path: Path) -> LoadedSpec:
    """Loads a project's spec.

    Args:
        path: `capevolve.yaml`, under any name, or the directory that holds it.

    Raises:
        SpecError: The file is missing or wrong; all problems are named at once, each with its line.
    """
    file = _find(path)
    source = read_mapping(file)
    root = file.parent.resolve()
    # `gate:` with nothing under it is null, and means the defaults.
    given = {key: value for key, value in source.data.items() if value is not None}
    nested = nest_flat_keys(given)
    data = dict(nested.data)
    notes = list(nested.notes)
    data.setdefault("name", _name_of(root))
    for key, places in (("adapter", ADAPTERS), ("seed_candidate", SEEDS)):
        if key not in data and not (key == "adapter" and data.keys() & set(READY_KEYS)):
            data[key], noted = _first_there(root, places[::-1] if nested.flat else places)
            notes += [f"{key} is {note}" for note in noted]
    ways = _split_ways(data, nested)
    problems = [*_repeated(source), *nested.problems, *ways]
    spec = None
    try:
        spec = ProjectSpec.model_validate(data)
    except ValidationError as error:
        problems += [p for p in explain(error, FLAT_KEYS) if not (ways and p.path == ways[0].path)]
    if spec is None or problems:
        raise spec_error([_as_written(problem, nested) for problem in problems], str(file), source)
    notes += _zero_caps(spec)
    identity = digest(spec.model_dump(mode="json", exclude={"ledger"}))
    return LoadedSpec(spec=spec, root=root, notes=tuple(notes), digest=identity)


def read_pinned_ids(path: Path) -> PinnedIds:
    """Reads a file of pinned ids; keys besides train, val and test are ignored.

    Raises:
        SpecError: The file is missing, is not JSON or has another shape.
    """
    shape = 'Write {"train": ["id", ...], "val": [...], "test": [...]}, each id in quotes.'
    try:
        data = json.loads(path.read_bytes(), object_pairs_hook=_unique_pairs)
    except OSError as error:
        raise SpecError(
            f"The pinned ids cannot be read: {error.strerror}.", where=str(path), fix="Check splits.ids_file."
        ) from error
    except (ValueError, RecursionError) as error:
        raise SpecError(f"The pinned ids are not JSON: {error}.", where=str(path), fix=shape) from error
    if not isinstance(data, dict):
        raise SpecError("The pinned ids are not a JSON object.", where=str(path), fix=shape)
    try:
        return PinnedIds.model_validate({key: data[key] for key in PinnedIds.model_fields if key in data})
    except ValidationError as error:
        texts = [f"{problem.path[0]} {problem.text}" for problem in explain(error, ())]
        raise SpecError(
            f"The pinned ids cannot be used: {'; '.join(texts[:5])}.", where=str(path), fix=shape
        ) from error


def _find(path: Path) -> Path:
    file = path / SPEC_NAME if path.is_dir() else path
    if file.is_file():
        return file
    fix = f"Go to the directory of {SPEC_NAME}, name it, or write one with `capevolve init`."
    if file.with_suffix(".yml").is_file():
        fix = f"Rename {file.with_suffix('.yml').name} to {SPEC_NAME}."
    raise SpecError(f"There is no {file.name}.", where=str(file.parent.absolute()), fix=fix)


def _name_of(root: Path) -> str:
    printable = "".join(char if char.isprintable() else "_" for char in root.name)
    return printable[:200].strip() or "project"


def _first_there(root: Path, places: tuple[str, ...]) -> tuple[str, list[str]]:
    """Returns the first place that exists, else the first, and a note when several do."""
    found = [name for name in places if (root / name).exists()]
    note = [f"{found[0]}; {found[1]} is not used"] if len(found) > 1 else []
    return (found or list(places))[0], note


def _repeated(source: YamlSource) -> list[Problem]:
    return [
        Problem(path, f"is given more than once (lines {', '.join(map(str, lines))})", "Keep one.")
        for path, lines in source.repeated
    ]


def _split_ways(data: dict[str, Any], nested: Nested) -> list[Problem]:
    """Finds ways to split that exclude each other, even when one of them is wrong in itself."""
    splits = data.get("splits")
    if not isinstance(splits, dict):
        return []
    given = [way for way in SPLIT_WAYS if splits.get(way) is not None]
    fault = ways_fault([nested.origins.get(("splits", way), way) for way in given])
    return [Problem(("splits",), fault)] if fault else []


def _as_written(problem: Problem, nested: Nested) -> Problem:
    """Names the flat key where the value came from one."""
    for length in range(len(problem.path), 0, -1):
        key = nested.origins.get(problem.path[:length])
        if key is not None:
            written: KeyPath = (key, *problem.path[length:])
            return Problem(written, problem.text, problem.fix)
    return problem


def _zero_caps(spec: ProjectSpec) -> list[str]:
    caps = spec.budget.model_dump()
    return [
        f"budget.{name} is 0: nothing may be spent"
        for name, cap in caps.items()
        if cap == 0 and cap is not None
    ]


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key is given twice")
    return data
