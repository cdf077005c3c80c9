"""Modules that a host imports only when it needs them, safe from the user's modules of the same name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

_kept: dict[str, Any] = {}


def load_late(name: str) -> Any:
    """Returns a module, imported now unless it was kept."""
    return _kept.get(name) or importlib.import_module(name)


def keep_modules(names: Iterable[str]) -> None:
    """Imports modules and keeps them, whatever may take their place on the path later."""
    for name in names:
        _kept[name] = importlib.import_module(name)
