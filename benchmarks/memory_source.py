"""Data source of Spark that yields batches from memory: the cost of Python sources without any reading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

SCHEMA_FILE = "schema.json"


class MemorySource(DataSource):
    """Data source that yields the batches of the files of a folder, one partition per file."""

    @classmethod
    def name(cls) -> str:
        return "from_memory"

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads((Path(self.options["folder"]) / SCHEMA_FILE).read_text()))

    def reader(self, schema: StructType) -> DataSourceReader:
        return MemoryReader(self.options["folder"])


class MemoryReader(DataSourceReader):
    """Reader of `MemorySource`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(Path(self._folder).glob("*.arrows"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as mapped:
            yield from pa.ipc.open_stream(mapped)
