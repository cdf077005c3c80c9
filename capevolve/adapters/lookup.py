"""Where the program that a spec names is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_program(name: str, root: Path) -> str | None:
    """Returns a program's path; None when there is none, or it may not be run.

    Args:
        name: A path relative to the project, or a name: on the PATH first, then in the project.
        root: The project's directory.
    """
    if os.sep in name:
        return shutil.which(str(root / name))
    return shutil.which(name) or shutil.which(name, path=str(root))
