"""Streaming reads: what a query gets of the versions of a dataset, and what it is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

import flight_client
from flight_client import Client
from spark_pipeline.failures import message_of
from support.servers.server import RunningServer
from support.spark.stream_runs import run_to_the_end

Batches = list[list[tuple[Any, ...]]]


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"row {n}" for n in numbers]})


class Stream:
    """A query that reads `name` until there is nothing left; what it got, batch by batch."""

    def __init__(self, spark: SparkSession, uri: str, name: str, checkpoint: Path) -> None:
        self._spark = spark
        self.uri = uri
        self.name = name
        self.checkpoint = checkpoint

    def run(self, *, begins_anew: bool = False, **options: Any) -> Batches:
        """Return the sorted rows of the batches that have any."""
        if begins_anew:
            shutil.rmtree(self.checkpoint, ignore_errors=True)
        got: dict[int, list[tuple[Any, ...]]] = {}

        def keep(frame: Any, number: int) -> None:
            got[number] = sorted(tuple(row) for row in frame.collect())

        reader = self._spark.readStream.format("lance_flight").options(uri=self.uri, table=self.name)
        writer = reader.options(**options).load().writeStream.foreachBatch(keep)
        run_to_the_end(writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True))
        return [batch for _, batch in sorted(got.items()) if batch]

    def ids(self, **options: Any) -> list[list[int]]:
        """Return the column `id` of the batches."""
        return [[row[0] for row in batch] for batch in self.run(**options)]


@pytest.fixture
def stream(
    spark: SparkSession, client: Client, uri: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Stream]:
    """Name of a new dataset with stable row ids, whose version 1 has the row 1."""
    name = f"streams/{request.node.originalname}"
    client.write(name, rows(1), mode="create", enable_stable_row_ids=True)
    yield Stream(spark, uri, name, tmp_path / "checkpoint")
    client.drop_dataset(name)


def test_a_stream_has_what_is_there_and_what_is_added(client: Client, stream: Stream) -> None:
    """Compactions in between do not matter, and a query that is started again continues at its checkpoint."""
    client.write(stream.name, rows(2, 3))
    assert stream.ids() == [[1, 2, 3]]
    for number in (4, 5):
        client.write(stream.name, rows(number))
    client.compact(stream.name)
    client.update_config(stream.name, config={"color": "blue"})
    client.write(stream.name, rows(6))
    assert stream.ids(maxVersionsPerTrigger=1) == [[4], [5], [6]]
    inserted = {"when_matched": "do_nothing", "when_not_matched": "insert_all"}
    client.merge_insert(stream.name, rows(6, 7), "id", **inserted)
    assert stream.ids() == [[7]]


def test_changes_are_refused_by_name_or_reported(client: Client, stream: Stream) -> None:
    client.write(stream.name, rows(2, 3, 4))
    assert stream.ids() == [[1, 2, 3, 4]]
    client.delete(stream.name, "id = 2")
    with pytest.raises(StreamingQueryException, match=r"version 3 of streams/.* deleted rows.*onChanges"):
        stream.run()
    client.merge_insert(
        stream.name, rows(3, 5), "id", when_matched="update_all", when_not_matched="insert_all"
    )
    # The same query: the user has decided, and it goes on with the versions that made it fail.
    assert stream.ids(onChanges="ignore") == [[5]]
    client.write(stream.name, rows(8), mode="overwrite")
    reported = stream.run(onChanges="report", startingVersion=1, begins_anew=True)
    assert sorted(row[2:] + row[:1] for row in chain(*reported)) == [
        ("delete", 3, 2),
        *(("delete", 5, number) for number in (1, 3, 4, 5)),
        ("insert", 1, 1),
        *(("insert", 2, number) for number in (2, 3, 4)),
        ("insert", 4, 5),
        ("insert", 5, 8),
        ("update", 4, 3),
    ]


@pytest.mark.long
def test_where_a_stream_begins(client: Client, stream: Stream) -> None:
    for number in (2, 3):
        client.write(stream.name, rows(number))
    assert stream.ids(startingVersion=1, maxVersionsPerTrigger=1) == [[1], [2], [3]]
    assert stream.ids(startingVersion=3, begins_anew=True) == [[3]]
    assert stream.ids(startingVersion="latest", begins_anew=True) == []
    client.write(stream.name, rows(4))
    assert stream.ids(startingVersion="latest") == [[4]]
    assert stream.ids(startingVersion=5, begins_anew=True) == []
    with pytest.raises(StreamingQueryException, match="expected 4 or less, the latest version, found 7"):
        stream.run(startingVersion=7, begins_anew=True)
    client.cleanup(stream.name, older_than_seconds=0)
    with pytest.raises(StreamingQueryException, match=r"version 1 of .* was cleaned up"):
        stream.run(startingVersion=2, begins_anew=True)
    assert stream.ids(begins_anew=True) == [[1, 2, 3, 4]]


@pytest.mark.long
def test_a_version_that_was_cleaned_up_is_named(client: Client, stream: Stream) -> None:
    stream.run()
    for number in (2, 3):
        client.write(stream.name, rows(number))
    client.cleanup(stream.name, older_than_seconds=0)
    with pytest.raises(StreamingQueryException, match=r"version 1 of .* was cleaned up"):
        stream.run()


@pytest.mark.long
@pytest.mark.parametrize("num_versions", [1, 3])
def test_a_dataset_that_was_made_again_is_refused(client: Client, stream: Stream, num_versions: int) -> None:
    """T44: whether it has fewer versions than the stream has read, or more."""
    client.write(stream.name, rows(2))
    stream.run()
    client.drop_dataset(stream.name)
    with pytest.raises(AnalysisException, match="no dataset"):
        stream.run()
    client.write(stream.name, rows(1), mode="create")
    for number in range(num_versions - 1):
        client.write(stream.name, rows(number))
    with pytest.raises(StreamingQueryException, match="dropped and created again"):
        stream.run()


@pytest.mark.long
def test_without_stable_row_ids(client: Client, stream: Stream) -> None:
    """Rows that were moved cannot be told from others: updates are refused by name; deletions can be told."""
    client.drop_dataset(stream.name)
    client.write(stream.name, rows(1, 2, 3), mode="create")
    client.delete(stream.name, "id = 2")
    client.compact(stream.name)
    client.write(stream.name, rows(4))
    reported = stream.run(onChanges="report", startingVersion=1)
    assert [row[2] for batch in reported for row in batch].count("delete") == 1
    assert sorted(row[0] for batch in reported for row in batch) == [1, 2, 2, 3, 4]
    client.update(stream.name, {"name": "'new'"}, "id = 4")
    with pytest.raises(StreamingQueryException, match="without stable row ids"):
        stream.run(onChanges="report")


@pytest.mark.long
def test_columns_filters_and_options(client: Client, stream: Stream, spark: SparkSession) -> None:
    client.write(stream.name, rows(2, 3))
    assert stream.run(columns="name", filter="id > 1") == [[("row 2",), ("row 3",)]]
    client.add_columns(stream.name, {"twice": "id * 2"})
    client.write(stream.name, pa.table({"id": [4], "name": ["row 4"], "twice": [8]}))
    assert stream.run(columns="name", filter="id > 1") == [[("row 4",)]]
    for wrong, message in (
        ({"version": 1}, "option version is for reads, not for streams that are read"),
        ({"maxRowsPerFile": 1}, "option maxRowsPerFile is for writes"),
        ({"onChanges": "report", "filter": "id > 1"}, "onChanges"),
        ({"onChanges": "sometimes"}, "fail, ignore or report"),
        ({"startingVersion": 0}, "startingVersion"),
    ):
        with pytest.raises(Exception, match=message) as caught:
            stream.run(begins_anew=True, **wrong)
        assert message in message_of(caught.value)


@pytest.mark.long
def test_many_versions_and_large_ones(client: Client, stream: Stream) -> None:
    """Twenty appends are one plan; a large version is several partitions."""
    for number in range(20):
        client.write(stream.name, rows(100 + number))
    client.write(stream.name, rows(*range(1000, 31_000)), max_rows_per_file=5000)
    got = stream.ids(startingVersion=1)
    assert got[0] == [1]
    assert got[1] == [*range(100, 120), *range(1000, 31_000)]


@pytest.mark.long
def test_available_now_stops_at_what_was_there(
    spark: SparkSession, client: Client, stream: Stream, uri: str
) -> None:
    """Rows that come while the query runs are for the next one."""
    seen: list[int] = []

    def add(frame: Any, number: int) -> None:
        seen.extend(row[0] for row in frame.collect())
        client.write(stream.name, rows(100 + number))

    def run() -> None:
        reader = spark.readStream.format("lance_flight").options(uri=uri, table=stream.name)
        writer = reader.option("maxVersionsPerTrigger", 1).load().writeStream.foreachBatch(add)
        writer = writer.option("checkpointLocation", str(stream.checkpoint))
        run_to_the_end(writer.trigger(availableNow=True))

    run()
    assert seen == [1]
    run()
    assert seen == [1, 100]


@pytest.mark.long
def test_a_branch_is_a_stream_of_its_own(client: Client, stream: Stream) -> None:
    client.create_branch(stream.name, "dev")
    client.write(f"{stream.name}@dev", rows(2))
    client.write(stream.name, rows(3))
    assert stream.ids(branch="dev") == [[1, 2]]
    client.write(f"{stream.name}@dev", rows(4))
    assert stream.ids(branch="dev") == [[4]]


@pytest.mark.long
def test_a_continuous_query_outlives_its_server(
    spark: SparkSession,
    serve: Callable[..., RunningServer],
    served: Any,
    client: Client,
    stream: Stream,
) -> None:
    """T44: or it fails while the server is away, and goes on from its checkpoint."""
    server = serve(served.path)
    port = server.uri.rpartition(":")[2]
    seen: dict[int, list[int]] = {}
    reader = spark.readStream.format("lance_flight").options(uri=server.uri, table=stream.name)
    writer = reader.load().writeStream.foreachBatch(
        lambda frame, number: seen.__setitem__(number, sorted(row[0] for row in frame.collect()))
    )
    writer = writer.option("checkpointLocation", str(stream.checkpoint))
    query = writer.start()
    try:
        for number in range(2, 6):
            server.kill()
            server = serve(served.path, "--port", port)
            client.write(stream.name, rows(number))
            try:
                query.processAllAvailable()
            except StreamingQueryException:
                query = writer.start()
                query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(chain(*seen.values())) == [1, 2, 3, 4, 5]
    assert flight_client.connect(server.uri).dataset(stream.name).version == 5
