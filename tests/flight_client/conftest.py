"""A client of the server that the tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import flight_client
from support.servers.server import RunningServer, serving


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[flight_client.Client]:
    with flight_client.connect(server.uri) as client:
        yield client


@pytest.fixture
def trips(client: flight_client.Client) -> flight_client.RemoteDataset:
    return client.dataset("trips")


@pytest.fixture(scope="session")
def _writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("writable")
    with serving(folder, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield folder, server.uri


@pytest.fixture
def written(_writable: tuple[Path, str]) -> Iterator[Path]:
    """A folder that a server serves; it is empty again after the test."""
    yield _writable[0]
    for path in filter(Path.is_dir, _writable[0].iterdir()):
        shutil.rmtree(path)


@pytest.fixture
def writer(written: Path, _writable: tuple[Path, str]) -> Iterator[flight_client.Client]:
    """A client of the server of `written`."""
    with flight_client.connect(_writable[1]) as client:
        yield client
