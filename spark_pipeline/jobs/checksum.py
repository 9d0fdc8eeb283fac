"""Checksum of rows that does not depend on their order, computed by Spark alone.

Each row becomes a sequence of values that distinguishes rows: for every column a flag for null, then the
value; for a list its length, then the items; for a map its entries sorted by key. The flag is needed because
Spark's own hash skips nulls, so that (1, null) and (null, 1) would be equal. Two 64-bit hashes of this
sequence, with different seeds, are added over the rows, exactly, in decimals: repeated rows do not cancel
out, as with XOR. The hash is not cryptographic: it finds errors, not forgeries.

All NaN are equal, and -0.0 equals 0.0, as in the filters of Lance. Both sides must have the same types.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as spark

from flight_client import UnsupportedFeatureError
from spark_pipeline.jobs.selection import column_named

HASHES = ("_lance_flight_hash_1", "_lance_flight_hash_2")
_SEEDS = (1, 2)


def with_hashes(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the rows with two hashes of some columns, `HASHES`, 64 bits each."""
    fields = [field for field in frame.schema if field.name in columns]
    values = [
        part for field in fields for part in _values(column_named(field.name), field.dataType, field.name)
    ]
    hashes = {name: f.xxhash64(f.lit(seed), *values) for name, seed in zip(HASHES, _SEEDS, strict=True)}
    return frame.withColumns(hashes)


def checksum() -> list[Column]:
    """Return the aggregates `rows`, `sum_1` and `sum_2` for a frame of `with_hashes`, grouped or not."""
    sums = [
        f.sum(f.col(name).cast(spark.DecimalType(20, 0))).alias(f"sum_{number}")
        for number, name in enumerate(HASHES, 1)
    ]
    return [f.count(f.lit(1)).alias("rows"), *sums]


def bucket(frame: DataFrame, keys: Sequence[str], count: int) -> Column:
    """Return a number below `count` that depends only on the values of `keys`."""
    types = {field.name: field.dataType for field in frame.schema}
    values = [part for key in keys for part in _values(column_named(key), types[key], key)]
    return f.pmod(f.xxhash64(*values), f.lit(count))


def _values(column: Column, kind: spark.DataType, path: str) -> list[Column]:
    """Return arguments of a hash that distinguish all values of a column, null included."""
    if isinstance(kind, spark.NullType):
        return []
    return [column.isNull(), _canonical(column, kind, path)]


def _canonical(column: Column, kind: spark.DataType, path: str) -> Column:
    """Return the value in a form that Spark can hash, the same for equal values; null for null."""
    if isinstance(kind, spark.FloatType | spark.DoubleType):
        return f.when(f.isnan(column), f.lit(float("nan")).cast(kind)).otherwise(
            column + f.lit(0.0).cast(kind)
        )
    if isinstance(kind, spark.ArrayType):
        items = f.transform(column, lambda item: _entry(_values(item, kind.elementType, f"{path}[]")))
        return _entry([f.size(column), items])
    if isinstance(kind, spark.MapType):
        entries = f.array_sort(
            f.map_entries(column), lambda one, other: f.when(one.key < other.key, -1).otherwise(1)
        )
        entry = spark.StructType(
            [spark.StructField("key", kind.keyType), spark.StructField("value", kind.valueType)]
        )
        return _canonical(entries, spark.ArrayType(entry), path)
    if isinstance(kind, spark.StructType):
        parts = [
            part
            for field in kind
            for part in _values(column.getField(field.name), field.dataType, f"{path}.{field.name}")
        ]
        return _entry(parts)
    if isinstance(kind, spark.VariantType | spark.UserDefinedType):
        raise UnsupportedFeatureError(f"column {path!r}: no checksum of {kind.simpleString()}")
    return column


def _entry(parts: Sequence[Column]) -> Column:
    return f.struct(*(part.alias(f"_{number}") for number, part in enumerate(parts))) if parts else f.lit(0)
