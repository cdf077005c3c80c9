"""The environment of a local Prefect server and of its clients: every Prefect setting that matters here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"


def use_configured_api(environ: Mapping[str, str]) -> str | None:
    """Returns the user's own PREFECT_API_URL, or None when a local server is to be started.

    Only the environment counts: profiles and `.env` files of Prefect's are not read.
    """
    return environ.get("PREFECT_API_URL", "").strip() or None


def client_settings(api_url: str, home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns what the clients of a local server set, before their first import of Prefect.

    With it Prefect looks up and connects to nothing outside this machine. The user's own
    PREFECT_LOGGING_LEVEL stays. Behind an HTTP proxy, requests to the server go past it.
    """
    settings = {
        "PREFECT_API_URL": api_url,
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "PREFECT_LOGGING_LEVEL": environ.get("PREFECT_LOGGING_LEVEL") or "INFO",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    if any(name.lower() in ("http_proxy", "all_proxy") and value for name, value in environ.items()):
        for name in ("NO_PROXY", "no_proxy"):
            hosts = [host.strip() for host in environ.get(name, "").split(",")]
            settings[name] = ",".join([*(host for host in hosts if host not in ("", HOST)), HOST])
    return settings


def server_environment(port: int, home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the whole environment of the server's process.

    PREFECT_* variables of the user's are left out: they belong to another server (its database, its log-in).
    """
    inherited = {name: value for name, value in environ.items() if not name.startswith("PREFECT_")}
    return {
        **inherited,
        **client_settings(f"http://{HOST}:{port}/api", home, environ),
        "PREFECT_SERVER_API_HOST": HOST,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home}/prefect.db",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }
