"""One Spark session and one server per test process, and a client of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import flight_client
import spark_pipeline
from support.served import Root, StartServer, write_root
from support.server import RunningServer, start_server
from support.spark import SETTINGS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs the tests of this folder: each would start a Java of its own."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two task slots, up to four attempts of a task."""
    session = spark_pipeline.session("tests", "local[2,4]", **SETTINGS)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """The folder that is served."""
    return write_root(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(served: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests; datasets of `served` stay as they are, others are a test's own."""
    server = start_server(served.path, tmp_path_factory.mktemp("log") / "server.log")
    yield server
    assert server.process.poll() is None, f"the server died:\n{server.log}"
    assert server.stop() == 0


@pytest.fixture(scope="session")
def uri(server: RunningServer) -> str:
    return server.uri


@pytest.fixture(scope="session")
def client(uri: str) -> Iterator[flight_client.Client]:
    with flight_client.connect(uri) as client:
        yield client


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start servers that end with the test: `serve(root, "--max-streams", "2")`."""
    started: list[RunningServer] = []

    def start(root: object, *options: str, **environment: str) -> RunningServer:
        log = tmp_path_factory.mktemp("log") / "server.log"
        server = start_server(str(root), log, *options, **environment)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()
