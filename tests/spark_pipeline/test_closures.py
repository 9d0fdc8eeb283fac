"""Datasets in the functions that Spark sends to its Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd
from pyspark.sql import Row, SparkSession

import flight_client
import lance_core
from support.servers.served import Root


def test_functions_hold_datasets(spark: SparkSession, client: flight_client.Client, served: Root) -> None:
    """Local and remote ones that were read before: workers take the rows of the keys that they get."""
    remote, local = client.dataset("trips"), lance_core.dataset(served.path / "trips.lance")
    expected = local.take(list(range(40)), ["driver"])["driver"].to_pylist()
    assert remote.take(list(range(40)), ["driver"])["driver"].to_pylist() == expected
    rows = spark.range(0, 40, 1, 4)

    def drivers(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            keys = frame["id"].to_numpy()
            yield pd.DataFrame(
                {
                    "id": keys,
                    "here": local.take(keys, ["driver"])["driver"].to_pandas(),
                    "there": remote.take(keys, ["driver"])["driver"].to_pandas(),
                }
            )

    found = rows.mapInPandas(drivers, "id long, here string, there string").orderBy("id").collect()
    assert [(row.here, row.there) for row in found] == [(driver, driver) for driver in expected]

    def check(partition: Iterable[Row]) -> None:
        keys = [row.id for row in partition]
        assert local.take(keys, ["id"]) == remote.take(keys, columns=["id"])

    rows.foreachPartition(check)
