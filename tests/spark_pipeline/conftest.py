"""One Spark session per test process, and a client of the server that the tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import flight_client
from support.servers.served import Root
from support.servers.server import RunningServer
from support.spark.session import SharedSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs the tests of this folder: each would start a Java of its own."""
    for item in items:
        if item.nodeid.startswith("tests/spark_pipeline/"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def shared_session() -> Iterator[SharedSession]:
    """One Java for all tests of the process."""
    shared = SharedSession()
    yield shared
    shared.stop()


@pytest.fixture
def spark(shared_session: SharedSession) -> Iterator[SparkSession]:
    """Two task slots, up to four attempts of a task. A test whose Java ends fails, and says how it ended; the
    next one has another.
    """
    yield shared_session.running()
    ending = shared_session.ending()
    assert ending is None, ending


@pytest.fixture(scope="session")
def served(root: Root) -> Root:
    """The folder that is served; its datasets stay as they are, others are a test's own."""
    return root


@pytest.fixture(scope="session")
def uri(server: RunningServer) -> str:
    return server.uri


@pytest.fixture(scope="session")
def client(uri: str) -> Iterator[flight_client.Client]:
    with flight_client.connect(uri) as client:
        yield client
