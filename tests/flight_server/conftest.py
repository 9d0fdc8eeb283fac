"""Datasets that the reference wrote, and server processes on them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.served import Root, StartServer, write_root
from support.server import RunningServer, start_server


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return write_root(tmp_path_factory.mktemp("served"))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[StartServer]:
    """Start servers that end with the test: `serve(root, "--max-streams", "2")`."""
    started: list[RunningServer] = []

    def start(root: Path, *options: str, **environment: str) -> RunningServer:
        server = start_server(root, tmp_path / f"server-{len(started)}.log", *options, **environment)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def server(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests that leave it as it is; it must live to the end and then stop cleanly."""
    server = start_server(root.path, tmp_path_factory.mktemp("log") / "server.log")
    yield server
    assert server.process.poll() is None, f"the server died:\n{server.log}"
    assert server.stop() == 0


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
