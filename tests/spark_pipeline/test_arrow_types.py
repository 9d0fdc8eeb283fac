"""Types of Lance as types of Spark, and back, without Spark running."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from flight_client import InvalidInputError, UnsupportedFeatureError
from spark_pipeline.arrow_types import (
    all_to_spark,
    arrow_schema,
    lance_schema,
    spark_schema,
    to_lance,
    to_spark,
)
from spark_pipeline.requested_types import check_requested
from support.runs.each_case import each_case
from support.spark.settings import ARRAYS

EQUAL_ONLY = {"uint64", "timestamp_ns", "timestamp_zone"}
"""Columns whose values are equal in Spark, and shown otherwise."""


def batch_of(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=["c"])


@each_case("name", ARRAYS)
def test_there_and_back(name: str) -> None:
    """Every value arrives in Spark as it is, and goes back as it was; slices of arrays, too."""
    given = ARRAYS[name]
    schema = spark_schema(pa.schema([("c", given.type)]))
    for array in (given, given.slice(1), given.slice(1, 1), given.slice(1, 0)):
        read = to_spark(batch_of(array), schema)
        read.validate(full=True)
        assert read.schema.equals(arrow_schema(schema))
        if name in EQUAL_ONLY:
            assert read.column(0).to_pylist() == array.to_pylist()
        else:  # NaN, too
            assert str(read.column(0).to_pylist()) == str(array.to_pylist())
        back = to_lance(read, pa.schema([("c", given.type)]))
        back.validate(full=True)
        assert back.schema.types == [given.type]
        assert str(back.column(0).to_pylist()) == str(array.to_pylist())


@each_case("name", ARRAYS)
def test_batches_of_a_stream(name: str) -> None:
    """Batches of a stream get the types and values that single batches get, also after batches of another
    schema.
    """
    given = ARRAYS[name]
    schema = spark_schema(pa.schema([("c", given.type)]))
    plain = to_spark(batch_of(given), schema)
    noted = pa.schema([pa.field("c", given.type, metadata={"a": "b"})])
    batches = [plain, batch_of(given), pa.RecordBatch.from_arrays([given], schema=noted), plain]
    read = list(all_to_spark(batches, schema))
    for batch, single in zip(read, (to_spark(each, schema) for each in batches), strict=True):
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(schema))
        assert batch.equals(single) or str(batch.to_pylist()) == str(single.to_pylist())  # NaN
        assert not batch.schema.field(0).metadata


def test_batches_that_spark_takes_are_handed_on() -> None:
    """Nothing is made anew for them; metadata, as of extension types that nobody registered, is not."""
    lists = pa.array([[1], None, []], pa.list_(pa.field("item", pa.int32())))
    schema = spark_schema(pa.schema([("c", lists.type)]))
    batch = batch_of(lists)
    assert next(all_to_spark([batch], schema)) is batch
    named = pa.field("item", pa.int32(), metadata={"ARROW:extension:name": "x"})
    (read,) = all_to_spark([batch_of(lists.cast(pa.list_(named)))], schema)
    assert not read.schema.field(0).type.value_field.metadata
    empty = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert [each.num_rows for each in all_to_spark([empty], spark.StructType())] == [3]


@each_case(
    ("kind", "expected"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.timestamp("ns", "Asia/Tokyo"), "timestamp"),
        (pa.duration("ms"), "interval day to second"),
        (pa.time32("s"), "time(6)"),
        (pa.dictionary(pa.int8(), pa.large_string()), "string"),
        (pa.list_(pa.float32(), 3), "array<float>"),
        (pa.map_(pa.string(), pa.large_list(pa.uint8())), "map<string,array<smallint>>"),
        (pa.struct([("a", pa.struct([("b", pa.string_view())]))]), "struct<a:struct<b:string>>"),
    ],
)
def test_types(kind: pa.DataType, expected: str) -> None:
    (field,) = spark_schema(pa.schema([pa.field("c", kind, nullable=False)]))
    assert (field.dataType.simpleString(), field.nullable) == (expected, True)


@pytest.mark.parametrize(
    "kind", [pa.month_day_nano_interval(), pa.decimal256(40, 2), pa.dense_union([pa.field("a", pa.int8())])]
)
def test_types_without_a_counterpart_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"'c\.x\[\]'.*no counterpart"):
        spark_schema(pa.schema([("c", pa.struct([("x", pa.list_(kind))]))]))


@pytest.mark.parametrize(
    ("array", "part"),
    [
        (pa.array([1_000_000_000_000_000_001], pa.timestamp("ns")), "timestamp"),
        (pa.array([1], pa.duration("ns")), "duration"),
        (pa.array([1], pa.time64("ns")), "time64"),
        (pa.array([2**62], pa.timestamp("s")), "timestamp"),
        (pa.array([1], pa.date64()), "date32"),
    ],
)
def test_nothing_is_lost_silently(array: pa.Array, part: str) -> None:
    """T24: a value that does not fit Spark's microseconds or days is an error that names the column."""
    with pytest.raises(InvalidInputError, match=rf"column 'c': {part}.*cannot hold"):
        to_spark(batch_of(array), spark_schema(pa.schema([("c", array.type)])))


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([300], pa.int16()), pa.uint8()),
        (pa.array([7e4], pa.float32()), pa.float16()),
        (pa.array([[1.0, 2.0]], pa.list_(pa.float32())), pa.list_(pa.float32(), 3)),
        (pa.array([b"abc"]), pa.binary(2)),
        (pa.array(["x"]), pa.int32()),
    ],
)
def test_what_a_dataset_cannot_hold_is_refused(array: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="column 'c'"):
        to_lance(batch_of(array), pa.schema([("c", kind)]))


