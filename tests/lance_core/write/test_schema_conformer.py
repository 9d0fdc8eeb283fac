"""Types that can be appended to each other, compared with the answer of the reference on a copy."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.schema import schema_from_arrow
from lance_core.write.schema_conformer import Conformer
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.tables.arrays import Spec, make_array

UUIDS = pa.array([b"0" * 16], pa.binary(16))
PAIR = pa.array([{"x": 1, "y": "a"}], pa.struct([("x", pa.int32()), ("y", pa.string())]))


def _struct(value: object, nullable: bool = True) -> pa.Array:
    return pa.array([value], pa.struct([pa.field("x", pa.int8(), nullable)]))


def _list(value: object, name: str = "item", nullable: bool = True) -> pa.Array:
    return pa.array([value], pa.list_(pa.field(name, pa.int8(), nullable)))


def _map(value: object, key: str = "key") -> pa.Array:
    return pa.array([value], pa.map_(pa.field(key, pa.string(), nullable=False), pa.int8()))


def _tensor(*shape: int) -> pa.Array:
    tensor = pa.fixed_shape_tensor(pa.int8(), shape)
    return pa.ExtensionArray.from_storage(tensor, pa.array([list(range(6))], tensor.storage_type))


CASES = {
    "same": (pa.array([1]), pa.array([2])),
    "type": (pa.array([1], pa.int32()), pa.array([2])),
    "large_string": (pa.array(["a"]), pa.array(["b"], pa.large_string())),
    "string_view": (pa.array(["a"]), pa.array(["b"], pa.string_view())),
    "binary_view": (pa.array([b"a"]), pa.array([b"b"], pa.binary_view())),
    "dictionary": (pa.array(["a"]), pa.array(["a"]).dictionary_encode()),
    "no_dictionary": (pa.array(["a"]).dictionary_encode(), pa.array(["a"])),
    "null": (pa.array(["a"]), pa.nulls(1)),
    "zone": (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
    "dimension": (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), pa.array([[1, 2, 3]], pa.list_(pa.int8(), 3))),
    "extension": (pa.ExtensionArray.from_storage(pa.uuid(), UUIDS), UUIDS),
    "no_extension": (UUIDS, pa.ExtensionArray.from_storage(pa.uuid(), UUIDS)),
    "both_extension": (
        pa.ExtensionArray.from_storage(pa.uuid(), UUIDS),
        pa.ExtensionArray.from_storage(pa.uuid(), UUIDS),
    ),
    "item_name": (_list([1]), _list([1], "element")),
    "item_required": (_list([1]), _list([1], nullable=False)),
    "item_nullable": (_list([1], nullable=False), _list([1])),
    "item_null": (_list([1], nullable=False), _list([None])),
    "child_nullable": (_struct({"x": 1}, nullable=False), _struct({"x": 2})),
    "child_null": (_struct({"x": 1}, nullable=False), _struct({"x": None})),
    "child_null_below_null": (_struct({"x": 1}, nullable=False), _struct(None)),
    "child_missing": (PAIR, pa.array([{"x": 5}], pa.struct([("x", pa.int32())]))),
    "child_extra": (PAIR, pa.array([{"x": 5, "z": 1}], pa.struct([("x", pa.int32()), ("z", pa.int8())]))),
    "child_order": (PAIR, pa.array([{"y": "q", "x": 5}], pa.struct([("y", pa.string()), ("x", pa.int32())]))),
    "child_type": (PAIR, pa.array([{"x": 5}])),
    "no_child": (PAIR, pa.array([{}], pa.struct([]))),
    "in_list_order": (pa.array([[{"x": 1, "y": 2}]]), pa.array([[{"y": 1, "x": 7}, None], None])),
    "in_list_missing": (pa.array([[{"x": 1, "y": 2}]]), pa.array([[{"x": 1}], []])),
    "in_list_extra": (pa.array([[{"x": 1}]]), pa.array([[{"x": 1, "y": 2}]])),
    "tensor": (_tensor(2, 3), _tensor(2, 3)),
    "tensor_of_other_shape": (_tensor(2, 3), _tensor(3, 2)),
    "map": (_map([("a", 1)]), _map([("b", 2), ("c", None)])),
    "map_key_name": (_map([("a", 1)]), _map([("b", 2)], "k")),
}
SAYS_NO_LATER = {"no_child": "the reference appends a struct without any of its children, and cannot read it"}


@each_case("name", CASES)
def test_a_column_is_taken_or_refused_as_by_the_reference(name: str, tmp_path: Path) -> None:
    ours, theirs = (_appended(library, name, tmp_path) for library in (lance_core, lance))

    if isinstance(ours, Exception):
        assert isinstance(ours, InvalidInputError)
        assert "column c" in str(ours)
        assert isinstance(theirs, OSError) or name in SAYS_NO_LATER
    else:
        assert ours == theirs


def _appended(library: ModuleType, name: str, tmp_path: Path) -> list[object] | Exception:
    """Return the rows after the append, or why there was none."""
    path = str(tmp_path / library.__name__)
    first, second = (pa.table({"c": array}) for array in CASES[name])
    lance.write_dataset(first, path)
    try:
        library.write_dataset(second, path, mode="append")
        rows: list[object] = lance.dataset(path).to_table().to_pylist()
    except (OSError, ValueError) as error:
        return error
    return rows


TABLE = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "c": [1.5]})
REQUIRED = pa.schema([pa.field("a", pa.int32(), nullable=False), ("b", pa.string()), ("c", pa.float64())])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("columns", [["c", "a", "b"], ["b"], ["c", "a"]])
def test_columns_in_any_order_and_some_of_them(columns: list[str], version: str, tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path, data_storage_version=version)

    lance_core.write_dataset(TABLE.select(columns), tmp_path, mode="append")

    appended = {name: TABLE[name].to_pylist() if name in columns else [None] for name in TABLE.schema.names}
    for opened in (lance_core.dataset(tmp_path), lance.dataset(str(tmp_path))):
        assert opened.to_table().slice(1).to_pydict() == appended
        assert opened.to_table().schema == TABLE.schema
    assert lance.dataset(str(tmp_path)).validate() is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.append_column("d", pa.array([1])), r"column d.*unexpected \[d\]"),
        (
            TABLE.rename_columns(["A", "b", "c"]),
            r"column A.*unexpected \[A\], missing and not nullable \[a\]",
        ),
        (TABLE.select(["b", "c"]), r"column a.*missing and not nullable \[a\]"),
        (TABLE.set_column(0, "a", pa.array(["1"])), r"column a, expected int32, found string"),
        (
            TABLE.set_column(0, "a", pa.array([None], pa.int32())),
            r"null in a column that allows none.*column a",
        ),
    ],
)
def test_messages_name_the_column(table: pa.Table, message: str, tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE.cast(REQUIRED), tmp_path)

    with pytest.raises(InvalidInputError, match=message):
        lance_core.write_dataset(table, tmp_path, mode="append")

    assert lance_core.dataset(tmp_path).version == 1
    assert len(list(tmp_path.rglob("*.lance"))) == 1


def test_nulls_are_refused_in_new_datasets_too(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("s", pa.struct([pa.field("x", pa.int8(), nullable=False)]))])
    good = pa.table({"s": pa.array([None, {"x": 1}], schema.field("s").type)}, schema=schema)
    lance_core.write_dataset(good, tmp_path / "good")
    assert lance.dataset(str(tmp_path / "good")).to_table().to_pydict() == good.to_pydict()

    child = pa.array([None, 1], pa.int8())
    bad = pa.StructArray.from_arrays([child], fields=list(schema.field("s").type))
    with pytest.raises(InvalidInputError, match=r"column s\.x, found row 0"):
        lance_core.write_dataset(pa.Table.from_arrays([bad], schema=schema), tmp_path / "bad")


@pytest.mark.parametrize(
    ("kept", "given"),
    [('{"unit":"m"}', '{"unit": "m"}'), ("", None), (None, ""), ("[" * 100_000, "[" * 100_000)],
)
def test_parameters_of_extension_types_that_mean_the_same(
    kept: str | None, given: str | None, tmp_path: Path
) -> None:
    """T19: metadata of extension types comes from clients, and is compared as JSON if it is JSON."""

    def column(parameters: str | None) -> pa.Table:
        metadata = {"ARROW:extension:name": "length"}
        if parameters is not None:
            metadata["ARROW:extension:metadata"] = parameters
        return pa.table({"c": [1]}, schema=pa.schema([pa.field("c", pa.int64(), metadata=metadata)]))

    lance_core.write_dataset(column(kept), tmp_path)
    appended = lance_core.write_dataset(column(given), tmp_path, mode="append")
    with pytest.raises(InvalidInputError, match=r"extension type has other parameters.*column c"):
        lance_core.write_dataset(column("{}"), tmp_path, mode="append")

    assert appended.count_rows() == 2


def test_a_batch_of_another_schema_is_refused(tmp_path: Path) -> None:
    """T27: the reference writes the matching columns and leaves out the rest; here the error names the
    difference.
    """
    lying = pa.RecordBatchReader.from_batches(TABLE.schema, iter([pa.record_batch({"b": ["x"]})]))

    with pytest.raises(InvalidInputError, match="another schema than announced"):
        lance_core.write_dataset(lying, tmp_path)

    assert not list(tmp_path.rglob("*.lance"))


NESTED = pa.schema(
    [
        (
            "s",
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("x", pa.int8()), ("y", pa.utf8())])))]),
        ),
        ("l", pa.large_list(pa.struct([("x", pa.uuid()), ("z", pa.list_(pa.int16(), 2))]))),
        ("m", pa.map_(pa.int32(), pa.struct([("p", pa.utf8()), ("q", pa.int64())]))),
        ("f", pa.list_(pa.struct([("u", pa.int8()), ("v", pa.list_(pa.utf8()))]), 3)),
        ("d", pa.dictionary(pa.int8(), pa.utf8())),
    ]
)


def _reversed(data_type: pa.DataType) -> pa.DataType:
    """Return the type with the children of every struct in reverse order."""
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_reversed(field.type)) for field in reversed(list(data_type))])
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, _reversed(data_type.item_type))
    if pa.types.is_large_list(data_type):
        return pa.large_list(_reversed(data_type.value_type))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(_reversed(data_type.value_type), data_type.list_size)
    if pa.types.is_list(data_type):
        return pa.list_(_reversed(data_type.value_type))
    return data_type


@settings(deadline=None, max_examples=draws(40))
@given(
    seed=st.integers(0, 1 << 32),
    start=st.integers(0, 40),
    nulls=st.sampled_from(["none", "sparse", "half", "all"]),
    backwards=st.booleans(),
)
def test_slices_of_nested_rows_keep_their_values(seed: int, start: int, nulls: str, backwards: bool) -> None:
    rng = np.random.default_rng(seed)
    fields = [field.with_type(_reversed(field.type)) if backwards else field for field in NESTED]
    arrays = [make_array(field, 60, Spec("random", nulls), rng) for field in fields]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)).slice(start, 15)

    conformed = Conformer(schema_from_arrow(NESTED), batch.schema).conform(batch)

    conformed.validate(full=True)
    assert conformed.schema.names == NESTED.names
    assert conformed.to_pylist() == _storage(batch).to_pylist()


def _storage(batch: pa.RecordBatch) -> pa.RecordBatch:
    """UUIDs as bytes."""
    type_ = pa.large_list(
        pa.struct(
            [
                field.with_type(pa.binary(16)) if field.name == "x" else field
                for field in batch.schema.field("l").type.value_type
            ]
        )
    )
    index = batch.schema.get_field_index("l")
    return batch.set_column(index, "l", batch.column(index).cast(type_))


@pytest.mark.parametrize("view_type", [pa.string_view(), pa.binary_view()])
@pytest.mark.parametrize("length", [-(1 << 31), -1, 13, (1 << 31) - 1])
def test_what_lies_below_the_nulls_of_views(tmp_path: Path, view_type: pa.DataType, length: int) -> None:
    """T15: Arrow holds any view below a null to be valid, and casts some of them with a crash."""
    values = ["short", None, "y" * 40, None] * 10
    validity, views, *data = pa.array(values, pa.string_view()).buffers()
    hidden = np.frombuffer(views, np.int32).reshape(-1, 4).copy()
    hidden[1::2] = (length, 0x41414141, 1 << 20, 7)
    buffers = [validity, pa.py_buffer(hidden), *data]
    array = pa.Array.from_buffers(view_type, len(values), buffers).slice(3, 30)
    array.validate(full=True)
    words = pa.DictionaryArray.from_arrays(range(30), array)
    dataset = lance_core.write_dataset(pa.table({"x": array, "words": words}), tmp_path / "t")
    expected = pa.array(values[3:33]).cast(dataset.schema.field("x").type)
    found = dataset.to_table()
    assert found["x"].combine_chunks().equals(expected)
    assert found["words"].to_pylist() == expected.to_pylist()
    assert found.schema.field("words").type == pa.dictionary(pa.int64(), expected.type)
