"""Decoded values as Arrow arrays: sliced anywhere, refused where they do not fit the type."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.encodings.values import (
    DictionaryValues,
    FixedValues,
    ListValues,
    NoValues,
    PackedValues,
    Values,
    VariableValues,
    concat_arrays,
    flatten_lists,
    seen_as,
    take_values,
)
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.twins import inputs, values

COUNT = 40
RNG = random.Random(1)
NUMBERS = list(range(COUNT))
FLAGS = [RNG.random() < 0.5 for _ in range(2 * COUNT)]
TEXTS = [RNG.randbytes(RNG.randrange(4)) for _ in range(COUNT)]
INT32 = FixedValues(pa.py_buffer(np.array(NUMBERS, "<i4").tobytes()), 32)
BITS = FixedValues(pa.py_buffer(inputs.bitmap(FLAGS)), 1)
BYTES = FixedValues(pa.py_buffer(bytes(3 * flag for flag in FLAGS)), 8)
BINARY = VariableValues(pa.py_buffer(values.arrow_offsets(TEXTS, 32)), pa.py_buffer(b"".join(TEXTS)), 32)
PAIRS = ListValues(BITS, 2, pa.py_buffer(inputs.bitmap([not flag for flag in FLAGS])))
WORDS = pa.array(["a", "b"])
INDICES = FixedValues(pa.py_buffer(bytes(i % 2 for i in NUMBERS)), 8)

CASES: dict[str, tuple[Values, pa.DataType, list[object]]] = {
    "numbers": (INT32, pa.int32(), NUMBERS),
    "bits": (BITS, pa.bool_(), FLAGS[:COUNT]),
    "a byte per bool": (BYTES, pa.bool_(), FLAGS[:COUNT]),
    "binaries": (BINARY, pa.binary(), TEXTS),
    "lists of bits with nulls": (
        PAIRS,
        pa.list_(pa.bool_(), 2),
        [[None if flag else flag for flag in FLAGS[2 * i : 2 * i + 2]] for i in NUMBERS],
    ),
    "packed structs": (
        PackedValues([INT32, BINARY]),
        pa.struct([("a", pa.int32()), ("b", pa.binary())]),
        [{"a": a, "b": b} for a, b in zip(NUMBERS, TEXTS, strict=True)],
    ),
    "dictionary": (
        DictionaryValues(INDICES, WORDS),
        pa.dictionary(pa.int8(), pa.string()),
        [WORDS[i % 2].as_py() for i in NUMBERS],
    ),
    "nothing": (NoValues(), pa.int32(), [None] * COUNT),
    "empty structs": (NoValues(), pa.struct([]), [{}] * COUNT),
}


@settings(max_examples=draws(25), deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", CASES)
def test_slices_of_slices(name: str, data: st.DataObject) -> None:
    """Bitmaps start anywhere in a byte; a slice of a slice counts from its own start."""
    container, arrow_type, rows = CASES[name]
    start = data.draw(st.integers(0, COUNT))
    length = data.draw(st.integers(0, COUNT - start))
    inner = data.draw(st.integers(0, length))
    count = data.draw(st.integers(0, length - inner))
    array = container.slice(start, length).slice(inner, count).to_arrow(count, arrow_type, None)
    array.validate(full=True)
    assert array.type == arrow_type
    assert array.to_pylist() == rows[start + inner : start + inner + count]


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("nothing",)])
def test_validity_hides_values(name: str) -> None:
    container, arrow_type, rows = CASES[name]
    validity = pa.py_buffer(inputs.bitmap(FLAGS[:COUNT]))
    array = container.to_arrow(COUNT, arrow_type, validity)
    array.validate(full=True)
    assert array.to_pylist() == [
        row if valid else None for row, valid in zip(rows, FLAGS[:COUNT], strict=True)
    ]


@each_case(
    ("container", "arrow_type", "count"),
    [
        (INT32, pa.int64(), 2),
        (INT32, pa.int32(), COUNT + 1),
        (INT32, pa.string(), 2),
        (INT32, pa.dictionary(pa.int32(), pa.string()), 2),
        (BITS, pa.int8(), 2),
        (BITS, pa.bool_(), 2 * COUNT + 1),
        (BYTES, pa.bool_(), 2 * COUNT + 1),
        (BINARY, pa.large_binary(), 2),
        (BINARY, pa.int32(), 2),
        (PAIRS, pa.list_(pa.bool_(), 3), 2),
        (PAIRS, pa.list_(pa.bool_()), 2),
        (PAIRS, pa.list_(pa.int8(), 2), 2),
        (PackedValues([INT32]), pa.struct([("a", pa.int32()), ("b", pa.int32())]), 2),
        (PackedValues([INT32]), pa.struct([("a", pa.int16())]), 2),
        (PackedValues([INT32]), pa.int32(), 2),
    ],
)
def test_values_that_do_not_fit_the_type(container: Values, arrow_type: pa.DataType, count: int) -> None:
    """T22: a width, a shape or a number of values that the column does not have."""
    with pytest.raises(CorruptData):
        container.to_arrow(count, arrow_type, None)


def vectors_of_vectors(count: int) -> pa.FixedSizeListArray:
    inner = pa.FixedSizeListArray.from_arrays(pa.array(range(count * 6)), 3)
    return pa.FixedSizeListArray.from_arrays(inner, 2)


def cut_inside() -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(vectors_of_vectors(12).values.slice(3, 20), 2)


CUT = {
    "plain": lambda: vectors_of_vectors(12).slice(2),
    "inside": cut_inside,
    "struct": lambda: pa.StructArray.from_arrays([vectors_of_vectors(12)], ["v"]).slice(2),
    "list": lambda: pa.ListArray.from_arrays([0, 3, 4, 4, 7, 10], vectors_of_vectors(12).slice(2)),
    "map": lambda: pa.MapArray.from_arrays(
        [0, 3, 4, 4, 7, 10], pa.array(range(10)), vectors_of_vectors(12).slice(2)
    ),
}


@pytest.mark.parametrize("kind", CUT)
def test_vectors_of_vectors_are_taken_from_their_places(kind: str) -> None:
    """Arrow takes others, or what lies behind its buffers, where the first is not the first of the buffer."""
    array = CUT[kind]()
    expected = array.to_pylist()

    found = take_values(array, pa.array([4, 0, None, 3]))

    found.validate(full=True)
    assert found.to_pylist() == [expected[4], expected[0], None, expected[3]]


@pytest.mark.parametrize("value_type", [pa.float16(), pa.float64()])
def test_nothing_of_a_dictionary_of_floats_is_joined(value_type: pa.DataType) -> None:
    items = pa.array(np.array([1.5, 2.5], value_type.to_pandas_dtype()))
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0, 1], pa.int8()), items)
    empty = pa.ListArray.from_arrays([0, 0, 0], array.slice(3, 0))

    for nothing in (array.slice(3, 0), pa.StructArray.from_arrays([array], ["x"]).slice(3, 0), empty):
        joined = concat_arrays([nothing, nothing])
        joined.validate(full=True)
        assert joined.to_pylist() == [*nothing.to_pylist(), *nothing.to_pylist()]


def test_nothing_of_an_array_is_seen_as_another_type() -> None:
    lists = pa.ListArray.from_arrays([0, 0], pa.array([b"ab", b"cd"], pa.binary(2)).slice(1, 0))

    seen = seen_as(pa.list_(pa.binary(2)), lists)

    assert pa.concat_arrays([seen, seen]).to_pylist() == [[], []]


@pytest.mark.parametrize("item", [pa.struct([("u", pa.uuid())]), pa.map_(pa.string(), pa.uuid())])
def test_lists_that_are_all_null_have_no_items(item: pa.DataType) -> None:
    for data_type in (pa.list_(item), pa.large_list(item), pa.list_(item, 2)):
        assert len(flatten_lists(pa.nulls(3, data_type))) == 0


def test_only_what_does_not_fit_into_one_array_is_a_matter_of_capacity() -> None:
    def dictionary(start: int) -> pa.Array:
        values = pa.array(range(start, start + 100))
        return pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), values)

    with pytest.raises(pa.ArrowCapacityError, match="larger index type"):
        concat_arrays([dictionary(0), dictionary(100)])
    with pytest.raises(pa.ArrowInvalid, match="identically typed"):
        concat_arrays([pa.array([1]), pa.array(["a"])])
