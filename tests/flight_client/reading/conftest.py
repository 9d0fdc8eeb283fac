"""Datasets with vectors that two servers share, opened locally and by a client."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

import flight_client
import lance_core
from flight_client import RemoteDataset
from support.searches.nearest import lattice, vector_table
from support.searches.texts import random_rows
from support.servers.cluster import Cluster


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return vector_table(lattice(1000, 6))


@pytest.fixture(scope="module")
def cluster(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two servers of the datasets of `local` and `hybrid`."""
    root = tmp_path_factory.mktemp("root")
    local = lance_core.write_dataset(table, root / "t.lance", max_rows_per_file=150)
    local.delete("id % 10 = 3")
    texts = random_rows(random.Random(5), 0, 700).append_column("v", table["v"].slice(0, 700))
    hybrid = lance_core.write_dataset(texts.slice(0, 600), root / "h.lance", max_rows_per_file=110)
    hybrid.create_scalar_index("text", "INVERTED", stem=False, remove_stop_words=False)
    hybrid.insert(texts.slice(600))
    hybrid.delete("number % 10 = 3")
    cluster = Cluster(root, tmp_path_factory.mktemp("logs"), 2)
    try:
        for number in range(2):
            cluster.start(number)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def local(cluster: Cluster) -> lance_core.LanceDataset:
    """The dataset `t`: the rows of `table` in several fragments, without each tenth row."""
    return lance_core.dataset(cluster.root / "t.lance")


@pytest.fixture(scope="module")
def remote(cluster: Cluster) -> Iterator[RemoteDataset]:
    """The dataset of `local`, as a client of both servers sees it."""
    with flight_client.connect(cluster.uris) as client:
        yield client.dataset("t")


@pytest.fixture(scope="module")
def hybrid(cluster: Cluster) -> Iterator[tuple[RemoteDataset, lance_core.LanceDataset]]:
    """The dataset `h` with texts and vectors, as a client sees it, and opened locally."""
    with flight_client.connect(cluster.uris) as client:
        yield client.dataset("h"), lance_core.dataset(cluster.root / "h.lance")
