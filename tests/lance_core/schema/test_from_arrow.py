"""Arrow schemas as Lance fields, compared with the manifests that the reference writes."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import file_pb2
from lance_core.schema import schema_from_arrow, storage_type
from lance_core.storage import storage_for
from lance_core.table.snapshot import read_manifest
from support.runs.each_case import each_case

BFLOAT16 = pa.field(
    "item",
    pa.binary(2),
    metadata={"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""},
)
STRUCT = pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.list_(pa.utf8()))])
TYPES = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32()),
    *(pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(38, -3)),
    *(pa.decimal256(60, 2), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")),
    *(pa.time64("ns"), pa.duration("s"), pa.duration("ns"), pa.timestamp("ms")),
    *(pa.timestamp("us", "+02:00"), pa.timestamp("ns", "Europe/Berlin")),
    *(pa.utf8(), pa.large_utf8(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.binary(5), pa.list_(pa.int8()), pa.list_(pa.field("element", pa.int8(), nullable=False))),
    *(pa.large_list(pa.list_(pa.utf8())), pa.list_(STRUCT), pa.large_list(STRUCT), STRUCT, pa.struct([])),
    *(pa.list_(pa.float32(), 4), pa.list_(pa.list_(pa.int8(), 2), 3), pa.list_(STRUCT, 2)),
    *(pa.list_(pa.timestamp("us", "UTC"), 2), pa.list_(BFLOAT16, 2)),
    *(pa.map_(pa.utf8(), pa.int32()), pa.map_(pa.field("k", pa.int8(), nullable=False), STRUCT)),
    *(pa.uuid(), pa.fixed_shape_tensor(pa.float32(), [2, 3], ["x", "y"]), pa.bool8(), pa.json_()),
    *(pa.opaque(pa.int32(), "type", "vendor"), pa.list_(pa.uuid()), pa.struct([("u", pa.uuid())])),
]
DICTIONARIES = [
    pa.array(["a", "b"]).dictionary_encode(),
    pa.array(["a"], pa.large_utf8()).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_utf8())),
    pa.DictionaryArray.from_arrays(pa.array([0], pa.uint64()), pa.array([True])),
    pa.DictionaryArray.from_arrays(pa.array([0], pa.int16()), pa.array(np.array([1], np.float16))),
]


def _reference_fields(schema: pa.Schema, path: Path) -> list[file_pb2.Field]:
    lance.write_dataset(iter([]), str(path), schema=schema, data_storage_version="2.2")
    return list(read_manifest(storage_for(str(path)), 1).message.fields)


@each_case("type_", TYPES)
def test_fields_are_those_of_the_reference(type_: pa.DataType, tmp_path: Path) -> None:
    fields = [
        pa.field("before", pa.int8(), nullable=False, metadata={"key": "värde"}),
        pa.field("column", type_, metadata={"unit": "m"} if not _is_extension(type_) else None),
        pa.field("after", pa.list_(pa.int8())),
    ]
    schema = pa.schema(fields, {"schema": "note"})

    assert list(schema_from_arrow(schema).messages) == _reference_fields(schema, tmp_path)


def _is_extension(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.BaseExtensionType)


@pytest.mark.parametrize("array", DICTIONARIES, ids=lambda array: str(array.type))
def test_dictionary_fields_are_those_of_the_reference(array: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"column": array})
    lance.write_dataset(table, str(tmp_path), data_storage_version="2.2")

    expected = list(read_manifest(storage_for(str(tmp_path)), 1).message.fields)

    assert list(schema_from_arrow(table.schema).messages) == expected


@each_case("type_", TYPES)
def test_schema_comes_back_as_the_reference_reports_it(type_: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("column", type_, nullable=pa.types.is_null(type_))], {"a": "b"})
    lance.write_dataset(iter([]), str(tmp_path), schema=schema, data_storage_version="2.2")

    back = schema_from_arrow(schema).to_arrow()

    assert back.equals(lance.dataset(str(tmp_path)).schema, check_metadata=True)


@each_case("type_", TYPES)
def test_storage_type_is_what_columns_decode_to(type_: pa.DataType) -> None:
    (field,) = schema_from_arrow(pa.schema([("column", type_)])).fields

    # A fixed-size list keeps neither the metadata nor the name of its item.
    if not field.is_json:
        assert storage_type(type_).equals(field.arrow_type)


@each_case(
    "type_",
    [
        *(pa.decimal32(5, 2), pa.decimal64(5, 2), pa.month_day_nano_interval(), pa.list_view(pa.int8())),
        *(pa.run_end_encoded(pa.int32(), pa.int8()), pa.dense_union([pa.field("a", pa.int8())])),
        *(pa.dictionary(pa.int8(), pa.timestamp("us")), pa.dictionary(pa.int8(), pa.list_(pa.int8()))),
        *(pa.list_(pa.int8(), 0), pa.map_(pa.utf8(), pa.int8(), keys_sorted=True)),
        pa.list_(pa.struct([("x", pa.list_view(pa.int8()))])),
    ],
)
def test_types_without_a_name_are_refused_by_column(type_: pa.DataType) -> None:
    with pytest.raises(UnsupportedFeatureError, match="column"):
        schema_from_arrow(pa.schema([("column", type_)]))


def test_too_deep_nesting_is_refused() -> None:
    """T18: a schema deeper than 64 fields is refused before anything recurses into it further."""
    type_ = pa.int8()
    for _ in range(70):
        type_ = pa.list_(type_)

    with pytest.raises(UnsupportedFeatureError, match="nesting depth"):
        schema_from_arrow(pa.schema([("column", type_)]))


@each_case(
    ("fields", "message"),
    [
        ([("a", pa.int8()), ("a", pa.int8())], "'a' is used twice"),
        ([("s", pa.struct([("x", pa.int8()), ("x", pa.int8())]))], "'x' is used twice"),
        ([("_rowid", pa.int8())], "reserved"),
        ([("_rowaddr", pa.int8())], "reserved"),
        ([("a.b", pa.int8())], "dot"),
        ([("a\0b", pa.int8())], "zero byte"),
        ([("s", pa.struct([("x\0", pa.int8())]))], "zero byte"),
        ([pa.field("a", pa.int8(), metadata={b"key": b"\xff"})], "not UTF-8"),
        ([pa.field("a", pa.int8(), metadata={"lance-encoding:blob": "true"})], "found int8"),
        ([pa.field("a", pa.binary(), metadata={"lance-encoding:blob": "true"})], "found binary"),
        ([pa.field("a", pa.int8(), metadata={"lance-schema:unenforced-primary-key": "true"})], "nullable"),
    ],
)
def test_schemas_that_make_no_sense_are_refused(fields: list[pa.Field], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        schema_from_arrow(pa.schema(fields))


@pytest.mark.parametrize("metadata", [{b"key": b"\xff"}, {b"\xff": b"value"}])
def test_metadata_of_a_schema_has_to_be_text(metadata: dict[bytes, bytes]) -> None:
    """Nobody could read the version again."""
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        schema_from_arrow(pa.schema([("a", pa.int8())], metadata=metadata))


def test_primary_key_is_noted(tmp_path: Path) -> None:
    key = {
        "lance-schema:unenforced-primary-key": "yes",
        "lance-schema:unenforced-primary-key:position": "1",
    }
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False, metadata=key)])

    assert list(schema_from_arrow(schema).messages) == _reference_fields(schema, tmp_path)
