"""Targets of verbs: `grpc://host:port/name`, a path or a store's URL; and the texts that say what to read."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import typer
from pyarrow import flight

from flight_server.cli.access import Access, access
from flight_server.cli.target import Target
from flight_server.cli.verbs import asked_server


def parse_text_query(text: str | None, option: str) -> dict[str, Any] | None:
    """Return a full text query that an option gave as words or as a JSON object."""
    if text is None or not text.lstrip().startswith("{"):
        return None if text is None else {"query": text}
    try:
        query: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"no JSON: {error}", param_hint=option) from None
    return query


def parse_columns(text: str | None) -> list[str] | dict[str, str] | None:
    """Parse names with commas between them, or a JSON object of SQL expressions by name."""
    if text is None or text == "":
        return None
    if not text.lstrip().startswith("{"):
        return text.split(",")
    try:
        columns = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"not a JSON object: {error}", param_hint="--columns") from None
    if not all(isinstance(value, str) for value in columns.values()):
        raise typer.BadParameter("every value must be SQL in quotes", param_hint="--columns")
    return dict(columns)


_ORDER = re.compile(r"(.+?)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?", re.IGNORECASE)


def parse_order(text: str) -> tuple[Mapping[str, Any], ...]:
    """Parse columns to sort by, with commas between them: `population DESC NULLS FIRST, name`."""
    found = []
    for part in text.split(","):
        match = _ORDER.fullmatch(part.strip())
        if match is None:
            raise typer.BadParameter(f"expected names of columns, found {text!r}", param_hint="--order-by")
        name, way, nulls = match.groups()
        descends, nulls_first = (way or "").upper() == "DESC", (nulls or "").upper() == "FIRST"
        found.append({"column": name, "ascending": not descends, "nulls_first": nulls_first})
    return tuple(found)


def parse_pairs(given: Sequence[str], hint: str) -> dict[str, str]:
    """Return texts of the form `name=SQL` as SQL by name; others are wrong usage of the option `hint`."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, sql = text.partition("=")
        if not equals or not name.strip() or not sql.strip():
            raise typer.BadParameter(f"expected column=SQL, found {text!r}", param_hint=hint)
        if name.strip() in pairs:
            raise typer.BadParameter(f"column {name.strip()!r} is given twice", param_hint=hint)
        pairs[name.strip()] = sql.strip()
    return pairs


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
        from flight_server.cli.local_target import LocalTarget

        return LocalTarget(target, version)
    from flight_server.cli.remote_target import RemoteTarget

    client, name = connect(target)
    if not name:
        raise typer.BadParameter(f"{target} names no dataset (grpc://host:port/name)")
    return RemoteTarget(client, name, version)
