"""Conditions that Spark hands to a reader, as SQL that means the same to the server."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types
from pyspark.sql import datasource as spark
from pyspark.sql.types import DataType, StructType

from flight_client import UnsupportedFeatureError
from spark_pipeline.arrow_types import spark_schema

_MAX_CONSTANTS = 10_000
"""Largest number of constants in one IN. A command of 1 MiB has room for ten times as many."""

_COMPARISONS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "=",
    spark.EqualNullSafe: "<=>",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}

_OF_TEXT: dict[type[spark.Filter], str] = {
    spark.StringStartsWith: "starts_with",
    spark.StringEndsWith: "ends_with",
    spark.StringContains: "contains",
}

_COMPARABLE: tuple[Callable[[pa.DataType], bool], ...] = (
    types.is_boolean,
    types.is_signed_integer,
    types.is_float32,
    types.is_float64,
    types.is_decimal,
    types.is_string,
    types.is_large_string,
    types.is_binary,
    types.is_large_binary,
    types.is_date32,
)
"""Types whose values compare in Lance like in Spark, NaN and -0.0 included."""


def to_sql(condition: spark.Filter, columns: pa.Schema, schema: StructType) -> str | None:
    """Return a condition in SQL; None if Spark has to evaluate it.

    Args:
        condition: condition on columns of the query.
        columns: schema of the dataset.
        schema: schema of the query. Spark compares columns that the query reads with another type.
    """
    if isinstance(condition, spark.Not):
        child = to_sql(condition.child, columns, schema)
        return None if child is None else f"NOT ({child})"
    kind = _type_of(condition.attribute, columns, schema)  # type: ignore[attr-defined]
    if kind is None:
        return None
    column = ".".join(map(quoted, condition.attribute))  # type: ignore[attr-defined]
    if isinstance(condition, spark.IsNull):
        return f"{column} IS NULL"
    if isinstance(condition, spark.IsNotNull):
        return f"{column} IS NOT NULL"
    if not _is_comparable(kind):
        return None
    if isinstance(condition, spark.In):
        values = [constant(value, kind) for value in condition.value]
        if not 0 < len(values) <= _MAX_CONSTANTS or None in values:
            return None
        return f"{column} IN ({', '.join(map(str, values))})"
    value = constant(condition.value, kind)  # type: ignore[attr-defined]
    if value is None:
        return None
    if type(condition) in _OF_TEXT:
        return f"{_OF_TEXT[type(condition)]}({column}, {value})"
    sign = _COMPARISONS.get(type(condition))
    return None if sign is None else f"{column} {sign} {value}"


def quoted(name: str) -> str:
    """Return a column's name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def constant(value: Any, kind: pa.DataType) -> str | None:
    """Return a value of Spark as SQL for a column of this type; None if there is no such SQL."""
    match value:
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS double)"
        case int() | float():
            return repr(value)
        case str() if "\0" not in value:
            return "'" + value.replace("'", "''") + "'"
        case bytes() | bytearray():
            return f"x'{value.hex()}'"
        case Decimal() if types.is_decimal(kind):
            return f"CAST('{value:f}' AS decimal({kind.precision}, {kind.scale}))"
        case datetime() if types.is_timestamp(kind):
            local = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return f"timestamp '{local.isoformat(' ')}'"
        case date() if not isinstance(value, datetime):
            return f"date '{value.isoformat()}'"
    return None


def _is_comparable(kind: pa.DataType) -> bool:
    if types.is_timestamp(kind):
        # Constants have microseconds, and are compared in the unit and the local time of the column.
        return kind.unit in ("us", "ns") and kind.tz in (None, "UTC", "Etc/UTC", "+00:00")
    return any(fits(kind) for fits in _COMPARABLE)


def _type_of(path: tuple[str, ...], columns: pa.Schema, schema: StructType) -> pa.DataType | None:
    """Return the type of a column that the query reads with its own type; None for other columns."""
    fields: Any = columns
    read: DataType = schema
    for name in path:
        if not isinstance(read, StructType) or name not in read.names:
            return None
        if isinstance(fields, pa.DataType) and not types.is_struct(fields):
            return None
        position = fields.get_field_index(name)
        if position < 0:
            return None
        field = fields.field(position)
        fields, read = field.type, read[name].dataType
    try:
        natural = spark_schema(pa.schema([pa.field("value", fields)]))["value"].dataType
    except UnsupportedFeatureError:
        return None
    return fields if natural == read else None
