"""The dedicated local Prefect server of a project: started in the background, shared, stopped at the end.

`capevolve run` without a PREFECT_API_URL starts one and stops it; `capevolve up` keeps one. Everything of
Prefect's lives in `<state_dir>/prefect`; `~/.prefect` and the user's profiles are neither read nor written.

* One server per state directory. Who starts while one runs joins it; the last user to leave stops it,
  unless it is kept. Users are named in the record (`record`), so the first of them may leave first.
* The port is bound before the process starts and is handed to it: nobody can take it in between.
* The end waits until Prefect has recorded what its clients sent (`app`): nothing of a flow is lost.
* The server has a session of its own: Ctrl-C on the terminal does not reach it, so the flow can still
  report its end. It is stopped on return, exception, Ctrl-C, SIGTERM and SIGHUP by the context manager
  `local_server`, and after `kill -9` of its last user by the watch inside it (`process`), in two seconds.

Importing this package imports no Prefect: the server starts while the caller imports it. POSIX only.
"""

from capevolve_flows.local_server.server import (
    LocalServer,
    StartingServer,
    Stopped,
    exit_on_signals,
    find_kept_server,
    local_server,
    start_local_server,
    stop_kept_server,
    stop_local_server,
)
from capevolve_flows.local_server.settings import use_configured_api

__all__ = [
    "LocalServer",
    "StartingServer",
    "Stopped",
    "exit_on_signals",
    "find_kept_server",
    "local_server",
    "start_local_server",
    "stop_kept_server",
    "stop_local_server",
    "use_configured_api",
]
