"""The writer as Spark's driver and tasks call it, without Spark running."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage

import flight_client
from flight_client import CommitConflictError, DatasetNotFoundError, InvalidInputError
from spark_pipeline.arrow_types import spark_schema, to_spark
from spark_pipeline.batch_write import BatchWriter
from spark_pipeline.data_source import LanceFlightDataSource
from spark_pipeline.data_source_options import Options
from support.servers.served import Root
from support.spark.settings import ARRAYS

ROWS = pa.table({"id": [1, 2, 3], "word": ["a", None, "c"]})


@pytest.fixture
def table() -> str:
    return f"writer/{uuid.uuid4().hex}"


def writer_for(
    uri: str, table: str, rows: pa.Table, *, overwrite: bool = False, **options: str
) -> BatchWriter:
    return BatchWriter(
        Options.parse({"uri": uri, "table": table, **options}), spark_schema(rows.schema), overwrite
    )


def staged(writer: BatchWriter, *parts: pa.Table) -> list[WriterCommitMessage | None]:
    """Return the messages of one task for each part."""
    return [writer.write(iter(part.to_batches())) for part in parts]


def records(served: Root, table: str) -> list[Path]:
    """Return the records of staged writes that are neither committed nor removed."""
    return list((served.path / f"{table}.lance" / "_staging").glob("*.staged"))


def test_commit_and_abort(client: flight_client.Client, uri: str, served: Root, table: str) -> None:
    """T44: the commit has the rows of the tasks that it is told of; an abort removes what it is told of."""
    writer = writer_for(uri, table, ROWS, create="true", maxRowsPerFile="1")
    messages = staged(writer, ROWS.slice(2), ROWS.slice(0, 2))
    orphans = staged(writer, ROWS)
    writer.commit(messages)
    assert client.dataset(table).to_table()["id"].to_pylist() == [3, 1, 2]
    assert client.describe(table)["fragments"] == 3
    writer.commit(messages)  # asked again after a lost answer
    assert client.dataset(table).version == 1

    assert len(records(served, table)) == 1
    writer.abort([None, *orphans])
    assert records(served, table) == []
    failed = writer_for(uri, table, ROWS)
    failed.abort([*staged(failed, ROWS), None])
    assert (client.dataset(table).version, records(served, table)) == (1, [])


def test_without_rows(client: flight_client.Client, uri: str, table: str) -> None:
    """An append of nothing is no version; an overwrite with nothing leaves nothing."""
    nothing = ROWS.slice(0, 0)
    for overwrite, version in [(False, 1), (False, 1), (True, 2)]:
        writer = writer_for(uri, table, nothing, overwrite=overwrite, create="true")
        writer.commit(staged(writer, nothing, nothing))
        there = client.dataset(table)
        assert (there.version, there.count_rows(), there.schema.names) == (version, 0, ["id", "word"])


def test_a_name_writes_once(client: flight_client.Client, uri: str, served: Root, table: str) -> None:
    """T44: a job that is run again, or twice at a time, under its name adds its rows once."""
    for name, expected in [("monday", 3), ("monday", 3), ("tuesday", 6)]:
        writer = writer_for(uri, table, ROWS, create="true", app_id=name)
        writer.commit(staged(writer, ROWS))
        assert client.dataset(table).count_rows() == expected
    twins = [writer_for(uri, table, ROWS, app_id="wednesday") for _ in range(2)]
    messages = [staged(twin, ROWS) for twin in twins]
    for twin, message in zip(twins, messages, strict=True):
        twin.commit(message)
    assert client.dataset(table).count_rows() == 9
    assert records(served, table) == []


def test_two_that_create_the_same_dataset(client: flight_client.Client, uri: str, table: str) -> None:
    """The second is refused rather than let replace the rows of the first."""
    first, second = (writer_for(uri, table, ROWS, create="true") for _ in range(2))
    messages = [staged(writer, ROWS) for writer in (first, second)]
    first.commit(messages[0])
    with pytest.raises(CommitConflictError):
        second.commit(messages[1])
    assert client.dataset(table).count_rows() == 3


def test_every_type_is_written(client: flight_client.Client, uri: str, table: str) -> None:
    """T24: rows go back into the types of the dataset that they came from."""
    columns = {name: array.take([i % len(array) for i in range(6)]) for name, array in ARRAYS.items()}
    expected = pa.table(columns)
    client.create_dataset(table, expected.schema)
    schema = spark_schema(expected.schema)
    rows = pa.Table.from_batches([to_spark(batch, schema) for batch in expected.to_batches()])
    writer = writer_for(uri, table, expected)
    writer.commit(staged(writer, rows))
    assert str(client.dataset(table).to_table().to_pydict()) == str(expected.to_pydict())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.select(["id"]), "'word' .string. is missing"),
        (ROWS.append_column("more", [[1, 2, 3]]), "'more' is unknown"),
        (ROWS.set_column(0, "id", [["1", "2", "3"]]), "'id': expected bigint, found string"),
    ],
)
def test_rows_that_do_not_fit(
    client: flight_client.Client, uri: str, table: str, rows: pa.Table, message: str
) -> None:
    """Rows that do not fit are refused before anything is written, by the names of the columns."""
    client.write(table, ROWS, "create")
    with pytest.raises(InvalidInputError, match=message):
        writer_for(uri, table, rows)
    writer_for(uri, table, rows, overwrite=True)
    writer_for(uri, table, ROWS.select(["word", "id"]))  # in any order


def test_what_cannot_be_written(client: flight_client.Client, uri: str, table: str) -> None:
    with pytest.raises(DatasetNotFoundError):
        writer_for(uri, table, ROWS)
    with pytest.raises(
        InvalidInputError, match="option filter is for reads and streams that are read, not for writes"
    ):
        writer_for(uri, table, ROWS, create="true", filter="id > 1")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("small", pa.uint8())])
    client.create_dataset(table, schema)
    for row in ({"id": None, "small": 1}, {"id": 1, "small": 300}):
        rows = pa.Table.from_pylist([row], pa.schema([("id", pa.int64()), ("small", pa.int16())]))
        with pytest.raises(InvalidInputError, match=r"id|small"):
            staged(
                BatchWriter(Options.parse({"uri": uri, "table": table}), spark_schema(rows.schema), False),
                rows,
            )


def test_options() -> None:
    """Names without case; what there is not, or makes no sense, is refused by name. Tokens stay hidden."""
    given = {
        "uri": "grpc://a:1, grpc://b:2",
        "path": "t",
        "BATCHSIZE": "5",
        "token": "secret",
        "columns": "a, b.c",
    }
    options = Options.parse(given)
    assert (options.uri, options.table, options.batch_size) == (("grpc://a:1", "grpc://b:2"), "t", 5)
    assert options.columns == ("a", "b.c")
    assert "secret" not in repr(options)
    assert Options.parse({**given, "columns": '{"x": "a + 1"}'}).columns == {"x": "a + 1"}
    for wrong, message in [
        ({"colums": "a"}, "no option 'colums', did you mean columns"),
        ({"batchSize": "0"}, "option batchSize: expected rows, 1 or more, found '0'"),
        ({"create": "maybe"}, "option create: expected true or false"),
        ({"columns": '["a", 1]'}, "option columns"),
        ({"version": "1", "tag": "x"}, "version and tag: expected one of them"),
        ({"tokenFile": "/none"}, "token and tokenFile: expected one of them"),
        ({"uri": ""}, "option uri is missing"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            Options.parse(given | wrong)


def test_options_are_for_something() -> None:
    """An option of another use is refused by name."""
    given = {"uri": "grpc://a:1", "table": "t"}
    for name, value, uses in [
        ("version", "1", {"reads"}),
        ("timestampAsOf", "2024-01-01", {"reads"}),
        ("filter", "a > 1", {"reads", "streams that are read"}),
        ("startingVersion", "latest", {"streams that are read"}),
        ("onChanges", "report", {"streams that are read"}),
        ("create", "true", {"writes"}),
        ("maxRowsPerFile", "5", {"writes"}),
        ("app_id", "me", {"writes"}),
        ("branch", "dev", {"reads", "streams that are read", "writes"}),
    ]:
        options = Options.parse({**given, name: value})
        for use in ("reads", "streams that are read", "writes"):
            if use in uses:
                options.check_use(use)
            else:
                with pytest.raises(InvalidInputError, match=f"option {name} is for .*, not for {use}"):
                    options.check_use(use)


def test_the_reader_of_a_stream_tells_what_is_wrong_when_it_is_used() -> None:
    """Spark loses what its making says: it stops a reader that it has not got."""
    source = LanceFlightDataSource({"uri": "grpc://127.0.0.1:1", "table": "t", "version": "1"})
    reader = source.streamReader(spark_schema(pa.schema([("id", pa.int64())])))
    with pytest.raises(InvalidInputError, match="option version is for reads"):
        reader.initialOffset()
    reader.stop()
