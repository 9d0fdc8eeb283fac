"""A server on the demo dataset."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

# Arrow keeps the first of two types with one name. The reference does not load after our types, which some
# tests here register by looking at all names.
import lance.arrow  # noqa: F401
import pytest

from support.servers.server import serving
from support.stores.s3 import S3

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def demo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URI of a `lance-flight serve` process on a copy of ``demo/data``, since some examples write."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(ROOT / "demo" / "data", folder / "data")
    with serving(folder / "data", folder / "log") as server:
        yield server.uri


@pytest.fixture(scope="session")
def s3_endpoint(s3: S3) -> str:
    """Address of an S3 server with the bucket that the examples use."""
    s3.client.create_bucket(Bucket="lance-data")
    return s3.endpoint
