"""Source of rows: files, databases, anything that Spark reads, or a dataset of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession

from flight_client import InvalidInputError
from spark_pipeline.data_source import read
from spark_pipeline.jobs.server import Server

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
}
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4", ".snappy"}


@dataclass(frozen=True)
class Source:
    """Rows for a job. Exactly one of `path`, `dataset` and a format that needs no path."""

    path: str | Sequence[str] = ()
    """Files, folders or globs, as Spark takes them."""
    format: str | None = None
    """Format for `spark.read.format`; None: from the ending of the first path, Parquet for a folder."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of this format: `header`, `url`, `dbtable`, ..."""
    schema: str | None = None
    """Columns and types as in a CREATE TABLE; None: as the files say."""
    dataset: str | None = None
    """A dataset of the server, perhaps with a version: `trips@12`."""
    filter: str | None = None
    """Only with `dataset`: a condition that the server evaluates."""

    def frame(self, spark: SparkSession, server: Server) -> DataFrame:
        """Return the rows.

        Raises:
            InvalidInputError: the fields do not go together.
            AnalysisException: Spark finds no such files, format or columns.
        """
        if self.dataset is not None:
            if self.path or self.format or self.options or self.schema:
                raise InvalidInputError("source: dataset goes with filter alone")
            return read(spark, server.uris, self.dataset, filter=self.filter, **server.read_options)
        if self.filter is not None:
            raise InvalidInputError("source: filter goes with dataset; use `where`")
        paths = [self.path] if isinstance(self.path, str) else list(self.path)
        if not paths and self.format is None:
            raise InvalidInputError("source: a path, a format or a dataset is needed")
        reader = spark.read.format(self.format or _format_of(paths[0])).options(**self.options)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        return reader.load(paths) if paths else reader.load()


def _format_of(path: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    if not suffixes or "*" in suffixes[-1]:
        return "parquet"
    if suffixes[-1] not in _FORMATS:
        known = ", ".join(sorted(_FORMATS))
        raise InvalidInputError(f"source: what {path} is does not show ({known}); give a format")
    return _FORMATS[suffixes[-1]]
