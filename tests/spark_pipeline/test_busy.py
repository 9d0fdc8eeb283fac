"""Busy servers: jobs of Spark come back when they are told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import flight_client
from support.clients.held_uploads import end_after_refusals
from support.servers.server import serving


@pytest.mark.long
def test_a_write_waits_until_the_server_takes_it(spark: SparkSession, tmp_path: Path) -> None:
    """T6: tasks whose uploads a server refuses wait as long as it says, and no task fails."""
    root = tmp_path / "root"
    root.mkdir()
    with serving(root, tmp_path / "server.log", "--max-puts", "1") as server:
        client = flight_client.connect(server.uri)
        client.write("t", pa.table({"id": pa.array([], pa.int64())}), "create")
        holder = end_after_refusals(2, server)
        frame = spark.range(1000, numPartitions=2)
        frame.write.format("lance_flight").options(uri=server.uri, table="t").mode("append").save()
        holder.join()
        assert client.dataset("t").count_rows() == 1000
