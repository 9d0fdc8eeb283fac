"""The comparison that all tests of the matrix rest on: what it calls different, and what it does not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from support.oracles.comparison import TableDifferenceError, assert_tables_equal
from support.runs.each_case import each_case

NAN_PAYLOADS = np.array([0x7FF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)


def _table(array: pa.Array, **field: object) -> pa.Table:
    return pa.table({"c": array}, pa.schema([pa.field("c", array.type, **field)]))


@each_case(
    ("expected", "found", "message"),
    [
        (pa.array([1, 2, 3]), pa.array([1, 5, 3]), "row 1"),
        (pa.array([1.0, 0.0]), pa.array([1.0, -0.0]), "row 1.*0x8000000000000000"),
        (pa.array(NAN_PAYLOADS[:1]), pa.array(NAN_PAYLOADS[1:]), "0x7ff8000000000001"),
        (pa.array([1, None]), pa.array([1, 0]), "row 1: element 1: expected null, found a value"),
        (pa.array(["a", ""]), pa.array(["a", None]), "expected a value, found null"),
        (pa.array(["a", "b"]), pa.array(["a", "c"]), "expected 'b', found 'c'"),
        (pa.array([[1], [2, 3]]), pa.array([[1], [2]]), "row 1.*a list of 2 items, found 1"),
        (pa.array([[1], [], [2, 3]]), pa.array([[1], [], [2, 4]]), "row 2: element 2: expected 3, found 4"),
        (pa.array([[1], None]), pa.array([[1], []]), "row 1: element 1: expected null"),
        (pa.array([{"a": 1}, {"a": 2}]), pa.array([{"a": 1}, {"a": 3}]), r"c\.a: row 1"),
        (pa.array([{"a": None}]), pa.array([None], pa.struct([("a", pa.null())])), "c: row 0"),
        (pa.array([True]), pa.array([False]), "expected True, found False"),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64()), "expected type int32, found int64"),
        (pa.array([1]), pa.array([1, 2]), "expected 1 rows, found 2"),
    ],
)
def test_differences_are_found_and_named(expected: pa.Array, found: pa.Array, message: str) -> None:
    with pytest.raises(TableDifferenceError, match=f"(?s){message}"):
        assert_tables_equal(_table(expected), _table(found))


_NESTS_OF_FLOATS = {
    "list": lambda leaf: pa.ListArray.from_arrays([0, 1, 2], leaf),
    "large list": lambda leaf: pa.LargeListArray.from_arrays([0, 1, 2], leaf),
    "vectors": lambda leaf: pa.FixedSizeListArray.from_arrays(leaf, 2),
    "struct": lambda leaf: pa.StructArray.from_arrays([leaf, pa.array(["a", None])], ["f", "s"]),
    "map": lambda leaf: pa.MapArray.from_arrays([0, 1, 2], ["a", "b"], leaf),
    "map by floats": lambda leaf: pa.MapArray.from_arrays([0, 1, 2], leaf, ["a", "b"]),
    "dictionary": lambda leaf: pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), leaf),
    "tensor": lambda leaf: pa.FixedShapeTensorArray.from_storage(
        pa.fixed_shape_tensor(leaf.type, (2,)), pa.FixedSizeListArray.from_arrays(leaf, 2)
    ),
}


@each_case("width", [16, 32, 64])
@each_case("nest", _NESTS_OF_FLOATS)
def test_bits_of_nested_floats_count(nest: str, width: int) -> None:
    def build(second: float) -> pa.Table:
        return _table(_NESTS_OF_FLOATS[nest](pa.array(np.array([np.nan, second], f"f{width // 8}"))))

    assert_tables_equal(build(0.0), build(0.0))
    with pytest.raises(TableDifferenceError, match=r"expected 0\.0, found -0\.0"):
        assert_tables_equal(build(0.0), build(-0.0))


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"nullable": False}, {"nullable": True}),
        ({"metadata": {"k": "v"}}, {}),
        ({"metadata": {"k": "v"}}, {"metadata": {"k": "w"}}),
    ],
)
def test_nullability_and_metadata_count(expected: dict[str, object], found: dict[str, object]) -> None:
    values = pa.array([1, 2])
    with pytest.raises(TableDifferenceError, match="expected"):
        assert_tables_equal(_table(values, **expected), _table(values, **found))


def test_names_of_items_count() -> None:
    left = pa.array([[1]], pa.list_(pa.field("item", pa.int64())))
    right = pa.array([[1]], pa.list_(pa.field("element", pa.int64())))
    with pytest.raises(TableDifferenceError, match="named 'item', found 'element'"):
        assert_tables_equal(_table(left), _table(right))


def test_what_lies_below_nulls_does_not_count() -> None:
    def build(below: int) -> pa.Array:
        values = pa.array([1, below, 3])
        validity = pa.py_buffer(b"\x05")
        numbers = pa.Array.from_buffers(pa.int64(), 3, [validity, values.buffers()[1]])
        lists = pa.Array.from_buffers(
            pa.list_(pa.int64()), 3, [validity, pa.py_buffer(np.arange(4, dtype=np.int32))], children=[values]
        )
        structs = pa.Array.from_buffers(pa.struct([("n", pa.int64())]), 3, [validity], children=[values])
        return pa.StructArray.from_arrays([numbers, lists, structs], ["numbers", "lists", "structs"])

    assert_tables_equal(_table(build(7)), _table(build(8)))


def test_chunks_and_slices_do_not_count() -> None:
    whole = _table(pa.array([[{"a": i, "b": "x" * i}] * (i % 3) if i % 4 else None for i in range(100)]))
    pieces = pa.concat_tables([whole.slice(0, 33), whole.slice(33, 1), whole.slice(34)])
    assert_tables_equal(whole, pieces)
    assert_tables_equal(pieces.slice(40, 20), whole.slice(40, 20))


def test_unsound_results_are_not_compared() -> None:
    offsets = pa.py_buffer(np.array([0, 5, 3], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abcde")])
    with pytest.raises(TableDifferenceError, match="not valid Arrow data"):
        assert_tables_equal(_table(pa.array(["abcde", ""])), _table(broken))
