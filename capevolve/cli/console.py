"""The two consoles: results go to standard output, everything else to standard error."""

from __future__ import annotations

import sys

from rich.console import Console

FILE_WIDTH = 160
"""Width of tables where no terminal says otherwise."""


def _make_console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else FILE_WIDTH
    return Console(stderr=stderr, highlight=False, soft_wrap=True, width=width)


out = _make_console(stderr=False)
err = _make_console(stderr=True)


def show_note(text: str) -> None:
    """A line for people, on standard error."""
    err.print(text, markup=False, style="dim")


def show_warning(text: str) -> None:
    """A warning, on standard error."""
    err.print(f"! {text}", markup=False, style="yellow")
