"""Types of Lance and types of Spark, and conversion of batches between them.

Spark accepts a batch only with the exact Arrow schema that Spark derives from its own types: no views, no
dictionaries, no fixed-size lists, timestamps in microseconds. Conversion loses nothing: a value that does not
fit is an error that names the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from flight_client import InvalidInputError, UnsupportedFeatureError
from spark_pipeline.requested_types import check_requested

_SIMPLE: dict[pa.DataType, spark.DataType] = {
    pa.null(): spark.NullType(),
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float16(): spark.FloatType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.large_string(): spark.StringType(),
    pa.string_view(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.large_binary(): spark.BinaryType(),
    pa.binary_view(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.date64(): spark.DateType(),
}
"""Types without parameters. Unsigned integers and half floats become the next wider type that holds all their
values.
"""

_WRITABLE = {type(kind) for kind in _SIMPLE.values()} | {
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.DayTimeIntervalType,
    *([spark.TimeType] if hasattr(spark, "TimeType") else []),
}
"""Types without children that Spark hands over as themselves. It hands over other types as structs of their
bytes.
"""

_MAX_PRECISION = 38
"""Largest number of digits of a decimal of Spark."""


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return Spark's types for the columns of a dataset, all nullable.

    Raises:
        UnsupportedFeatureError: Spark has no counterpart of a column's type.
    """
    return spark.StructType([_spark_field(field, field.name) for field in schema])


def known_types(schema: pa.Schema, names: Iterable[str]) -> spark.StructType:
    """Return Spark's types for the named columns that exist in `schema` and have a counterpart in Spark."""
    wanted, known = set(names), []
    for field in schema:
        if field.name in wanted:
            with suppress(UnsupportedFeatureError):
                known.append(_spark_field(field, field.name))
    return spark.StructType(known)


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches with these types."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(batch: pa.RecordBatch, schema: spark.StructType) -> pa.RecordBatch:
    """Return the columns that `schema` names, with exactly the types that Spark expects.

    Raises:
        InvalidInputError: a column is missing, or Spark's type cannot hold a value.
    """
    return _to_target(batch, arrow_schema(schema))


def all_to_spark(batches: Iterable[pa.RecordBatch], schema: spark.StructType) -> Iterator[pa.RecordBatch]:
    """Yield every batch of a stream, converted with `to_spark`, or unchanged if it has the right types
    already.

    In an unchanged batch, only fields within lists and maps may have other names, which Spark does not check.
    Conversion of each batch took a seventh of the CPU time of a worker that read a large table.

    Raises:
        InvalidInputError: see `to_spark` and `check_requested`.
    """
    target = arrow_schema(schema)
    received: pa.Schema | None = None
    is_as_wanted = False
    for batch in batches:
        if received is None or not batch.schema.equals(received, check_metadata=True):
            received = batch.schema
            is_as_wanted = _is_as_wanted(received, target)
            if not is_as_wanted:
                check_requested(known_types(received, schema.names), schema)
        yield batch if is_as_wanted else _to_target(batch, target)


def lance_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns of a dataset for rows of Spark.

    Raises:
        UnsupportedFeatureError: a dataset has no counterpart of a column's type.
    """
    for field in schema:
        _check_writable(field.dataType, field.name)
    return arrow_schema(schema)


def blobs_from_bytes(schema: pa.Schema, rows: spark.StructType) -> pa.Schema:
    """Return the schema of a dataset with binary fields for the blobs of version 2 that are binary in `rows`.

    A dataset takes such blobs as structs or as their bytes; Spark's rows usually have the bytes.
    """
    is_binary = {field.name: isinstance(field.dataType, spark.BinaryType) for field in rows}
    fields = [
        pa.field(field.name, pa.large_binary(), field.nullable, {"lance-encoding:blob": "true"})
        if is_binary.get(field.name) and _is_blob_v2(field)
        else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def _is_blob_v2(field: pa.Field) -> bool:
    """Return whether a field is a blob of version 2, of which this process may not know the type."""
    name = getattr(field.type, "extension_name", (field.metadata or {}).get(b"ARROW:extension:name"))
    return name in ("lance.blob.v2", b"lance.blob.v2")


def to_lance(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a dataset, `schema`, from a batch that Spark writes.

    Raises:
        InvalidInputError: a column is missing, or the dataset cannot hold a value.
    """
    return _to_target(batch, schema)


def _to_target(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_converted(_column(batch, field.name), field.type, field.name) for field in schema]
    return _batch(columns, schema, batch.num_rows)


