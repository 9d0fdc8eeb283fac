"""The opening of targets: `grpc://host:port/name`, a path, or the URL of a store."""

import os
import re
from urllib.parse import urlsplit

import typer
from pyarrow import flight

from flight_server.cli.access import Access, access
from flight_server.cli.datasets.target import Target
from flight_server.cli.verbs import asked_server

_SERVERS = ("grpc://", "grpc+tcp://", "grpc+tls://")
"""Beginnings of the addresses of servers."""
_ADDRESS = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}(/|$)")


def is_remote(target: str) -> bool:
    """Return whether a server has the target. Local paths and URLs of object stores are read by this
    process.

    Raises:
        typer.BadParameter: the target looks like the address of a server without its scheme.
    """
    if _ADDRESS.match(target) and not os.path.lexists(target.partition("/")[0]):
        raise typer.BadParameter(
            f"{target} is a local path; write grpc://{target} for a server, or ./{target}"
        )
    if target.startswith(_SERVERS):
        return True
    # Late: a verb that asks a server needs nothing else of the core, whose import takes as long as Arrow's.
    from lance_core.api.serving import is_object_store, scheme_of

    return scheme_of(target) != "file" and not is_object_store(target)


def connect(target: str) -> tuple[flight.FlightClient, str]:
    """Return a client for the server in `target`, and the dataset name after it (may be empty)."""
    parts = urlsplit(target)
    if f"{parts.scheme}://" not in _SERVERS or not parts.netloc:
        raise typer.BadParameter(f"not a target: {target} (grpc://host:port/name or a local path)")
    uri = f"{parts.scheme}://{parts.netloc}"
    asked_server.set(uri)
    return access.get(Access()).connect(uri), parts.path.strip("/")


def open_target(target: str, version: int | None = None) -> Target:
    """Return the dataset that `target` names, at `version` (None: the latest)."""
    # Late: each of them needs much that the other one does without.
    if not is_remote(target):
        from flight_server.cli.datasets.local_target import LocalTarget

        return LocalTarget(target, version)
    from flight_server.cli.datasets.remote_target import RemoteTarget

    client, name = connect(target)
    if not name:
        raise typer.BadParameter(f"{target} names no dataset (grpc://host:port/name)")
    return RemoteTarget(client, name, version)
