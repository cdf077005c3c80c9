"""The two consoles: results go to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)


def show_note(text: str) -> None:
    """A line for people, on standard error."""
    err.print(text, markup=False, style="dim")


def show_warning(text: str) -> None:
    """A warning, on standard error."""
    err.print(f"! {text}", markup=False, style="yellow")
