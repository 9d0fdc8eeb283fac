"""Columns of every type that has a name in Lance, with extension types wherever they may stand."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from support.runs.each_case import each_case

UUIDS = pa.array([bytes([number]) * 16 for number in range(6)], pa.binary(16))


def _uuids(count: int = 6) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), UUIDS.slice(0, count))


def _tensors() -> pa.Array:
    type_ = pa.fixed_shape_tensor(pa.float32(), [2, 2], ["x", "y"])
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(24, dtype=np.float32)), 4)
    return pa.ExtensionArray.from_storage(type_, rows)


COLUMNS = {
    "uuid": _uuids(),
    "tensor": _tensors(),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None, 1, 0, 2], pa.int8())),
    "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "t", "v"), pa.array(range(6), pa.int32())),
    "list of uuid": pa.ListArray.from_arrays(pa.array([0, 2, None, 3, 3, 5, 6], pa.int32()), _uuids()),
    "struct of uuid": pa.StructArray.from_arrays(
        [_uuids(), pa.array(range(6))], ["u", "n"], mask=pa.array([False, True, False, False, True, False])
    ),
    "views": pa.array(["a", None, "", "a longer text than fits into a view", "b", "c"], pa.string_view()),
    "binary views": pa.array([b"a", None, b"", b"a longer text than fits", b"b", b"c"], pa.binary_view()),
    "list of views": pa.array([["a"], None, [], ["b", None], ["c"], ["d"]], pa.list_(pa.string_view())),
    "bfloat16": pa.array([[b"ab", b"cd"]] * 6, pa.list_(pa.binary(2), 2)),
    "ordered": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 0, 1, 1], pa.int8()), ["x", "y"], ordered=True
    ),
    "required": pa.array(range(6), pa.int8()),
}
BFLOAT16 = pa.field(
    "item", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
)


def _field(name: str) -> pa.Field:
    if name == "bfloat16":
        return pa.field(name, pa.list_(BFLOAT16, 2))
    return pa.field(name, COLUMNS[name].type, name != "required", None if name == "uuid" else {"note": name})


@each_case("version", ["2.1", "2.2"])
@each_case("name", COLUMNS)
def test_schema_and_values_are_what_the_reference_would_have_stored(
    name: str, version: str, tmp_path: Path
) -> None:
    array, field = COLUMNS[name], _field(name)
    if name == "bfloat16":
        _, capsule = array.__arrow_c_array__()
        array = pa.Array._import_from_c_capsule(field.type.__arrow_c_schema__(), capsule)
    table = pa.Table.from_arrays([array, pa.array(range(6))], schema=pa.schema([field, ("id", pa.int64())]))
    paths = {"ours": tmp_path / "ours", "theirs": tmp_path / "theirs"}
    lance_core.write_dataset(table.slice(1), paths["ours"], data_storage_version=version)
    lance.write_dataset(table.slice(1), str(paths["theirs"]), data_storage_version=version)

    expected = lance.dataset(str(paths["theirs"])).to_table()

    for found in (lance.dataset(str(paths["ours"])), lance_core.dataset(paths["ours"])):
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_table().to_pylist() == expected.to_pylist()
    assert lance.dataset(str(paths["ours"])).validate() is None


@pytest.mark.parametrize(
    "item",
    [
        pa.string_view(),
        pa.list_(pa.binary_view(), 2),
        pa.dictionary(pa.int8(), pa.string_view()),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_fixed_size_lists_of_what_has_no_width_are_refused_by_name(item: pa.DataType, tmp_path: Path) -> None:
    """Dictionaries were written without their values, and views ended in an error of Arrow's."""
    text = pa.nulls(6, item)
    if pa.types.is_string_view(item):
        text = pa.array(["a text that is longer than what fits into a view"] * 6, item)
    lists = pa.FixedSizeListArray.from_arrays(text, 3)
    table = pa.table({"id": [1, 2], "lists": lists})
    for version in ("0.1", "2.0", "2.1", "2.2"):
        with pytest.raises(NotImplementedError, match="column lists"):
            lance_core.write_dataset(table, tmp_path, data_storage_version=version)
    assert not list(tmp_path.rglob("*.lance"))


def test_rows_without_a_value_below_come_through_the_c_interface(tmp_path: Path) -> None:
    """Arrow's C interface passes no bytes of an empty array with an offset, such as maps without entries."""
    maps = pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int32())).slice(1)

    dataset = lance_core.write_dataset(pa.table({"m": maps}), tmp_path)

    assert dataset.to_table()["m"].to_pylist() == [[], None]
    assert lance.dataset(str(tmp_path)).to_table()["m"].to_pylist() == [[], None]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("width", [1 << 20, (1 << 20) + 1])
def test_values_of_a_fixed_width_of_a_megabyte_and_more(width: int, version: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    values = [rng.bytes(width), rng.bytes(width), rng.bytes(width)]
    table = pa.table({"id": [1, 2, 3], "wide": pa.array(values, pa.binary(width))})

    ours = lance_core.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=version)

    ours.validate()
    assert lance.dataset(str(tmp_path / "ours")).to_table().equals(table)
    for dataset in (ours, lance_core.dataset(tmp_path / "theirs")):
        for _ in range(2):  # the second time with what the first one learnt
            found = dataset.to_table(filter="wide IS NOT NULL AND id > 1")
            assert found["wide"].to_pylist() == values[1:]
