"""Streaming writes: every batch is one version, once, whatever dies in between."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from flight_client import Client
from support.servers.served import Root
from support.spark.stream_runs import run_to_the_end


class Copy:
    """A query that writes files of numbers, one file per batch, until there is none left."""

    def __init__(self, spark: SparkSession, uri: str, name: str, directory: Path) -> None:
        self._spark = spark
        self._uri = uri
        self.name = name
        self.source = directory / "source"
        self.checkpoint = directory / "checkpoint"
        self.source.mkdir()

    def add(self, *numbers: int) -> None:
        """A file, and so a batch."""
        lines = "".join(json.dumps({"n": number}) + "\n" for number in numbers)
        before = self.source.parent / "new"
        before.write_text(lines)
        before.replace(self.source / f"{len(list(self.source.iterdir())):03}.json")

    def run(self, mode: str = "append", **options: Any) -> None:
        reader = self._spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1)
        rows = reader.json(str(self.source))
        if mode == "complete":
            rows = rows.groupBy((rows.n % 2).alias("odd")).count()
        writer = rows.writeStream.format("lance_flight").options(uri=self._uri, table=self.name, **options)
        writer = writer.outputMode(mode).option("checkpointLocation", str(self.checkpoint))
        run_to_the_end(writer.trigger(availableNow=True))

    def forget_the_end_of_batch(self, number: int) -> None:
        """Remove Spark's record of a batch, as if the driver had died between the commit and the record."""
        (self.checkpoint / "commits" / str(number)).unlink()
        (self.checkpoint / "commits" / f".{number}.crc").unlink()


@pytest.fixture
def copy(
    spark: SparkSession, client: Client, uri: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Copy]:
    """To a table that is not there yet."""
    name = f"streams/{request.node.originalname}"
    yield Copy(spark, uri, name, tmp_path)
    client.drop_dataset(name)


def numbers(client: Client, name: str) -> list[int]:
    return sorted(client.dataset(name).to_table()["n"].to_pylist())


def staged(served: Root, name: str) -> list[Path]:
    """Records of what was staged and neither committed nor removed."""
    return list((served.path / f"{name}.lance" / "_staging").glob("*.staged"))


def test_a_batch_that_is_repeated_is_one_version(client: Client, copy: Copy, served: Root) -> None:
    """T44: also when no version tells of it any more; what was staged a second time is removed."""
    copy.add(1, 2)
    copy.add(3)
    copy.run(create="true")
    versions = client.versions(copy.name)
    copy.forget_the_end_of_batch(1)
    client.compact(copy.name)
    client.cleanup(copy.name, older_than_seconds=0)
    copy.add(4)
    copy.run(create="true")
    assert numbers(client, copy.name) == [1, 2, 3, 4]
    assert len(versions) == 2
    assert staged(served, copy.name) == []


def test_a_stream_without_a_name_is_refused(spark: SparkSession, tmp_path: Path, uri: str) -> None:
    """T44: neither a checkpoint of its own nor an app_id: what Spark makes up says nothing next time."""
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoint"))
    try:
        rows = spark.readStream.format("rate").load()
        writer = rows.writeStream.format("lance_flight").options(uri=uri, table="streams/none", create="true")
        with pytest.raises(Exception, match="checkpointLocation or app_id"):
            writer.start().awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


@pytest.mark.long
def test_another_checkpoint_with_the_same_app_id_is_refused(client: Client, copy: Copy) -> None:
    """T44: batch 0 of another checkpoint has other rows; no rows are lost or doubled silently."""
    copy.add(1)
    copy.run(create="true", app_id="numbers")
    copy.add(2)
    copy.run(app_id="numbers")
    shutil.rmtree(copy.checkpoint)
    with pytest.raises(StreamingQueryException, match="stream numbers: another query wrote under this name"):
        copy.run(app_id="numbers")
    assert numbers(client, copy.name) == [1, 2]
    copy.run(app_id="all numbers again")
    assert numbers(client, copy.name) == [1, 1, 2, 2]


@pytest.mark.long
def test_complete_replaces_the_table(client: Client, copy: Copy) -> None:
    """T44: repeated or not."""
    copy.add(1, 2, 3)
    copy.run("complete", create="true")
    counts = [{"odd": 0, "count": 1}, {"odd": 1, "count": 2}]
    assert sorted(client.dataset(copy.name).to_table().to_pylist(), key=str) == sorted(counts, key=str)
    copy.add(4)
    copy.run("complete")
    copy.forget_the_end_of_batch(1)
    copy.run("complete")
    counts = [{"odd": 0, "count": 2}, {"odd": 1, "count": 2}]
    assert sorted(client.dataset(copy.name).to_table().to_pylist(), key=str) == sorted(counts, key=str)
    assert client.dataset(copy.name).version == 2


@pytest.mark.long
def test_batches_without_rows_make_no_version(client: Client, copy: Copy) -> None:
    copy.add(1)
    copy.run(create="true")
    copy.add()
    copy.add(2)
    copy.run()
    assert numbers(client, copy.name) == [1, 2]
    assert client.dataset(copy.name).version == 2


@pytest.mark.long
def test_rows_that_do_not_fit_are_refused(client: Client, copy: Copy, served: Root) -> None:
    client.write(copy.name, {"m": [1]}, mode="create")
    copy.add(1)
    with pytest.raises(Exception, match="'n' is unknown"):
        copy.run()
    assert staged(served, copy.name) == []
    assert client.dataset(copy.name).version == 1
