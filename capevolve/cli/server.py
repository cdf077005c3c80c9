"""The Prefect API a verb uses: the one the user configured, else the project's own local server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from capevolve.cli.console import out, show_note
from capevolve.runs import STATE_FOLDER
from capevolve.spec import load_spec
from capevolve_flows.local_server import (
    Stopped,
    exit_on_signals,
    start_local_server,
    stop_kept_server,
    use_configured_api,
)


@dataclass(frozen=True, slots=True)
class Api:
    """A Prefect API that may still be starting; `wait` returns the address of its UI, if it is known."""

    wait: Callable[[], str | None]


@contextmanager
def prefect_api(root: Path) -> Iterator[Api]:
    """Makes a Prefect API available to this process while the body runs.

    Prefect must not have been imported yet: it reads its settings then.
    """
    if use_configured_api(os.environ):
        yield Api(lambda: None)
        return
    with exit_on_signals():
        starting = start_local_server(root / STATE_FOLDER)
        before = dict(os.environ)
        try:
            os.environ.update(starting.environment())
            yield Api(lambda: starting.wait().ui_url)
        finally:
            starting.stop()
            os.environ.clear()
            os.environ.update(before)


def start_server(project: Path) -> None:
    """Starts and keeps the project's server."""
    root = load_spec(project).root
    if use_configured_api(os.environ):
        show_note("PREFECT_API_URL is set: runs use that server; nothing was started.")
        return
    server = start_local_server(root / STATE_FOLDER, keep=True).wait()
    out.print(f"Prefect UI: {server.ui_url}\nPREFECT_API_URL: {server.api_url}", markup=False)
    show_note(f"It stays until: capevolve down {project}")


def stop_server(project: Path) -> None:
    """Stops the server that was kept."""
    words = {
        Stopped.NOTHING: "No server was kept.",
        Stopped.STOPPED: "The server is stopped.",
        Stopped.IN_USE: "A run uses the server; it stops with it.",
    }
    out.print(words[stop_kept_server(load_spec(project).root / STATE_FOLDER)])
