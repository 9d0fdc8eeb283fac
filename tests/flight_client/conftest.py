"""A server on datasets that the reference wrote, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import flight_client
from support.served import Root, StartServer, write_root
from support.server import RunningServer, start_server


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return write_root(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests that leave its datasets as they are."""
    server = start_server(root.path, tmp_path_factory.mktemp("log") / "server.log")
    yield server
    assert server.process.poll() is None, f"the server died:\n{server.log}"
    assert server.stop() == 0


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[flight_client.Client]:
    with flight_client.connect(server.uri) as client:
        yield client


@pytest.fixture
def trips(client: flight_client.Client) -> flight_client.RemoteDataset:
    return client.dataset("trips")


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
