"""Servers for tests that change what is served, and names that try to lead out of the root."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight

from support.servers.server import serving

# fmt: off
_ESCAPES = [
    "..", ".", "", "/", "//", "\\", "..\\", "%2e%2e", "%2e%2e%2f", "%00", "\x00", "\n", "\r\n", "\t",
    "\x1b[2J",
    " ", "~", "$HOME", "`id`", "*", "?", "|", ":", ";", "'", '"', "-", "_x", ".hidden", "\u2024\u2024",
    "\uff0e\uff0e", "\u2215", "\uff0f", "\u202e", "\u200b", "\ud7ff", "\u0430", "\u00e9", "e\u0301", "CON\\",
    "file://", "s3://b", "a::b", "http://169.254.169.254", "\U0001f980", "x" * 129, "x" * 10_000, "..;",
    "..%c0%af", "..%252f",
]
_SHAPES = [
    "{}", "{}/trips", "trips/{}", "ns/{}/trips", "ns/../{}/trips", "/{}", "{}/", "../{}", "./{}",
    "trips.lance/../{}", "{}/../../etc/passwd",
]
# fmt: on


@pytest.fixture(scope="session")
def hostile_names() -> list[str]:
    """T7: every escape in every shape."""
    return sorted({shape.format(escape) for shape, escape in itertools.product(_SHAPES, _ESCAPES)})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the server of `empty_client`."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def _client(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[flight.FlightClient]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    with serving(served, log) as server, server.client() as client:
        yield client


@pytest.fixture
def empty_client(_client: flight.FlightClient, served: Path) -> flight.FlightClient:
    """Client of a server that the tests of a module share with nobody, and that has no datasets."""
    for directory in filter(Path.is_dir, served.iterdir()):
        shutil.rmtree(directory)
    return _client
