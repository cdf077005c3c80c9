"""The command line. Each verb imports what it needs when it is called, so that `--help` is quick."""

from __future__ import annotations


def main() -> None:
    """Runs the command line and ends the process with the exit code of what happened."""
    from capevolve.cli.app import run_app

    run_app()
