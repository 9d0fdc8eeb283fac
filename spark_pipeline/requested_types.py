"""Check of the types in `.schema(...)` against the types of the columns.

Spark's own sources return the requested types or refuse; Parquet allows wider types only. Here integers may
also become smaller types, because each value is checked when it is read.
"""

from __future__ import annotations

from pyspark.sql import types as spark

from flight_client import InvalidInputError

_WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)


def check_requested(found: spark.StructType, asked: spark.StructType, path: str = "") -> None:
    """Refuse requested types whose values cannot be checked when they are read, such as a number for text.

    Any type of whole numbers or decimals may be requested for any other one: a value that does not fit is an
    error when it is read. Structs may be requested without some of their children. Missing columns are not
    checked here.

    Raises:
        InvalidInputError: there is such a column. The message names the column and both types.
    """
    types = {field.name: field.dataType for field in found}
    for field in asked:
        if field.name in types:
            _check(types[field.name], field.dataType, f"{path}{field.name}")


def _check(found: spark.DataType, asked: spark.DataType, path: str) -> None:
    if isinstance(found, spark.StructType) and isinstance(asked, spark.StructType):
        check_requested(found, asked, f"{path}.")
    elif isinstance(found, spark.ArrayType) and isinstance(asked, spark.ArrayType):
        _check(found.elementType, asked.elementType, f"{path}[]")
    elif isinstance(found, spark.MapType) and isinstance(asked, spark.MapType):
        _check(found.keyType, asked.keyType, f"{path}.key")
        _check(found.valueType, asked.valueType, f"{path}.value")
    elif not _fits(found, asked):
        raise InvalidInputError(
            f"column {path!r} is {found.simpleString()} and cannot be read as {asked.simpleString()}: "
            "cast the column that was read, or give SQL with the option columns"
        )


def _fits(found: spark.DataType, asked: spark.DataType) -> bool:
    """Return whether every value fits, or a value that does not fit is an error when it is read."""
    if isinstance(asked, spark.UserDefinedType):
        asked = asked.sqlType()
    if type(found) is type(asked) and not isinstance(found, spark.DecimalType):
        return True
    exact = (*_WHOLE, spark.DecimalType)
    if isinstance(found, exact) and isinstance(asked, exact):
        return True
    return isinstance(asked, spark.DoubleType) and isinstance(found, (*_WHOLE, spark.FloatType))
