"""Names and paths of columns, compared with the reference."""

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import InvalidInputError
from support.oracles.comparison import assert_tables_equal, schema_difference
from support.runs.each_case import each_case


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    point = pa.struct(
        [
            pa.field("x", pa.int64(), nullable=False, metadata={"unit": "m"}),
            pa.field("y", pa.struct([pa.field("z", pa.string(), nullable=False)]), nullable=False),
        ]
    )
    schema = pa.schema(
        [
            pa.field("maybe", point, metadata={"note": "may be null"}),
            pa.field("always", point, nullable=False),
            pa.field(
                "packed",
                pa.struct([("a", pa.int32()), ("b", pa.float64())]),
                metadata={"lance-encoding:packed": "true"},
            ),
            pa.field("odd name", pa.struct([("a.b", pa.int8()), ("c`d", pa.int8())])),
            pa.field("items", pa.list_(pa.struct([("a", pa.int64())]))),
            pa.field("pairs", pa.map_(pa.string(), pa.int64())),
            pa.field("Case", pa.int64()),
        ],
        metadata={"table": "note"},
    )
    rows = [
        {
            "maybe": None if k % 3 == 0 else {"x": k, "y": {"z": str(k)}},
            "always": {"x": k, "y": {"z": str(k)}},
            "packed": {"a": k, "b": k / 2},
            "odd name": {"a.b": k, "c`d": k + 1},
            "items": [{"a": k}] * (k % 3),
            "pairs": [(str(k), k)],
            "Case": k,
        }
        for k in range(20)
    ]
    path = tmp_path_factory.mktemp("nested") / "nested.lance"
    table = pa.Table.from_pylist(rows, schema=schema)
    return lance.write_dataset(table, str(path), max_rows_per_file=8, data_storage_version="2.2")


PROJECTIONS = [
    None,
    [],
    ["Case"],
    ["Case", "always", "maybe"],
    ["maybe.x"],
    ["maybe.y"],
    ["maybe.y.z"],
    ["always.x"],
    ["always.y.z", "always.x"],
    ["maybe", "maybe.x"],
    ["packed", "Case"],
    ["`odd name`.`a.b`"],
    ["`maybe`.`x`", "maybe.x"],
    ["odd name"],
    ["items", "pairs"],
    ["_rowid"],
    ["_rowaddr", "Case"],
    ["Case", "_rowoffset", "_rowid"],
]


@each_case("columns", PROJECTIONS)
def test_projection_has_schema_and_rows_of_the_reference(nested, columns):
    ours = lance_core.dataset(nested.uri)
    expected = nested.to_table(columns=columns)
    assert schema_difference(expected.schema, ours.scanner(columns).projected_schema) is None
    assert_tables_equal(expected, ours.to_table(columns))
    batches = list(ours.to_batches(columns))
    assert sum(batch.num_rows for batch in batches) == 20
    assert_tables_equal(expected, pa.Table.from_batches(batches))


def test_child_of_a_packed_struct(nested):
    """The reference fails here: it reads the packed bytes as if only the child were in them."""
    expected = nested.to_table(columns=["packed"]).flatten().select(["packed.b"])
    assert_tables_equal(
        expected.replace_schema_metadata(nested.schema.metadata),
        lance_core.dataset(nested.uri).to_table(["packed.b"]),
    )


@each_case("columns", [None, [], ["Case"], ["_rowaddr", "Case"], ["_rowid", "Case"]])
@each_case("row_id", [False, True])
@each_case("row_address", [False, True])
def test_row_columns_are_appended_where_the_reference_has_them(nested, columns, row_id, row_address):
    options = {"with_row_id": row_id, "with_row_address": row_address}
    expected = nested.to_table(columns=columns, **options)
    assert_tables_equal(expected, lance_core.dataset(nested.uri).to_table(columns, **options))


@each_case(
    ("column", "named"),
    [
        ("nope", "nope"),
        ("case", "case"),
        ("maybe.nope", "maybe.nope"),
        ("maybe.y.nope", "maybe.y.nope"),
        ("Case.x", "Case.x"),
        ("items.a", "items.a"),
        ("items.item.a", "items.item.a"),
        ("pairs.key", "pairs.key"),
        ("maybe.", "maybe."),
        ("", ""),
        ("`maybe", "`maybe"),
        ("odd name.a.b", "odd name.a.b"),
    ],
)
def test_unknown_columns_are_refused_by_name_as_by_the_reference(nested, column, named):
    with pytest.raises(ValueError, match=r"(?i)column|field"):
        nested.to_table(columns=[column])
    with pytest.raises(InvalidInputError) as caught:
        lance_core.dataset(nested.uri).scanner([column])
    assert named in str(caught.value)


def test_columns_named_twice_are_refused(nested):
    for columns in (["Case", "Case"], ["maybe.x", "maybe.x"], ["_rowid", "_rowid"]):
        with pytest.raises(InvalidInputError, match=columns[0]):
            lance_core.dataset(nested.uri).scanner(columns)


def test_extension_types_are_those_of_the_reference(tmp_path):
    table = pa.table(
        {
            "key": pa.array([bytes([k]) * 16 for k in range(9)], pa.binary(16)).view(pa.uuid()),
            "inside": pa.StructArray.from_arrays(
                [pa.array([bytes([k]) * 16 for k in range(9)], pa.binary(16)).view(pa.uuid())], names=["key"]
            ),
        }
    )
    reference = lance.write_dataset(table, str(tmp_path / "uuid.lance"), max_rows_per_file=4)
    for columns in (None, ["inside.key"]):
        expected = reference.to_table(columns=columns)
        assert_tables_equal(expected, lance_core.dataset(tmp_path / "uuid.lance").to_table(columns))
