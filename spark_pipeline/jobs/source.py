"""Source of rows: files, databases, any other source of Spark, or a dataset of a server."""

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
from spark_pipeline.jobs.job import about
from spark_pipeline.jobs.selection import column_named
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
        # Otherwise Spark ignores the header and assigns the columns of a schema by position.
        "enforceSchema": "false",
        # RFC 4180: a quote within quotes is doubled, and quoted cells may have line breaks.
        "escape": '"',
        "multiLine": "true",
        # Empty cells without quotes become null, and an empty text in quotes stays a text.
        "nullValue": "\0",
    },
    "json": {"mode": "FAILFAST"},
}
"""Options that differ from Spark's defaults. Those lose values or put them into other columns or rows."""

_OTHER_SEPARATORS = ";\t|"

_LONG_INTEGER = "^-?[0-9]{16,}$"
"""Integers with 16 digits or more. A double may round them."""

_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4", ".snappy"}


@dataclass(frozen=True)
class Source:
    """Rows for a job. Give exactly one of `path`, `dataset`, and a format that needs no path."""

    path: str | Sequence[str] = field(default=(), metadata=about("Files, folders or globs."))
    format: str | None = field(
        default=None,
        metadata=about(
            "Format for `spark.read.format`; if not given, that of the ending of the first path, Parquet "
            "for a folder."
        ),
    )
    options: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about(
            "Options of the format: `header`, `url`, `dbtable`, ...", flag="--option", unit="name=value"
        ),
    )
    schema: str | None = field(
        default=None,
        metadata=about(
            "Columns and types of the files, as in a CREATE TABLE of Spark: 'id BIGINT, name STRING'."
        ),
    )
    dataset: str | None = field(
        default=None, metadata=about("Dataset of the server, perhaps with a version: `trips@12`.")
    )
    filter: str | None = field(
        default=None, metadata=about("Condition that the server evaluates; only with `dataset`.")
    )

    def frame(self, spark: SparkSession, server: Server) -> DataFrame:
        """Return the rows.

        Raises:
            InvalidInputError: the fields contradict each other.
            AnalysisException: Spark does not find the files, the format or the columns.
        """
        if self.dataset is not None:
            if self.path or self.format or self.options or self.schema:
                raise InvalidInputError(
                    "source: dataset allows filter only, without path, format, options and schema"
                )
            return read(spark, server.uris, self.dataset, filter=self.filter, **server.read_options)
        if self.filter is not None:
            raise InvalidInputError("source: filter needs a dataset, use `where` for other sources")
        paths = [self.path] if isinstance(self.path, str) else list(self.path)
        if not paths and self.format is None:
            raise InvalidInputError("source: expected a path, a format or a dataset, found none")
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
    """Return a type with text in place of doubles, so that Spark keeps the digits of numbers."""
    if isinstance(data_type, StructType):
        return StructType(
            [StructField(each.name, _with_texts(each.dataType), each.nullable) for each in data_type]
        )
    if isinstance(data_type, ArrayType):
        return ArrayType(_with_texts(data_type.elementType), data_type.containsNull)
    return StringType() if isinstance(data_type, DoubleType) else data_type


def _exact(value: Column, data_type: DataType, path: str) -> Column:
    """Return values as `data_type`. They were read with the type that `_with_texts` makes of it.

    Spark infers doubles for integers beside fractions, and for integers that no decimal holds. Reading a row
    raises an error if a double rounds an integer of it. The error names the field, `path`.
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
    message = f"source: field {path}: a double rounds the integer %s, give a schema with another type"
    return f.when(
        value.rlike(_LONG_INTEGER) & ~is_kept, f.raise_error(f.format_string(message, value))
    ).otherwise(double)


def _check_separator(frame: DataFrame, options: Mapping[str, str]) -> None:
    """Refuse CSV that became one column because another character than a comma separates its cells."""
    if options.keys() & {"sep", "delimiter"} or len(frame.columns) != 1:
        return
    found = [separator for separator in _OTHER_SEPARATORS if separator in frame.columns[0]]
    if found:
        raise InvalidInputError(
            f"source: the only column is {frame.columns[0]!r}, give the option sep={found[0]!r}"
        )


def _format_of(path: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    if not suffixes or "*" in suffixes[-1]:
        return "parquet"
    if suffixes[-1] not in _FORMATS:
        known = ", ".join(sorted(_FORMATS))
        raise InvalidInputError(
            f"source: the format of {path} is unknown, give a format or a path with one of the endings "
            f"{known}"
        )
    return _FORMATS[suffixes[-1]]
