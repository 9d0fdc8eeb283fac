"""Dictionaries of floats, whose values differ by batch, with NaNs and nulls among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.encodings.values import concat_arrays, flatten_lists
from support.runs.each_case import each_case

FLOATS = [pa.float16(), pa.float32(), pa.float64()]
BATCHES: list[list[float | None]] = [[1.0, 2.0], [2.0, 3.0], [float("nan"), -0.0], [1.5, None], [None, 2.5]]
KEYS = [0, 1, None, 1, 0, 0]
NESTED = ["plain", "list", "large_list", "struct", "list of structs"]


def dictionary(items: list[float | None], value_type: pa.DataType) -> pa.DictionaryArray:
    width = f"f{value_type.bit_width // 8}"
    values = np.array([0 if item is None else item for item in items], width)
    nulls = np.array([item is None for item in items])
    return pa.DictionaryArray.from_arrays(pa.array(KEYS, pa.int8()), pa.array(values, mask=nulls))


def nested(kind: str, array: pa.Array) -> pa.Array:
    """Three rows, or six where they are no lists."""
    if "struct" in kind:
        array = pa.StructArray.from_arrays([array], ["x"])
    if "list" not in kind:
        return array
    offsets, nulls = [0, 1, 3, 6], pa.array([False, True, False])
    made = pa.LargeListArray if kind == "large_list" else pa.ListArray
    offset_type = pa.int64() if kind == "large_list" else pa.int32()
    return made.from_arrays(pa.array(offsets, offset_type), array, mask=nulls)


def same(found: Any, expected: Any) -> bool:
    """With the sign of zero, and NaNs that are equal."""
    return repr(found) == repr(expected)


@each_case("value_type", FLOATS)
@each_case("kind", [*NESTED, "map"])
def test_joined_and_flattened_values_are_the_same(kind: str, value_type: pa.DataType) -> None:
    if kind == "map":
        keys = pa.array(["a", "b", "c", "d", "e", "f"])
        arrays = [
            pa.MapArray.from_arrays(pa.array([0, 2, 2, 6], pa.int32()), keys, dictionary(items, value_type))
            for items in BATCHES[:3]
        ]
    else:
        arrays = [nested(kind, dictionary(items, value_type)) for items in BATCHES[:3]]
    arrays = [arrays[0].slice(3), *arrays, arrays[1].slice(1, 1)]

    joined = concat_arrays(arrays)

    joined.validate(full=True)
    assert joined.type == arrays[0].type
    expected = [value for array in arrays for value in array.to_pylist()]
    assert same(joined.to_pylist(), expected)
    if "list" in kind:
        items = [item for value in expected if value is not None for item in value]
        assert same(flatten_lists(joined).to_pylist(), items)


def test_nulls_below_null_structs_are_joined_where_the_field_has_none() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array([1.5, float("nan")]))
    structs = pa.StructArray.from_arrays(
        [values], fields=[pa.field("x", values.type, nullable=False)], mask=pa.array([False, True, False])
    )
    lists = pa.ListArray.from_arrays(
        [0, 2, 3], structs, type=pa.list_(pa.field("item", structs.type, nullable=False))
    )

    joined = concat_arrays([lists, lists.slice(1)])

    joined.validate(full=True)
    assert joined.type == lists.type
    assert same(joined.to_pylist(), lists.to_pylist() + lists.slice(1).to_pylist())
    assert same(flatten_lists(joined).to_pylist(), structs.to_pylist() + structs.slice(2).to_pylist())


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("value_type", FLOATS)
@pytest.mark.parametrize("kind", NESTED)
def test_values_are_kept_by_writes_and_changes(
    kind: str, value_type: pa.DataType, version: str, tmp_path: Path
) -> None:
    arrays = [nested(kind, dictionary(items, value_type)) for items in BATCHES]
    table = pa.concat_tables([pa.table({"c": array}) for array in arrays])
    table = table.append_column("id", pa.array(range(table.num_rows)))
    rows = dict(zip(table["id"].to_pylist(), table["c"].to_pylist(), strict=True))

    def check() -> lance_core.LanceDataset:
        dataset = lance_core.dataset(tmp_path)
        dataset.validate()
        for found in (
            dataset.to_table(),
            dataset.to_table(batch_size=4),
            dataset.take(list(range(len(rows)))),
        ):
            assert same(dict(zip(found["id"].to_pylist(), found["c"].to_pylist(), strict=True)), rows)
        return dataset

    # The reference reads no file whose pages have other dictionaries.
    lance_core.write_dataset(
        table.slice(0, len(arrays[0]) * 3), tmp_path / "one", data_storage_version=version
    )
    read = lance.dataset(str(tmp_path / "one")).to_table()
    assert same(read["c"].to_pylist(), table["c"].to_pylist()[: len(arrays[0]) * 3])

    lance_core.write_dataset(table, tmp_path, data_storage_version=version, max_rows_per_file=4)
    check().delete("id = 1")
    del rows[1]
    check().optimize.compact_files()
    changed = pa.concat_tables([table.slice(len(arrays[0]), 2), table.slice(table.num_rows - 2)])
    ids = [0, 2, 100, 101]
    moved = dict(zip(ids, changed["c"].to_pylist(), strict=True))
    rows = {key: value for key, value in rows.items() if key not in moved} | moved
    merge = (
        lance_core.dataset(tmp_path)
        .merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
    )
    merge.execute(changed.set_column(1, "id", pa.array(ids)))
    check()


@pytest.mark.parametrize("value_type", FLOATS)
@pytest.mark.parametrize("kind", ["plain", "struct", "list"])
def test_values_are_kept_where_columns_are_updated(
    kind: str, value_type: pa.DataType, tmp_path: Path
) -> None:
    first, *others = (nested(kind, dictionary(items, value_type)) for items in BATCHES)
    old = pa.table({"id": range(len(first)), "c": first})
    dataset = lance_core.write_dataset(old, tmp_path)
    new = pa.concat_tables(
        [
            pa.table({"id": [row], "c": array.slice(2, 1)})
            for row, array in zip([2, 0], others[1:], strict=False)
        ]
    )

    fragment, fields = dataset.get_fragments()[0].update_columns(new, "id", "id")
    operation = lance_core.LanceOperation.Update([], [fragment], [], fields_modified=fields)
    lance_core.LanceDataset.commit(tmp_path, operation, read_version=1)

    expected = dict(zip(range(len(first)), first.to_pylist(), strict=True))
    expected |= dict(zip([2, 0], new["c"].to_pylist(), strict=True))
    for read in (lance_core.dataset(tmp_path), lance.dataset(str(tmp_path))):
        assert same(read.to_table()["c"].to_pylist(), list(expected.values()))
