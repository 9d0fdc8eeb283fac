"""A server of two processes, which takes seconds of a processor to start."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers.served import Root
from support.servers.server import RunningServer, serving


@pytest.fixture(scope="session")
def folder(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the tests may change."""
    path = tmp_path_factory.mktemp("workers")
    shutil.copytree(root.path / "trips.lance", path / "trips.lance")
    return path


@pytest.fixture(scope="session")
def workers(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests; a worker that a test kills is started again."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = ("--workers", "2", "--memory-limit", "256MiB", "--http-port", "0", "--health-port", "0")
    with serving(folder, log, *options) as server:
        yield server