def _batch(columns: list[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    # Without columns, only a struct array keeps the number of rows.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * num_rows, pa.struct([])))


def _is_as_wanted(schema: pa.Schema, target: pa.Schema) -> bool:
    """Return whether batches need no change, neither of types nor of the metadata of extension types.

    A batch without columns must be made anew with its number of rows, and nanoseconds must be truncated.
    """
    if not target.names or not schema.equals(target) or any(map(_has_metadata, schema)):
        return False
    return "time64[ns]" not in str(target)


def _has_metadata(field: pa.Field) -> bool:
    kind = field.type
    children = (kind.field(number) for number in range(kind.num_fields))
    return bool(field.metadata) or any(map(_has_metadata, children))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    positions = batch.schema.get_all_field_indices(name)
    if len(positions) != 1:
        raise InvalidInputError(
            f"column {name!r}: expected one of this name, found {len(positions)} in {batch.schema.names}"
        )
    return batch.column(positions[0])


def _spark_field(field: pa.Field, path: str) -> spark.StructField:
    return spark.StructField(field.name, _spark_type(field.type, path), nullable=True)


def _spark_type(kind: pa.DataType, path: str) -> spark.DataType:
    """Return the type of the column at `path`, a name with dots."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, pa.BaseExtensionType):
        return _spark_type(kind.storage_type, path)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _spark_type(kind.value_type, path)
    if types.is_fixed_size_binary(kind):
        return spark.BinaryType()
    if types.is_decimal(kind) and kind.precision <= _MAX_PRECISION and 0 <= kind.scale <= kind.precision:
        return spark.DecimalType(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if types.is_duration(kind):
        return spark.DayTimeIntervalType()
    if types.is_time(kind) and hasattr(spark, "TimeType"):
        return spark.TimeType()
    if types.is_map(kind):
        key, value = _spark_type(kind.key_type, f"{path}.key"), _spark_type(kind.item_type, f"{path}.value")
        return spark.MapType(key, value, valueContainsNull=True)
    if _is_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type, f"{path}[]"), containsNull=True)
    if types.is_struct(kind):
        return spark.StructType([_spark_field(child, f"{path}.{child.name}") for child in kind])
    raise UnsupportedFeatureError(f"column {path!r}: Spark has no counterpart of the type {kind}")


def _check_writable(kind: spark.DataType, path: str) -> None:
    if isinstance(kind, spark.ArrayType):
        _check_writable(kind.elementType, f"{path}[]")
    elif isinstance(kind, spark.MapType):
        _check_writable(kind.keyType, f"{path}.key")
        _check_writable(kind.valueType, f"{path}.value")
    elif isinstance(kind, spark.StructType):
        for child in kind:
            _check_writable(child.dataType, f"{path}.{child.name}")
    elif isinstance(kind, spark.UserDefinedType):
        _check_writable(kind.sqlType(), path)
    elif type(kind) not in _WRITABLE:
        raise UnsupportedFeatureError(
            f"column {path!r}: a dataset has no counterpart of the type {kind.simpleString()}"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _converted(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Return the values as `target`, a type of the same kind."""
    kind = array.type
    if kind == pa.time64("ns"):
        array = _cast(_cast(array, pa.time64("us"), path), kind, path)  # times of Spark have microseconds
        return _cast(array, target, path)
    if kind == target and "time64[ns]" not in str(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return _converted(array.storage, target, path)
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, _converted(array, target.storage_type, path))
    if types.is_dictionary(kind):
        return _converted(array.dictionary_decode(), target, path)
    if types.is_run_end_encoded(kind):
        return _converted(pc.run_end_decode(array), target, path)
    if types.is_struct(kind) and types.is_struct(target):
        return _struct(array, target, path)
    if types.is_map(kind) and types.is_map(target):
        return _map(array, target, path)
    if _is_list(kind) and _is_list(target):
        return _list(array, target, path)
    if types.is_dictionary(target):
        return _cast(_converted(array, target.value_type, path).dictionary_encode(), target, path)
    return _cast(array, target, path)


def _cast(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    try:
        result = array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"column {path!r}: {target} cannot hold it: {error}") from None
    if types.is_float16(target) and pc.any(pc.not_equal(pc.is_inf(array), pc.is_inf(result))).as_py():
        raise InvalidInputError(f"column {path!r}: {target} cannot hold numbers above 65504")
    return result


def _struct(array: pa.StructArray, target: pa.StructType, path: str) -> pa.StructArray:
    children = []
    for field in target:
        position = array.type.get_field_index(field.name)
        if position < 0:
            raise InvalidInputError(f"column {f'{path}.{field.name}'!r} is missing")
        children.append(_converted(array.field(position), field.type, f"{path}.{field.name}"))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _list(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    values = _converted(array.flatten(), target.value_type, f"{path}[]")
    lists = pa.ListArray.from_arrays(
        _offsets(pc.list_value_length(array)),
        values,
        type=pa.list_(target.value_field),
        mask=array.is_null(),
    )
    return lists if types.is_list(target) else _cast(lists, target, path)


def _map(array: pa.MapArray, target: pa.MapType, path: str) -> pa.MapArray:
    lists = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    entries = lists.flatten()
    return pa.MapArray.from_arrays(
        _offsets(pc.list_value_length(lists)),
        _converted(entries.field(0), target.key_type, f"{path}.key"),
        _converted(entries.field(1), target.item_type, f"{path}.value"),
        type=target,
        mask=array.is_null(),
    )


def _offsets(lengths: pa.Array) -> pa.Array:
    """Return the offsets of lists of these lengths. Null lists are empty."""
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0).cast(pa.int32()))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])
