"""Source of rows: files, databases, anything that Spark reads, or a dataset of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DoubleType, StringType, StructField, StructType

from flight_client import InvalidInputError
from spark_pipeline.data_source import read
from spark_pipeline.jobs.columns import column_named
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
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "csv": {
        "header": "true",
        "mode": "FAILFAST",
        # Otherwise the columns of a schema are those of the file by position, whatever the header says.
        "enforceSchema": "false",
        # Quotes within quotes are doubled, as RFC 4180 says, and may have line breaks between them.
        "escape": '"',
        "multiLine": "true",
        # Spark takes this text for empty cells without quotes; an empty text in quotes then is no null.
        "nullValue": "\0",
    },
    "json": {"mode": "FAILFAST"},
}
"""Options that differ from Spark's defaults, with which values get lost or end in other columns or rows."""

_OTHER_SEPARATORS = ";\t|"

_LONG_INTEGER = "^-?[0-9]{16,}$"
"""Integers with as many digits as the least that a double rounds."""

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
        given_format = self.format or _format_of(paths[0])
        options = {**_DEFAULTS.get(given_format.lower(), {}), **self.options}
        reader = spark.read.format(given_format).options(**options)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        frame = reader.load(paths) if paths else reader.load()
        if given_format.lower() == "csv":
            _check_separator(frame, options)
        elif given_format.lower() == "json" and self.schema is None:
            texts = _with_texts(frame.schema)
            if texts != frame.schema:
                exact = [_exact(column_named(each.name), each.dataType, each.name) for each in frame.schema]
                names = frame.columns
                frame = (
                    reader.schema(texts)
                    .load(paths)
                    .select(*(column.alias(name) for column, name in zip(exact, names, strict=True)))
                )
        return frame


def _with_texts(data_type: Any) -> Any:
    """Return a type with text in place of doubles: Spark reads the digits of a number as they are."""
    if isinstance(data_type, StructType):
        return StructType(
            [StructField(each.name, _with_texts(each.dataType), each.nullable) for each in data_type]
        )
    if isinstance(data_type, ArrayType):
        return ArrayType(_with_texts(data_type.elementType), data_type.containsNull)
    return StringType() if isinstance(data_type, DoubleType) else data_type


def _exact(value: Column, data_type: DataType, path: str) -> Column:
    """Return values of the type `data_type`, read with the type that `_with_texts` makes of it.

    Spark infers doubles for integers among fractions and for integers beyond decimals. An integer that a
    double rounds is an error when the rows are read; `path` names its field.
    """
    if isinstance(data_type, StructType):
        children = [_exact(value[each.name], each.dataType, f"{path}.{each.name}") for each in data_type]
        names = data_type.names
        return f.when(
            value.isNotNull(),
            f.struct(*(child.alias(name) for child, name in zip(children, names, strict=True))),
        )
    if isinstance(data_type, ArrayType):
        item_type = data_type.elementType
        if _with_texts(item_type) == item_type:
            return value
        return f.transform(value, lambda item: _exact(item, item_type, path))
    if not isinstance(data_type, DoubleType):
        return value
    double = value.cast("double")
    as_integer = "decimal(38, 0)"
    is_kept = f.coalesce(double.try_cast(as_integer) == value.try_cast(as_integer), f.lit(False))
    message = f"source: field {path}: a double changes the integer %s; give a schema"
    return f.when(
        value.rlike(_LONG_INTEGER) & ~is_kept, f.raise_error(f.format_string(message, value))
    ).otherwise(double)


def _check_separator(frame: DataFrame, options: Mapping[str, str]) -> None:
    """Refuse CSV that became one column because its cells have something else than commas between them."""
    if options.keys() & {"sep", "delimiter"} or len(frame.columns) != 1:
        return
    found = [separator for separator in _OTHER_SEPARATORS if separator in frame.columns[0]]
    if found:
        raise InvalidInputError(
            f"source: the only column is {frame.columns[0]!r}; give the option sep={found[0]!r}"
        )


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
