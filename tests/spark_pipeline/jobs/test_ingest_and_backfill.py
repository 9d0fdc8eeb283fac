"""The way of most data: files become a sorted dataset, get another column, and are verified."""

from __future__ import annotations

import hashlib
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from flight_client import Client, DatasetExistsError, InvalidInputError
from spark_pipeline.jobs import Server, Source, backfill, ingest, verify
from support.servers.served import Root

NUM_ROWS = 3000
COLUMNS = {"id": "number", "fare": "CAST(price AS FLOAT)", "driver": "driver", "vector": "vector"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows in disorder."""
    numbers = [number * 1009 % NUM_ROWS for number in range(NUM_ROWS)]
    table = pa.table(
        {
            "number": numbers,
            "price": [None if number % 7 == 0 else number / 3 for number in numbers],
            "driver": [f"driver {number % 17}" for number in numbers],
            "vector": [[float(number), 0.5] for number in numbers],
        }
    )
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(table.slice(0, 1000), folder / "a.parquet")
    pq.write_table(table.slice(1000), folder / "b.parquet")
    return str(folder)


def digests(dataset: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (dataset / "data").iterdir()}


def test_files_become_a_dataset_in_order(
    spark: SparkSession, uri: str, client: Client, served: Root, files: str
) -> None:
    """T44: a job that is run again with its transaction id writes once; files of others stay as they are."""
    server, source, transaction_id = Server.of(uri), Source(path=files), str(uuid4())

    def run() -> object:
        return ingest(
            spark,
            server,
            "jobs/sorted",
            source,
            mode="create",
            columns=COLUMNS,
            sort_by=["id"],
            partitions=3,
            vectors={"vector": 2},
            transaction_id=transaction_id,
        )

    first, second = run(), run()
    assert (first.version, first.rows, first.was_done) == (1, NUM_ROWS, False)
    assert (second.version, second.rows, second.was_done) == (1, NUM_ROWS, True)
    there = client.dataset("jobs/sorted")
    assert there.schema.field("vector").type == pa.list_(pa.float64(), 2)
    assert there.schema.field("fare").type == pa.float32()
    table = there.to_table()
    assert table["id"].to_pylist() == list(range(NUM_ROWS))
    assert table["fare"].null_count == -(-NUM_ROWS // 7)
    statistics = there.scanner(["driver"], "id < 10").statistics
    assert (statistics["fragments_total"], statistics["fragments_pruned"]) == (3, 2)
    assert statistics["pages_pruned"] > 0
    with pytest.raises(DatasetExistsError):
        ingest(spark, server, "jobs/sorted", source, mode="create")

    client.delete("jobs/sorted", "id IN (0, 5, 2999)")
    before = digests(served.path / "jobs" / "sorted.lance")
    outcome = backfill(spark, server, "jobs/sorted", {"net": "fare * 0.5", "words": "split(driver, ' ')"})
    after = digests(served.path / "jobs" / "sorted.lance")
    assert before.items() < after.items()
    assert len(after) == len(before) + 3
    assert outcome.details == {"fragments": 3, "fragments_without": 0}
    rows = client.dataset("jobs/sorted").to_table(filter="id IN (1, 2998, 7)").to_pylist()
    assert [(row["id"], row["net"], row["words"]) for row in rows] == [
        (1, pytest.approx(1 / 6), ["driver", "1"]),
        (7, None, ["driver", "7"]),
        (2998, pytest.approx(2998 / 6), ["driver", "6"]),
    ]

    client.update("jobs/sorted", {"driver": "'somebody else'"}, "id = 1234")
    found = verify(spark, server, "jobs/sorted", source, columns=COLUMNS, keys=["id"], buckets=8).details
    assert not found["is_equal"]
    assert (found["missing"], found["unexpected"]) == (4, 1)
    assert found["keys"] == [["0"], ["1234"], ["2999"], ["5"]] or len(found["keys"]) == 4
    assert list(found["fragments"].values()) == [1]
    assert found["columns_left_out"] == ["net", "words"]


def test_columns_that_are_none_of_the_row_are_refused(spark: SparkSession, uri: str) -> None:
    server = Server.of(uri)
    with pytest.raises(InvalidInputError, match="found a window"):
        backfill(spark, server, "trips", {"total": "sum(fare) OVER (PARTITION BY driver)"})
    with pytest.raises(InvalidInputError, match="has a column 'fare' already"):
        backfill(spark, server, "trips", {"fare": "id"})
