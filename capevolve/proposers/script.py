"""The `script` proposer: edits from a YAML file, one entry per iteration. For tests and demos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from capevolve.errors import SpecError
from capevolve.proposers.brief import Brief
from capevolve.proposers.draft import Draft


class ScriptEdit(BaseModel):
    """One entry of the file: `{relative path: new text}`; a null text deletes the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    summary: str = ""
    edits: Mapping[str, str | None]


_FILE = TypeAdapter(tuple[ScriptEdit, ...])


@dataclass(frozen=True, slots=True)
class ScriptProposer:
    """Proposes the entries of a file in order: iteration i applies entry i to the incumbent."""

    entries: tuple[ScriptEdit, ...]

    @property
    def needs_evidence(self) -> bool:
        """False: the edits were written beforehand."""
        return False

    def check(self) -> None:
        """Nothing is left to prove: the file was read."""

    async def edit(self, folder: Path, brief: Brief, *, seed: int) -> Draft:
        """Applies the entry of this iteration."""
        if brief.iteration > len(self.entries):
            return Draft(failure=f"the script holds {len(self.entries)} edits", exhausted=True)
        entry = self.entries[brief.iteration - 1]
        for name, text in entry.edits.items():
            try:
                _apply(folder.joinpath(*PurePosixPath(name).parts), text)
            except (OSError, ValueError) as error:
                return Draft(entry.summary, failure=f"the edit of {name!r} cannot be made: {error}")
        return Draft(summary=entry.summary)


def _apply(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def load_script(path: Path) -> ScriptProposer:
    """Reads the file of a script proposer.

    Raises:
        SpecError: The file is missing, is not YAML, or an entry is malformed.
    """
    try:
        entries = _FILE.validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SpecError(f"The script of edits cannot be read: {error.strerror}.", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise SpecError(f"The script of edits is not UTF-8: {error.reason}.", where=str(path)) from None
    except yaml.YAMLError as error:
        raise SpecError(f"The script of edits is not YAML: {error}", where=str(path)) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SpecError(
            f"The script of edits is malformed: {first['msg']}",
            where=f"{path}, {place or 'top level'}",
            fix="Write a list of entries `{summary: text, edits: {path: new text}}`.",
        ) from None
    for entry in entries:
        for name in entry.edits:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise SpecError("An edit leaves the candidate's folder.", where=f"{path}: {name}")
    return ScriptProposer(entries)
