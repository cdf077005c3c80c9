"""What a run's numbers were computed with: Python, the installed packages, the revision of the code."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

import capevolve

GIT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Environment:
    """What a bundle says of the installation that wrote it.

    Attributes:
        packages: Name and version of every installed package, sorted.
        revision: The git revision of capevolve's own tree; None when it was installed from a package.
        modified: Whether files of that tree differ from the revision; None without one.
    """

    capevolve_version: str
    python: str
    packages: tuple[tuple[str, str], ...]
    revision: str | None
    modified: bool | None


def read_environment() -> Environment:
    """Reads the environment of this process."""
    found = {(d.metadata["Name"], d.version) for d in distributions() if d.metadata["Name"]}
    tree = Path(capevolve.__file__).parents[1]
    # A folder without a repository of its own may lie in one of the user's.
    revision = _ask_git(tree, "rev-parse", "HEAD") if (tree / ".git").exists() else None
    changes = None if revision is None else _ask_git(tree, "status", "--porcelain", "--untracked-files=no")
    return Environment(
        capevolve_version=capevolve.__version__,
        python=platform.python_version(),
        packages=tuple(sorted(found)),
        revision=revision,
        modified=None if changes is None else bool(changes),
    )


def _ask_git(tree: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(tree), *words],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
