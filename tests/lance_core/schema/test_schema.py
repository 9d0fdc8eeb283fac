"""Schemas as the reference reports them."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.proto import file_pb2
from lance_core.schema import Field, Schema, leaves, split_path
from lance_core.storage import storage_for
from lance_core.table.snapshot import open_snapshot
from support.runs.each_case import each_case

BFLOAT16 = pa.field("item", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})

TYPES = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "decimal128": pa.decimal128(38, 10),
    "decimal128 negative scale": pa.decimal128(10, -2),
    "decimal256": pa.decimal256(50, 3),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "time32 s": pa.time32("s"),
    "time32 ms": pa.time32("ms"),
    "time64 us": pa.time64("us"),
    "time64 ns": pa.time64("ns"),
    **{f"timestamp {unit}": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")},
    "timestamp zone": pa.timestamp("us", "Europe/Berlin"),
    "timestamp offset": pa.timestamp("us", "+02:00"),
    **{f"duration {unit}": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
    "fixed_size_binary": pa.binary(7),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "list": pa.list_(pa.field("element", pa.int32(), nullable=False, metadata={"unit": "m"})),
    "large_list of struct": pa.large_list(pa.struct([pa.field("x", pa.int8(), nullable=False)])),
    "list of list": pa.list_(pa.large_list(pa.string())),
    "fixed_size_list": pa.list_(pa.float32(), 4),
    "fixed_size_list item": pa.list_(pa.field("element", pa.float32(), nullable=False), 4),
    "fixed_size_list nested": pa.list_(pa.list_(pa.float32(), 2), 3),
    "fixed_size_list bool": pa.list_(pa.bool_(), 3),
    "fixed_size_list decimal": pa.list_(pa.decimal128(5, 1), 2),
    "fixed_size_list timestamp": pa.list_(pa.timestamp("us", "+02:00"), 2),
    "fixed_size_list binary": pa.list_(pa.binary(3), 2),
    "fixed_size_list bfloat16": pa.list_(BFLOAT16, 4),
    "fixed_size_list uuid": pa.list_(pa.uuid(), 2),
    "struct": pa.struct(
        [pa.field("a", pa.int32(), metadata={"k": "v"}), pa.field("b", pa.list_(pa.string()), nullable=False)]
    ),
    "struct without fields": pa.struct([]),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "dictionary ordered": pa.dictionary(pa.int16(), pa.string(), ordered=True),
    "dictionary of numbers": pa.dictionary(pa.uint32(), pa.int64()),
    "dictionary of bytes": pa.dictionary(pa.int32(), pa.large_binary()),
    "uuid": pa.uuid(),
    "list of uuid": pa.list_(pa.uuid()),
    "struct of uuid": pa.struct([pa.field("u", pa.uuid(), nullable=False)]),
    "tensor": pa.fixed_shape_tensor(pa.float32(), [2, 2], dim_names=["r", "c"], permutation=[1, 0]),
    "json": pa.json_(),
    "json large": pa.json_(pa.large_string()),
    "list of json": pa.list_(pa.json_()),
    "bool8": pa.bool8(),
    "opaque": pa.opaque(pa.int32(), "kind", "vendor"),
}

TYPES_2_2 = {
    "map": pa.map_(pa.string(), pa.int32()),
    "map not null": pa.map_(
        pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int32(), nullable=False)
    ),
    "map of struct": pa.map_(pa.string(), pa.struct([pa.field("q", pa.list_(pa.int32()))])),
    "fixed_size_list of struct": pa.list_(
        pa.field("element", pa.struct([pa.field("x", pa.int32())]), nullable=False, metadata={"m": "n"}), 2
    ),
}

CASES = [(version, name) for version in ("2.1", "2.2") for name in TYPES] + [
    ("2.2", name) for name in TYPES_2_2
]


def our_schema(path: Path) -> Schema:
    return open_snapshot(storage_for(str(path))).manifest.schema


def check_schema(schema: pa.Schema, path: Path, version: str) -> Schema:
    lance.write_dataset(pa.Table.from_batches([], schema), str(path), data_storage_version=version)
    ours = our_schema(path)
    theirs = lance.dataset(str(path)).schema
    assert ours.to_arrow().equals(theirs, check_metadata=True)
    for field, reported in zip(ours.fields, theirs, strict=True):
        assert field.to_arrow().equals(reported, check_metadata=True)
    return ours


@each_case(("version", "name"), CASES)
@each_case("nullable", [True, False])
def test_every_type_is_reported_as_the_reference_reports_it(
    tmp_path: Path, version: str, name: str, nullable: bool
) -> None:
    data_type = (TYPES | TYPES_2_2)[name]
    nullable = nullable or data_type == pa.null()  # there is no other null column
    schema = pa.schema(
        [
            pa.field("plain", data_type, nullable),
            pa.field("noted", data_type, nullable, metadata={"note": "é", "empty": ""}),
            pa.field("nested", pa.struct([pa.field("inner", data_type, nullable)])),
        ],
        metadata={"table": "note"},
    )
    check_schema(schema, tmp_path / "t", version)


@pytest.mark.parametrize(
    "metadata",
    [
        {"lance-schema:unenforced-primary-key": "true"},
        {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": "3"},
        {"ARROW:extension:name": "lance.bfloat16"},
        {"ARROW:extension:name": "vendor.unknown", "ARROW:extension:metadata": "x"},
    ],
)
def test_field_metadata_is_kept(tmp_path: Path, metadata: dict[str, str]) -> None:
    check_schema(
        pa.schema([pa.field("c", pa.binary(2), nullable=False, metadata=metadata)]), tmp_path / "t", "2.1"
    )


def test_an_extension_name_that_does_not_fit_its_type_stays_metadata() -> None:
    """T17: the data of such a column is valid; the reference cannot even report its schema."""
    field = leaf("c", "int32", extension_name="arrow.uuid")
    good = leaf("u", "fixed_size_binary:16", number=1, extension_name="arrow.uuid")

    schema = Schema([field, good], {}).to_arrow()

    assert schema.field("c").type == pa.int32()
    assert schema.field("c").metadata == {b"ARROW:extension:name": b"arrow.uuid"}
    assert schema.field("u").type == pa.uuid()


def test_storage_types_hold_no_extension(tmp_path: Path) -> None:
    """Pages decode to the storage type; binary JSON is the one column that is not stored as it is shown."""
    schema = check_schema(
        pa.schema(
            [("u", pa.list_(pa.uuid())), ("j", pa.json_()), ("t", pa.fixed_shape_tensor(pa.int8(), [2]))]
        ),
        tmp_path / "t",
        "2.1",
    )
    assert [field.arrow_type for field in schema.fields] == [
        pa.list_(pa.binary(16)),
        pa.large_binary(),
        pa.list_(pa.int8(), 2),
    ]
    assert schema.resolve("j").is_json


def test_leaves_are_the_columns_that_the_reference_writes(tmp_path: Path) -> None:
    """docs/format.md, "Columns": the data file lists exactly these fields, in this order."""
    schema = pa.schema(
        [
            pa.field("i", pa.int32()),
            pa.field("s", pa.struct([("a", pa.int8()), ("b", pa.list_(pa.struct([("c", pa.string())])))])),
            pa.field("empty", pa.struct([])),
            pa.field(
                "packed",
                pa.struct([("a", pa.int32()), ("b", pa.int64())]),
                metadata={"lance-encoding:packed": "true"},
            ),
            pa.field("v", pa.list_(pa.float32(), 4)),
            pa.field("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
            pa.field("f", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())]), 2)),
            pa.field("d", pa.dictionary(pa.int8(), pa.string())),
            pa.field(
                "blob",
                pa.struct([("data", pa.large_binary()), ("uri", pa.string())]),
                metadata={"ARROW:extension:name": "lance.blob.v2"},
            ),
        ]
    )
    table = pa.table([pa.array([None], field.type) for field in schema], schema=schema)
    dataset = lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2")

    ours = our_schema(tmp_path / "t")

    (file,) = dataset.get_fragments()[0].metadata.files
    columns = dict(zip(file.fields, file.column_indices, strict=True))
    expected = [field for field, column in sorted(columns.items(), key=lambda item: item[1]) if column >= 0]
    assert [leaf.id for field in ours.fields for leaf in leaves(field)] == expected
    assert ours.resolve("packed").is_packed
    assert ours.resolve("blob").is_blob_v2


def test_blobs_of_the_first_form_are_recognised(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    assert check_schema(schema, tmp_path / "t", "2.1").resolve("b").is_blob


def test_fields_are_found_by_path_and_id(tmp_path: Path) -> None:
    schema = check_schema(
        pa.schema(
            [
                (
                    "s",
                    pa.struct([("x", pa.int8()), ("Y", pa.struct([("z", pa.int8()), ("a.b`c", pa.int8())]))]),
                ),
                ("l", pa.list_(pa.struct([("p", pa.int8())]))),
            ]
        ),
        tmp_path / "t",
        "2.1",
    )
    assert schema.resolve("s.Y.z").name == "z"
    assert schema.resolve("`s`.x") is schema.resolve("s.x")
    assert schema.resolve("s.Y.`a.b``c`").name == "a.b`c"
    assert schema.field_by_id[schema.resolve("s.Y.z").id] is schema.resolve("s.Y.z")
    assert schema.resolve("s.Y.z").parent_id == schema.resolve("s.Y").id
    assert schema.resolve("l.item.p").name == "p"
    for path in ("S", "s.y", "s.none", "l.item.q", "l.p", "s.x.y", "none"):
        with pytest.raises(InvalidInputError, match="there is no column"):
            schema.resolve(path)


@each_case("path", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a.``", "`a``"])
def test_malformed_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidInputError):
        split_path(path)


def leaf(name: str, logical_type: str, number: int = 0, parent: int = -1, **others: object) -> file_pb2.Field:
    return file_pb2.Field(id=number, parent_id=parent, name=name, logical_type=logical_type, **others)


@each_case(
    "logical_type",
    [
        "",
        "int128",
        "INT32",
        "timestamp",
        "timestamp:us",
        "timestamp:minutes:-",
        "decimal:32:5:2",
        "decimal:128:0:0",
        "decimal:128:39:0",
        "decimal:128:5",
        "fixed_size_binary:-1",
        "fixed_size_binary:4294967296",
        "fixed_size_binary:x",
        "fixed_size_list:float",
        "fixed_size_list:float:-4",
        "fixed_size_list:string",
        "fixed_size_list:list:4",
        "fixed_size_list:" * 2000 + "float" + ":2" * 2000,
        "dict:string:int8",
        "dict:string:float:false",
        "dict:string:int8:maybe",
        "interval:month",
        "duration:days",
    ],
)
def test_unknown_logical_types_are_refused_by_name(logical_type: str) -> None:
    """T22, T24"""
    with pytest.raises(UnsupportedFeatureError, match="column c"):
        _ = Schema([leaf("c", logical_type)], {}).fields[0].arrow_type


@pytest.mark.parametrize(
    "messages",
    [
        [leaf("a", "int8"), leaf("b", "int8")],
        [leaf("a", "int8", number=-2)],
        [leaf("x", "int8", 1, parent=0), leaf("s", "struct", 0)],
        [leaf("x", "int8", 1, parent=1)],
        [leaf("x", "int8", 1, parent=7)],
        [leaf("x", "int8", metadata={"k": b"\xff"})],
    ],
    ids=["id twice", "negative id", "child first", "own parent", "no parent", "not text"],
)
def test_a_field_list_that_is_no_tree_is_corrupt(messages: list[file_pb2.Field]) -> None:
    """T22"""
    with pytest.raises(CorruptFileError, match="file f"):
        _ = Schema(messages, {}, file="f").fields


@pytest.mark.parametrize(
    "messages",
    [
        [leaf("l", "list")],
        [leaf("l", "list"), leaf("a", "int8", 1, 0), leaf("b", "int8", 2, 0)],
        [leaf("i", "int32"), leaf("a", "int8", 1, 0)],
        [leaf("m", "map"), leaf("entries", "int8", 1, 0)],
        [leaf("m", "map"), leaf("entries", "struct", 1, 0), leaf("k", "int8", 2, 1)],
        [leaf("f", "fixed_size_list:struct:2")],
        [leaf("f", "fixed_size_list:struct:x"), leaf("s", "struct", 1, 0)],
    ],
)
def test_a_type_with_wrong_children_is_refused(messages: list[file_pb2.Field]) -> None:
    """T22"""
    (field,) = Schema(messages, {}).fields
    with pytest.raises((CorruptFileError, UnsupportedFeatureError), match=f"column {field.name}"):
        _ = field.arrow_type


@pytest.mark.parametrize(
    "messages",
    [
        [leaf("n", "null", nullable=False)],
        [leaf("s", "struct"), leaf("n", "null", 1, 0, nullable=False)],
        [
            leaf("n", "map"),
            leaf("entries", "struct", 1, 0),
            leaf("key", "int8", 2, 1, nullable=True),
            leaf("value", "int8", 3, 1),
        ],
    ],
    ids=["nulls", "nulls below", "map keys"],
)
def test_nulls_where_none_can_be_are_corrupt(messages: list[file_pb2.Field]) -> None:
    """T22: Arrow knows no such types."""
    with pytest.raises(CorruptFileError, match=r"null.*\(file f, column n"):
        Schema(messages, {}, file="f").to_arrow()
    with pytest.raises(CorruptFileError, match=r"null.*\(file f, column n"):
        _ = [field.arrow_type for field in Schema(messages, {}, file="f").fields]


def test_nesting_has_a_limit() -> None:
    """T24: deep schemas end before the recursion does."""
    chain = [leaf("s", "struct", number, number - 1) for number in range(64)]
    assert Schema(chain, {}).to_arrow().field(0).type.num_fields == 1

    with pytest.raises(UnsupportedFeatureError, match="at most 64"):
        _ = Schema([*chain, leaf("s", "struct", 64, 63)], {}).fields


def test_fields_are_values() -> None:
    one, two = (Schema([leaf("c", "int8", metadata={"k": b"v"})], {}).fields[0] for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert isinstance(one, Field)
