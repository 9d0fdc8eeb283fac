"""Verify: compare the rows of a dataset with those of its source, by counts and checksums of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from flight_client import InvalidInputError
from spark_pipeline.arrow_types import spark_schema
from spark_pipeline.jobs.checksum import HASHES, bucket, checksum, with_hashes
from spark_pipeline.jobs.fragment_rows import ROW_ADDRESS, fragment_rows
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.selection import column_named, selected
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import SelectionOptions
from spark_pipeline.jobs.source import Source

_BUCKET, _FRAGMENT = "_lance_flight_bucket", "_lance_flight_fragment"
_FRAGMENT_BITS = 32
_MAX_SHOWN = 20


@dataclass(frozen=True)
class VerifyOptions(SelectionOptions):
    """Options of `verify`. `columns` and `where` are those with which `ingest` wrote the source."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a version: `trips@12`."))
    source: Source = field(metadata=about("Source of the rows that the dataset should have."))
    keys: Sequence[str] = field(
        default=(),
        kw_only=True,
        metadata=about(
            "Columns that name a row, so that the report names changed rows; all columns if not given.",
            flag="--key",
        ),
    )
    buckets: int = field(
        default=256, kw_only=True, metadata=about("Number of buckets, each with its own checksum.", minimum=1)
    )


@job(VerifyOptions)
def verify(spark: SparkSession, server: Server, options: VerifyOptions) -> Outcome:
    """Compare the rows of a dataset with those of a source; exit code 1 if they differ.

    The order of the rows does not matter. Rows of both sides are divided into buckets by the values of
    `keys`, and number of rows and checksum of each bucket are compared (see `checksum`). In buckets that
    differ, single rows are compared. Columns that the source lacks are left out.

    `details` of the outcome: `is_equal`, `source_rows`, `dataset_rows`, `columns_left_out`, `buckets`,
    `buckets_different`. If the sides differ, also: `missing` (number of rows that the dataset lacks),
    `unexpected` (number of rows that the source lacks), `fragments` (number of unexpected rows by fragment
    id) and `keys` (some keys of rows that differ).

    Raises:
        InvalidInputError: the dataset lacks a column of the source, or the source lacks a key.
        LanceError: the server reported an error.
        PySparkException: Spark cannot read the source, or a value does not fit the type of the dataset.
    """
    keys, buckets = options.keys, options.buckets
    client = server.client()
    opened = client.dataset(options.dataset)
    fragments = client.fragments(opened.name, version=opened.version, branch=opened.branch)
    schema = spark_schema(opened.schema)
    expected = _as_in(schema, selected(options.source.frame(spark, server), options.columns, options.where))
    compared = expected.columns
    unknown = sorted(set(keys) - set(compared))
    if unknown:
        raise InvalidInputError(
            f"keys: the source has no column {unknown[0]!r}, expected one of {', '.join(compared)}"
        )
    expected = _prepared(expected, compared, keys or compared, buckets)
    ids = [fragment["id"] for fragment in fragments]
    rows = fragment_rows(spark, server, opened, ids, compared)
    found = _prepared(rows, compared, keys or compared, buckets)
    mine, theirs = _by_bucket(found), _by_bucket(expected)
    different = sorted(
        number for number in mine.keys() | theirs.keys() if mine.get(number) != theirs.get(number)
    )
    details: dict[str, Any] = {
        "is_equal": not different,
        "source_rows": sum(rows for rows, *_ in theirs.values()),
        "dataset_rows": sum(rows for rows, *_ in mine.values()),
        "columns_left_out": [name for name in schema.fieldNames() if name not in compared],
        "buckets": buckets,
        "buckets_different": different,
    }
    if different:
        details |= _differences(expected, found, keys, different)
    return Outcome(options.dataset, opened.version, rows=details["dataset_rows"], details=details)


def _as_in(schema: StructType, frame: DataFrame) -> DataFrame:
    """Return the rows with the types of the dataset."""
    extra = sorted(set(frame.columns) - set(schema.fieldNames()))
    if extra:
        raise InvalidInputError(
            f"the dataset has no column {extra[0]!r}, expected one of {', '.join(schema.fieldNames())}"
        )
    types = {field.name: field.dataType for field in schema}
    return frame.select(*(column_named(name).cast(types[name]).alias(name) for name in frame.columns))


def _prepared(frame: DataFrame, compared: Sequence[str], keys: Sequence[str], buckets: int) -> DataFrame:
    """Return the keys, the hashes and the bucket of each row, and its fragment if the frame has row
    addresses.
    """
    hashed = with_hashes(frame, compared).withColumn(_BUCKET, bucket(frame, keys, buckets))
    kept: list[Column] = [column_named(name) for name in (*keys, *HASHES, _BUCKET)]
    if ROW_ADDRESS in frame.columns:
        kept.append(f.shiftrightunsigned(ROW_ADDRESS, _FRAGMENT_BITS).alias(_FRAGMENT))
    return hashed.select(*kept)


def _by_bucket(frame: DataFrame) -> dict[int, tuple[Any, ...]]:
    rows = frame.groupBy(_BUCKET).agg(*checksum()).collect()
    return {row[0]: tuple(row[1:]) for row in rows}


def _differences(
    expected: DataFrame, found: DataFrame, keys: Sequence[str], buckets: Sequence[int]
) -> dict[str, Any]:
    """Return the details about rows that one side has more often, in the buckets that differ."""
    expected, found = (frame.where(f.col(_BUCKET).isin(*buckets)) for frame in (expected, found))
    theirs = expected.groupBy(*HASHES).agg(f.count(f.lit(1)).alias("theirs"))
    mine = found.groupBy(*HASHES).agg(f.count(f.lit(1)).alias("mine"))
    surplus = (f.coalesce("mine", f.lit(0)) - f.coalesce("theirs", f.lit(0))).alias("surplus")
    unequal = mine.join(theirs, list(HASHES), "full_outer").select(*HASHES, surplus).where("surplus <> 0")
    unequal = unequal.cache()
    try:
        totals = unequal.groupBy(f.col("surplus") > 0).agg(f.sum(f.abs("surplus"))).collect()
        by_side = dict(tuple(row) for row in totals)
        unexpected = found.join(unequal.where("surplus > 0"), list(HASHES))
        fragments = unexpected.groupBy(_FRAGMENT).count().orderBy(_FRAGMENT).collect()
        named = [column_named(key) for key in keys]
        sides = [side.join(unequal, list(HASHES)).select(*named) for side in (expected, found)]
        shown = sides[0].union(sides[1]).distinct().orderBy(*named).limit(_MAX_SHOWN) if keys else None
        return {
            "missing": by_side.get(False, 0),
            "unexpected": by_side.get(True, 0),
            "fragments": {str(row[0]): row[1] for row in fragments},
            "keys": [] if shown is None else [[str(value) for value in row] for row in shown.collect()],
        }
    finally:
        unequal.unpersist()
