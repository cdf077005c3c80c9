"""A real PostgreSQL on 127.0.0.1, started and stopped by the tests.

Its programs come from the system (Debian: `apt-get install postgresql`) or from CAPEVOLVE_POSTGRES_BIN.
PostgreSQL refuses to run as root: then it runs as the user `postgres` that the package made.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PostgresServer:
    port: int

    def make_url(self) -> str:
        """A URL with a new, empty schema of its own."""
        import psycopg

        schema = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        return (
            f"postgresql+psycopg://capevolve@127.0.0.1:{self.port}/postgres?options=-csearch_path%3D{schema}"
        )

    @property
    def _address(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=capevolve dbname=postgres"


def find_programs() -> Path | None:
    """The folder of initdb and postgres, or None."""
    given = os.environ.get("CAPEVOLVE_POSTGRES_BIN")
    places = [Path(given)] if given else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    places += [Path(on_path).parent] if on_path else []
    return next((place for place in places if (place / "initdb").exists()), None)


def _as_user() -> list[str]:
    """How to run a program as somebody who is not root."""
    if os.geteuid() != 0:
        return []
    pwd.getpwnam("postgres")
    return ["runuser", "-u", "postgres", "--"]


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    programs = find_programs()
    assert programs is not None
    prefix = _as_user()
    with tempfile.TemporaryDirectory(prefix="capevolve-postgres-") as place:
        folder = Path(place)
        if prefix:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        _run(
            [*prefix, programs / "initdb", "-D", data, "-U", "capevolve", "--auth=trust", "-E", "UTF8", "-N"],
            folder,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        control = [*prefix, programs / "pg_ctl", "-D", data, "-w", "-t", "60"]
        _run([*control, "-o", options, "-l", folder / "log", "start"], folder)
        try:
            yield PostgresServer(port)
        finally:
            _run([*control, "-m", "immediate", "stop"], folder)


def _run(command: list[object], folder: Path) -> None:
    done = subprocess.run([str(word) for word in command], cwd=folder, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)  # fmt: skip
    log = folder / "log"
    assert done.returncode == 0, f"{done.stderr}\n{log.read_text() if log.exists() else ''}"