@pytest.mark.parametrize(
    "kind",
    [
        spark.VariantType(),
        spark.GeometryType(4326),
        spark.YearMonthIntervalType(),
        spark.CalendarIntervalType(),
    ],
)
def test_types_without_a_counterpart_are_refused(kind: spark.DataType) -> None:
    """Spark would hand some of them over as structs, as which they would come back."""
    nested = spark.ArrayType(schema_of("s", x=kind))
    with pytest.raises(UnsupportedFeatureError, match=r"'c\[\]\.s\.x'.*" + kind.simpleString().split("(")[0]):
        lance_schema(spark.StructType().add("c", nested))
    as_map = spark.MapType(spark.StringType(), kind)
    with pytest.raises(UnsupportedFeatureError, match=r"'c\.value'"):
        lance_schema(spark.StructType().add("c", as_map))


def schema_of(name: str, **children: spark.DataType) -> spark.StructType:
    """Return the schema of one column, a struct."""
    struct = spark.StructType([spark.StructField(child, kind) for child, kind in children.items()])
    return spark.StructType([spark.StructField(name, struct)])


def test_fewer_columns_and_children() -> None:
    """A schema may name a part of a struct, and columns in another order; rows without any are counted."""
    batch = pa.RecordBatch.from_pylist([{"a": 1, "s": {"x": 2, "y": "z"}}, {"a": None, "s": None}])
    schema = schema_of("s", y=spark.StringType()).add("a", spark.LongType())
    assert to_spark(batch, schema).to_pylist() == [{"s": {"y": "z"}, "a": 1}, {"s": None, "a": None}]
    assert to_spark(batch, spark.StructType()).num_rows == 2
    with pytest.raises(InvalidInputError, match=r"'s\.w'"):
        to_spark(batch, schema_of("s", w=spark.StringType()))
    with pytest.raises(InvalidInputError, match="'missing'"):
        to_spark(batch, spark.StructType().add("missing", spark.LongType()))


LONG, INT, TEXT, DOUBLE = spark.LongType(), spark.IntegerType(), spark.StringType(), spark.DoubleType()
PAIR = spark.StructType().add("a", INT).add("b", TEXT)


@each_case(
    ("found", "asked", "fits"),
    [
        (LONG, INT, True),
        (INT, LONG, True),
        (LONG, spark.DecimalType(20, 0), True),
        (spark.DecimalType(20, 0), LONG, True),
        (INT, DOUBLE, True),
        (spark.FloatType(), DOUBLE, True),
        (LONG, TEXT, False),
        (TEXT, LONG, False),
        (LONG, spark.BooleanType(), False),
        (DOUBLE, spark.FloatType(), False),
        (DOUBLE, LONG, False),
        (spark.DecimalType(10, 2), DOUBLE, False),
        (spark.TimestampNTZType(), spark.TimestampType(), False),
        (spark.DateType(), spark.TimestampType(), False),
        (TEXT, spark.BinaryType(), False),
        (PAIR, spark.StructType().add("b", TEXT), True),
        (PAIR, spark.StructType().add("b", INT), False),
        (spark.ArrayType(INT), spark.ArrayType(LONG), True),
        (spark.ArrayType(INT), spark.ArrayType(TEXT), False),
        (spark.MapType(TEXT, INT), spark.MapType(TEXT, LONG), True),
        (spark.MapType(TEXT, INT), spark.ArrayType(INT), False),
    ],
)
def test_requested_types(found: spark.DataType, asked: spark.DataType, fits: bool) -> None:
    """A type in `.schema(...)` must keep the values of the column, or is refused by its name."""
    there, wanted = (spark.StructType().add("c", kind) for kind in (found, asked))
    with nullcontext() if fits else pytest.raises(InvalidInputError, match=r"column 'c.* cannot be read as"):
        check_requested(there, wanted)
    check_requested(there, spark.StructType().add("another", asked))


def test_batches_are_not_cast_to_what_they_are_not() -> None:
    """Columns that are computed tell their types when they come."""
    batch = pa.RecordBatch.from_pydict({"c": [1, 2]})
    assert [each.num_rows for each in all_to_spark([batch], spark.StructType().add("c", INT))] == [2]
    with pytest.raises(InvalidInputError, match="column 'c' is bigint and cannot be read as string"):
        list(all_to_spark([batch], spark.StructType().add("c", TEXT)))
